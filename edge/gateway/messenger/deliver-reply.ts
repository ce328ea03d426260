import { createBackoff } from "../../../crds/client/backoff.ts";
import { sleep } from "../../../crds/waits.ts";
import { MessengerError } from "./messenger-client.ts";
import type { BotUpdate } from "./read-update.ts";
import { findSent } from "./sent-messages.ts";
import type { Session } from "./session.ts";

/** Maximum age of the written intent when the message is sent; a process that slept longer may have been superseded. */
const FRESH_MS = 5_000;
/** Number of retries of a message that the server answers with 5xx. */
const MAX_SERVER_FAULTS = 10;
const TOKEN_REFUSED_MS = 60_000;

/** The messages of a reply that must still be sent. */
export interface ReplyToSend {
  readonly chat: number;
  readonly digest: string;
  readonly count: number;
  readonly index: number;
  readonly parts: readonly string[];
  /** Whether the first one also quotes the message in a private chat. */
  readonly quotes?: boolean;
}

/**
 * Sends each message of a reply once, and marks the update as answered.
 *
 * The state is written before each message is sent, and again after it. A message that cannot arrive, because the
 * person blocked the bot or the chat is gone, counts as sent: a retry would fail too.
 *
 * @throws the reason of `stopping` or `ended`, or SupersededError, with the last known state written
 */
export async function deliverReply(update: BotUpdate, reply: ReplyToSend, session: Session): Promise<void> {
  let rest: ReplyToSend | undefined = reply;
  while (rest !== undefined) {
    const next: ReplyToSend = rest;
    rest = await session.inChatOrder(next.chat, () => deliver(update, next, session));
  }
}

/** Resolves to the messages that must be sent to the chat's successor, which has its own order. */
async function deliver(update: BotUpdate, reply: ReplyToSend, session: Session): Promise<ReplyToSend | undefined> {
  const { context, client, progress, writer, messageIds, stopping, ended, random } = session;
  const { clock, log } = context;
  const { digest, count, quotes = false } = reply;
  const parts = [...reply.parts];
  const chat = { chatId: reply.chat, chatType: typeOf(reply.chat, update) };
  let { threadId } = update;
  let { index } = reply;
  let after: number | undefined;
  let far = false;
  let intendedAt = 0;

  async function record(sending: boolean): Promise<void> {
    const at = { update: update.updateId, chat: chat.chatId, digest, count, index };
    progress.setReply({ ...at, sending, after, far, parts: [...parts] });
    intendedAt = await writer.commit();
  }

  async function intend(): Promise<void> {
    after = messageIds.newest(chat);
    far = messageIds.isFarFrom(chat);
    // The update's own message id counts only in the chat that it came from.
    if (after !== undefined && chat.chatId === update.chatId) after = Math.max(after, update.messageId ?? 0);
    await record(true);
  }

  /** Waits; if the session ends during the wait, records in the state that no message is in flight. */
  async function pause(delayMs: number, { uncertain }: { uncertain: boolean }): Promise<void> {
    try {
      await sleep(delayMs, { clock, signal: stopping });
    } catch (error) {
      if (!uncertain) await record(false);
      throw error;
    }
  }

  /** Whether the message arrived although its call failed. */
  async function arrived(): Promise<boolean> {
    if (after === undefined) return false;
    const messageId = await findSent({ client, chatId: chat.chatId, after, far, clock, random, signal: stopping });
    messageIds.saw({ ...chat, messageId });
    return messageId !== undefined;
  }

  /**
   * Resolves to whether the message was sent (false: it never will be), or to the chat that it must be sent to instead.
   */
  async function send(text: string): Promise<boolean | { movedTo: number }> {
    const backoff = createBackoff({ initialMs: 800, maxMs: 30_000, random });
    const fields = { chat: chat.chatId, update: update.updateId };
    let uncertain = false;
    let faults = 0;
    for (;;) {
      try {
        if (uncertain && (await arrived())) return true;
        uncertain = false;
        while (clock.now() - intendedAt > FRESH_MS) await intend();
        const replyTo = (chat.chatType === "private" && !quotes) || index > 0 ? undefined : update.messageId;
        const messageId = await client.sendMessage({ chatId: chat.chatId, text, threadId, replyTo }, ended);
        messageIds.sent({ ...chat, messageId });
        return true;
      } catch (error) {
        if (!(error instanceof MessengerError)) throw error;
        const { code, description, retryAfterMs, migratedTo } = error;
        uncertain ||= error.uncertain;
        if (retryAfterMs !== undefined) {
          await pause(retryAfterMs, { uncertain });
        } else if (migratedTo !== undefined) {
          return { movedTo: migratedTo };
        } else if (code === 401 || code === 404) {
          await pause(TOKEN_REFUSED_MS, { uncertain });
        } else if (threadId !== undefined && /thread not found/i.test(description)) {
          threadId = undefined;
        } else if (code !== undefined && code >= 400 && code < 500) {
          log.warn({ ...fields, error }, "reply refused");
          return false;
        } else if (code !== undefined && ++faults >= MAX_SERVER_FAULTS) {
          log.error({ ...fields, error }, "reply not sent, giving up");
          return false;
        } else {
          log.warn({ ...fields, error }, "reply not sent, retrying");
          await pause(backoff.next(), { uncertain });
        }
      }
    }
  }

  for (let text = parts[0]; text !== undefined; text = parts[0]) {
    await intend();
    const sent = await send(text);
    if (typeof sent === "object") return { ...reply, chat: sent.movedTo, index, parts };
    parts.shift();
    index++;
    if (!sent) break;
    if (parts.length > 0 && stopping.aborted) {
      await record(false);
      ended.throwIfAborted();
      throw stopping.reason;
    }
  }
  progress.answer(update.updateId);
  await writer.commit();
  return undefined;
}

/** A chat other than the update's own is the supergroup that replaced its group. */
function typeOf(chatId: number, update: BotUpdate): string {
  return chatId === update.chatId ? update.chatType : "supergroup";
}
