import type { Clock } from "../../../crds/client/clock.ts";
import { sleep } from "../../../crds/client/sleep.ts";
import type { Log } from "../../../crds/log.ts";
import { linkedStop } from "./linked-stop.ts";
import type { MessengerClient } from "./messenger-client.ts";
import { MessengerError } from "./messenger-error.ts";

/** The messenger shows it for five seconds (https://core.telegram.org/bots/api#sendchataction). */
const RENEWED_EVERY_MS = 4_000;

/** Shows `typing` in the chat until the function that it returns is called; the reply does not wait for it, nor fail with it. */
export function showTyping(options: {
  client: MessengerClient;
  chat: { chatId: number; threadId?: number | undefined };
  clock: Clock;
  log: Log;
  signal: AbortSignal;
}): () => void {
  const { client, chat, clock, log } = options;
  const stop = linkedStop(options.signal);

  async function show(): Promise<void> {
    for (;;) {
      let delayMs = RENEWED_EVERY_MS;
      try {
        await client.showTyping(chat, stop.signal);
      } catch (error) {
        stop.signal.throwIfAborted();
        log.debug({ error, chat: chat.chatId }, "cannot show that a reply is being written");
        if (error instanceof MessengerError) delayMs = Math.max(delayMs, error.retryAfterMs ?? 0);
      }
      await sleep(delayMs, { clock, signal: stop.signal });
    }
  }

  show().catch((error: unknown) => {
    if (!stop.signal.aborted) log.error({ error }, "cannot go on to show that a reply is being written");
  });
  return () => {
    stop.abort();
    stop.close();
  };
}
