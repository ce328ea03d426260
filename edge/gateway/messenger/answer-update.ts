import { createHash } from "node:crypto";
import { createBackoff } from "../../../crds/client/backoff.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import type { Log } from "../../../crds/log.ts";
import { linkSignals, sleep } from "../../../crds/waits.ts";
import { deliverReply } from "./deliver-reply.ts";
import { type MessengerClient, MessengerError } from "./messenger-client.ts";
import { type BotUpdate, incomingEvent } from "./read-update.ts";
import { replyText, splitText, TOO_MANY, UNANSWERED } from "./reply-text.ts";
import type { PendingReply } from "./saved-state.ts";
import { findSent } from "./sent-messages.ts";
import type { Session } from "./session.ts";

/** How long after a session's start a message of the previous session may still arrive. */
const IN_FLIGHT_MS = 2_000;

/**
 * Runs an update and sends its answer to the chat, or continues where an earlier session was interrupted.
 *
 * @throws the reason of `stopping` or `ended`, or SupersededError
 */
export async function answerUpdate(update: BotUpdate, session: Session): Promise<void> {
  const { progress, writer } = session;
  const pending = progress.reply(update.updateId);
  const index = pending === undefined ? 0 : await firstUnsent(pending, update, session);
  if (pending !== undefined && index < pending.count && pending.parts !== undefined) {
    const parts = pending.parts.slice(index - pending.index);
    await deliverReply(update, { ...pending, index, parts }, session);
    return;
  }
  const parts = pending !== undefined && index >= pending.count ? [] : splitText(await answerOf(update, session));
  if (parts.length === 0) {
    progress.answer(update.updateId);
    await writer.commit();
    return;
  }
  const digest = digestOf(parts);
  // The container has answered again: if the text is the same, its sent messages count.
  const start = digest === pending?.digest ? index : 0;
  const reply = { chat: pending?.chat ?? update.chatId, digest, count: parts.length, index: start };
  await deliverReply(update, { ...reply, parts: parts.slice(start) }, session);
}

/**
 * Informs a chat once that it sent too many messages, and counts them as answered.
 *
 * @param updates of one chat, oldest first
 * @throws as {@link answerUpdate} does
 */
export async function refuseUpdates(updates: readonly BotUpdate[], session: Session): Promise<void> {
  const [first, ...others] = updates;
  if (first === undefined) return;
  const parts = [TOO_MANY];
  const reply = { chat: first.chatId, digest: digestOf(parts), count: 1, index: 0, parts, quotes: true };
  await deliverReply(first, reply, session);
  for (const { updateId } of others) session.progress.answer(updateId);
  if (others.length > 0) await session.writer.commit();
}

async function answerOf(update: BotUpdate, session: Session): Promise<string> {
  const { context, client, bot, stopping } = session;
  const { clock, log } = context;
  if (update.cut) return UNANSWERED;
  const event = incomingEvent(update, { botId: bot.id, receivedAt: new Date(clock.now()).toISOString() });
  let hideTyping: (() => void) | undefined;
  const onColdStart = () => {
    hideTyping ??= showTyping({ client, chat: update, clock, log, signal: stopping });
  };
  try {
    return replyText(await context.run(event, { signal: stopping, onColdStart }));
  } catch (error) {
    stopping.throwIfAborted();
    log.error({ error, event: event.id }, "message failed");
    return UNANSWERED;
  } finally {
    hideTyping?.();
  }
}

/** Index of the first message of the reply that was not sent, as far as the server reports. */
async function firstUnsent(pending: PendingReply, update: BotUpdate, session: Session): Promise<number> {
  const { context, client, messageIds, stopping, beganAt, random } = session;
  const { clock, log } = context;
  const { chat: chatId, after, far } = pending;
  if (!pending.sending || after === undefined) return pending.index;
  await sleep(Math.max(0, beganAt + IN_FLIGHT_MS - clock.now()), { clock, signal: stopping });
  const backoff = createBackoff({ initialMs: 800, maxMs: 30_000, random });
  for (;;) {
    try {
      const messageId = await findSent({ client, chatId, after, far, clock, random, signal: stopping });
      messageIds.saw({ chatId, chatType: chatId === update.chatId ? update.chatType : "supergroup", messageId });
      const found = messageId !== undefined;
      log.info({ chat: chatId, update: update.updateId, found }, "checked whether a reply was sent before");
      return found ? pending.index + 1 : pending.index;
    } catch (error) {
      if (!(error instanceof MessengerError)) throw error;
      log.warn({ error, chat: chatId }, "check for a sent reply failed, retrying");
      await sleep(backoff.next(), { clock, signal: stopping });
    }
  }
}

function digestOf(parts: readonly string[]): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 16);
}

/** The messenger shows it for five seconds (https://core.telegram.org/bots/api#sendchataction). */
const RENEWED_EVERY_MS = 4_000;

/**
 * Shows `typing` in the chat until the returned function is called. The reply does not wait for it, and does not fail
 * with it.
 */
function showTyping(options: {
  client: MessengerClient;
  chat: { chatId: number; threadId?: number | undefined };
  clock: Clock;
  log: Log;
  signal: AbortSignal;
}): () => void {
  const { client, chat, clock, log } = options;
  const stop = linkSignals(options.signal);

  async function show(): Promise<void> {
    for (;;) {
      let delayMs = RENEWED_EVERY_MS;
      try {
        await client.showTyping(chat, stop.signal);
      } catch (error) {
        stop.signal.throwIfAborted();
        log.debug({ error, chat: chat.chatId }, "typing not shown");
        if (error instanceof MessengerError) delayMs = Math.max(delayMs, error.retryAfterMs ?? 0);
      }
      await sleep(delayMs, { clock, signal: stop.signal });
    }
  }

  show().catch((error: unknown) => {
    if (!stop.signal.aborted) log.error({ error }, "typing failed");
  });
  return () => {
    stop.abort();
    stop.close();
  };
}
