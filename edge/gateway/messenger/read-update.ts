import * as v from "valibot";
import type { TriggerSpec } from "../../../crds/trigger.ts";
import type { IncomingEvent } from "../adapter.ts";
import { resolveTenant } from "../events/resolve-tenant.ts";

const id = v.pipe(v.number(), v.safeInteger());
const chat = v.looseObject({ id, type: v.optional(v.string()) });
const author = v.looseObject({ id, username: v.optional(v.string()) });
const message = v.looseObject({
  message_id: v.optional(id),
  message_thread_id: v.optional(id),
  is_topic_message: v.optional(v.boolean()),
  date: v.optional(id),
  edit_date: v.optional(id),
  chat: v.optional(chat),
  from: v.optional(author),
  user: v.optional(author),
  text: v.optional(v.string()),
  caption: v.optional(v.string()),
});
/**
 * Any kind of update: most are messages, the others contain the message that they refer to
 * (https://core.telegram.org/bots/api#update).
 */
const content = v.looseObject({ ...message.entries, message: v.optional(message) });

/** An update that can be answered. */
export interface BotUpdate {
  readonly updateId: number;
  /** `message`, `edited_message`, `callback_query`, … */
  readonly type: string;
  readonly chatId: number;
  /** `private`, `group`, `supergroup` or `channel`. */
  readonly chatType: string;
  readonly threadId?: number | undefined;
  readonly messageId?: number | undefined;
  readonly userId?: number | undefined;
  readonly username?: string | undefined;
  readonly text?: string | undefined;
  /** Seconds since the epoch, by the server's clock. */
  readonly date?: number | undefined;
  /** The update's content as received. */
  readonly data: unknown;
  /** Whether its content was dropped: only its origin is known. */
  readonly cut?: boolean;
}

/** An update that cannot be answered, and why; without an id the offset cannot even move past it. */
export interface UnusableUpdate {
  readonly updateId: number | undefined;
  readonly problem: string;
}

/** Reads an update; never throws, since one malformed update must not block the others. */
export function readUpdate(update: unknown): BotUpdate | UnusableUpdate {
  if (typeof update !== "object" || update === null) return { updateId: undefined, problem: "it is not an object" };
  const { update_id: updateId, ...contents } = update as Record<string, unknown>;
  if (!v.is(id, updateId) || updateId < 0) return { updateId: undefined, problem: "it has no update_id" };
  const [type, ...others] = Object.keys(contents);
  if (type === undefined) return { updateId, problem: "it is empty" };
  if (others.length > 0) return { updateId, problem: "it is of several types at once" };
  const parsed = v.safeParse(content, contents[type]);
  if (!parsed.success) {
    const path = v.getDotPath(parsed.issues[0]) ?? "";
    return { updateId, problem: `its ${[type, path].filter(Boolean).join(".")} is malformed` };
  }
  const { output } = parsed;
  // A message inside another update is where it took place; the person is the one who acted.
  const place = output.chat === undefined ? output.message : output;
  if (place?.chat === undefined) return { updateId, problem: "it has no chat" };
  const person = output.from ?? output.user;
  return {
    updateId,
    type,
    chatId: place.chat.id,
    chatType: place.chat.type ?? "private",
    // Replies outside of forums have a thread too, which cannot be sent to.
    threadId: place.is_topic_message === true ? place.message_thread_id : undefined,
    messageId: place.message_id,
    userId: person?.id,
    username: person?.username,
    text: output.text ?? output.caption,
    date: output.edit_date ?? output.date,
    data: contents[type],
  };
}

/** The update as the server would send it, for {@link readUpdate}; `cut`: only its origin. */
export function toUpdate(update: BotUpdate, { cut = false } = {}): Record<string, unknown> {
  const { updateId, type, data, chatId, chatType, threadId, messageId } = update;
  const place = {
    chat: { id: chatId, type: chatType },
    message_id: messageId,
    ...(threadId !== undefined && { message_thread_id: threadId, is_topic_message: true }),
  };
  return { update_id: updateId, [type]: cut ? place : data };
}

/**
 * Makes the event of an update.
 *
 * The messenger compares names without case, so they are converted to lower case: one person is one tenant however the
 * name is written. Another person can take a name that was given up, but not an id
 * (docs/decisions/messenger.md#the-tenant-of-a-message-is-an-id-not-a-name).
 */
export function incomingEvent(update: BotUpdate, options: { botId: string; receivedAt: string }): IncomingEvent {
  const { text, data, updateId } = update;
  return {
    id: `${options.botId}-${updateId}`,
    fields: fieldsOf(update),
    text,
    data,
    receivedAt: options.receivedAt,
  };
}

/** The tenant of an update; undefined if it has none, or all have the same. */
export function tenantOf(update: BotUpdate, tenant: TriggerSpec["tenant"]): string | undefined {
  if (tenant.static !== undefined) return undefined;
  const resolved = resolveTenant(tenant, fieldsOf(update));
  return "tenantId" in resolved ? resolved.tenantId : undefined;
}

function fieldsOf({ chatId, userId, username }: BotUpdate): object {
  const usernameOrId = username === undefined || username === "" ? userId : username.toLowerCase();
  return { chatId, userId, usernameOrId };
}
