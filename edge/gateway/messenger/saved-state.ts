import * as v from "valibot";
import { isConflict, isNotFound } from "../../../crds/client/api-error.ts";
import { createBackoff } from "../../../crds/client/backoff.ts";
import { createDeferred, type Deferred, sleep } from "../../../crds/waits.ts";
import type { AdapterContext } from "../adapter.ts";
import type { SavedMessageIds } from "./sent-messages.ts";

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
  // States of earlier versions have none.
  carried: v.optional(v.array(carriedUpdateSchema), []),
});

/**
 * A reply in progress: written before its first message is sent, and again after each. So after a crash it is known
 * which message may have been sent (docs/decisions/messenger.md#a-reply-is-announced-before-it-is-sent).
 */
export interface PendingReply {
  /** Id of the update that it answers. */
  readonly update: number;
  readonly chat: number;
  /** SHA-256 of the whole reply: the first 16 hexadecimal digits. */
  readonly digest: string;
  /** Number of its messages. */
  readonly count: number;
  /** The first message that is not known to be sent. */
  readonly index: number;
  /** Whether that message may be in flight. */
  readonly sending: boolean;
  /**
   * A message id below the one in flight, and not below the bot's earlier ones in the chat; omitted if none is known.
   */
  readonly after?: number | undefined;
  /** Whether its id may be far above that. */
  readonly far?: boolean | undefined;
  /** Texts of the messages from `index` on; omitted if they did not fit into the state. */
  readonly parts?: readonly string[] | undefined;
}

/** An unanswered update below the offset, which the server no longer has. */
export interface CarriedUpdate {
  /** As the server sent it, or only its origin. */
  readonly update: Readonly<Record<string, unknown>>;
  /** Whether its content was dropped for lack of room. */
  readonly cut: boolean;
}

/** The adapter's part of the trigger's status. */
export interface SavedState {
  readonly version: 1;
  /** The owner of these updates: {@link BotIdentity.key}. */
  readonly bot: string;
  /** The session that wrote it: a session that reads another one here has been superseded. */
  readonly holder: string;
  /** All updates below it are answered or carried; undefined until the first one is. */
  readonly offset?: number | undefined;
  /** Date of the newest update seen, in seconds since the epoch. */
  readonly newest: number;
  /** Answered updates above the offset, since chats run concurrently. */
  readonly answered: readonly number[];
  readonly messages: SavedMessageIds;
  readonly replies: readonly PendingReply[];
  readonly carried: readonly CarriedUpdate[];
}

/** Reads the state; undefined if its version is unknown. */
export function parseSavedState(state: Record<string, unknown>): SavedState | undefined {
  const parsed = v.safeParse(savedStateSchema, state);
  return parsed.success ? parsed.output : undefined;
}

/** Number of conflicts with other writers of the object that are retried without a wait. */
const AT_ONCE = 5;

/** Another session has written the state since: this one must not send or write anything more. */
class SupersededError extends Error {
  override readonly name = "SupersededError";
}

/** Writes the state, one write at a time; changes during a write share the next one. */
export interface StateWriter {
  /** Offset in the last finished write. */
  readonly written: number | undefined;
  /** Whether the trigger was deleted, so that nothing can be written any more. */
  readonly gone: boolean;
  /**
   * Resolves when the current state is written, to the time at which that write began, in milliseconds since the epoch.
   *
   * @throws SupersededError, or the signal's reason
   */
  commit(): Promise<number>;
}

/**
 * @param options.signal ends the writer, and rejects pending commits
 * @param options.onLost called once when another session has taken over
 */
export function createStateWriter(options: {
  context: Pick<AdapterContext, "readState" | "writeState" | "clock" | "log">;
  save: () => SavedState;
  signal: AbortSignal;
  random: () => number;
  onLost: (error: SupersededError) => void;
}): StateWriter {
  const { context, save, signal, random, onLost } = options;
  let waiting: Deferred<number>[] = [];
  let writing = false;
  let written: number | undefined;
  let gone = false;
  let lost: SupersededError | undefined;

  async function writeAll(): Promise<void> {
    writing = true;
    while (waiting.length > 0) {
      const served = waiting;
      waiting = [];
      try {
        const began = await write();
        for (const { resolve } of served) resolve(began);
      } catch (error) {
        if (error instanceof SupersededError && lost === undefined) {
          lost = error;
          onLost(error);
        }
        for (const { reject } of [...served, ...waiting]) reject(error);
        waiting = [];
      }
    }
    writing = false;
  }

  async function write(): Promise<number> {
    const backoff = createBackoff({ initialMs: 200, maxMs: 10_000, random });
    for (let tries = 1; ; tries++) {
      signal.throwIfAborted();
      const began = context.clock.now();
      const state = save();
      try {
        await context.writeState({ ...state });
        written = state.offset;
        return began;
      } catch (error) {
        signal.throwIfAborted();
        if (isNotFound(error)) {
          gone = true;
          throw new SupersededError("the trigger was deleted, and its state with it");
        }
        if (!isConflict(error)) context.log.warn({ error }, "messenger state not written, retrying");
        else if ((await isMine(state.holder)) && tries <= AT_ONCE) continue;
        await sleep(backoff.next(), { clock: context.clock, signal });
      }
    }
  }

  /** Whether the conflicting write left the state unchanged. Reading also renews the precondition of the next write. */
  async function isMine(holder: string): Promise<boolean> {
    let state: Record<string, unknown>;
    try {
      state = await context.readState();
    } catch (error) {
      signal.throwIfAborted();
      context.log.warn({ error }, "messenger state not read, retrying");
      return false;
    }
    if (state.holder !== holder) throw new SupersededError("another poller of this bot has taken over");
    return true;
  }

  return {
    get written() {
      return written;
    },
    get gone() {
      return gone;
    },
    commit() {
      if (lost !== undefined) return Promise.reject(lost);
      if (signal.aborted) return Promise.reject(signal.reason);
      const commit = createDeferred<number>();
      waiting.push(commit);
      if (!writing) void writeAll();
      return commit.promise;
    },
  };
}
