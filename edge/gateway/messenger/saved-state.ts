import * as v from "valibot";
import type { SavedMessageIds } from "./message-ids.ts";

const id = v.pipe(v.number(), v.safeInteger());
const count = v.pipe(id, v.minValue(0));

const pendingReplySchema = v.object({
  update: count,
  chat: id,
  digest: v.string(),
  count,
  index: count,
  sending: v.boolean(),
  after: v.optional(count),
  far: v.optional(v.boolean()),
  parts: v.optional(v.array(v.string())),
});

const carriedUpdateSchema = v.object({ update: v.record(v.string(), v.unknown()), cut: v.boolean() });

const savedStateSchema = v.object({
  version: v.literal(1),
  bot: v.string(),
  holder: v.string(),
  offset: v.optional(count),
  newest: count,
  answered: v.array(count),
  messages: v.object({ shared: count, chats: v.array(v.tuple([id, count])) }),
  replies: v.array(pendingReplySchema),
  // States of before hold none.
  carried: v.optional(v.array(carriedUpdateSchema), []),
});

/**
 * A reply on its way: written before its first message is sent, and anew after each, so that whoever comes after a crash knows
 * which message may or may not have been sent (docs/decisions/741-answered-once.md).
 */
export interface PendingReply {
  /** Id of the update that it answers. */
  readonly update: number;
  readonly chat: number;
  /** SHA-256 of the whole reply, in hexadecimal, cut to 16 digits. */
  readonly digest: string;
  /** How many messages it takes. */
  readonly count: number;
  /** The first message that is not known to be sent. */
  readonly index: number;
  /** Whether that message may be under way. */
  readonly sending: boolean;
  /** A message id that the one under way is certainly above, and the bot's earlier ones in the chat are not; left out where none is known. */
  readonly after?: number | undefined;
  /** Whether its id may be far above that. */
  readonly far?: boolean | undefined;
  /** Texts of the messages from `index` on; left out where the state had no room for them. */
  readonly parts?: readonly string[] | undefined;
}

/** An unanswered update below the offset, which the server no longer has. */
export interface CarriedUpdate {
  /** As the server sent it, or no more of it than where it came from. */
  readonly update: Readonly<Record<string, unknown>>;
  /** Whether its content was left out for want of room. */
  readonly cut: boolean;
}

/** What the trigger's status keeps for the adapter. */
export interface SavedState {
  readonly version: 1;
  /** Whose updates these are: {@link BotIdentity.key}. */
  readonly bot: string;
  /** The session that wrote it: who reads another one here has been superseded. */
  readonly holder: string;
  /** All updates below it are answered or carried; undefined until the first is. */
  readonly offset?: number | undefined;
  /** Date of the newest update seen, in seconds since the epoch. */
  readonly newest: number;
  /** Updates from the offset on that are answered already, since chats run side by side. */
  readonly answered: readonly number[];
  readonly messages: SavedMessageIds;
  readonly replies: readonly PendingReply[];
  readonly carried: readonly CarriedUpdate[];
}

/** Reads what `readState` gave; undefined where it is of no version known here. */
export function parseSavedState(state: Record<string, unknown>): SavedState | undefined {
  const parsed = v.safeParse(savedStateSchema, state);
  return parsed.success ? parsed.output : undefined;
}
