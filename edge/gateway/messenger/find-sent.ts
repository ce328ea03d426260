import { createBackoff } from "../../../crds/client/backoff.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import { sleep } from "../../../crds/client/sleep.ts";
import type { MessengerClient } from "./messenger-client.ts";
import { MessengerError } from "./messenger-error.ts";

/** How many ids above the newest known one are asked for: messages that came between, of all chats that are numbered together. */
const MAX_ASKED = { near: 100, far: 1_000 };
/** A server that does not know the method may answer with faults of its own. */
const MAX_FAULTS = 4;

/**
 * The id of the bot's own message in the chat above `after`, or undefined where there is none among the next 100 (1000 where it may be far), or the
 * server does not tell.
 *
 * No method of the bot API reads a chat. Taking the markup away from a message that has none changes nothing and tells whose it is:
 * one of the bot's own "is not modified", another's "can't be edited", and what is not there is "not found"
 * (docs/decisions/741-answered-once.md).
 *
 * @throws MessengerError where the server cannot be reached or refuses the token, or the signal's reason
 */
export async function findSent(options: {
  client: MessengerClient;
  chatId: number;
  after: number;
  /** Whether its id may be far above that. @default false */
  far?: boolean | undefined;
  clock: Clock;
  random: () => number;
  signal: AbortSignal;
}): Promise<number | undefined> {
  const { client, chatId, after, far = false, clock, random, signal } = options;
  const backoff = createBackoff({ initialMs: 800, maxMs: 10_000, random });
  const last = after + (far ? MAX_ASKED.far : MAX_ASKED.near);
  let faults = 0;
  for (let messageId = after + 1; messageId <= last; ) {
    try {
      await client.clearMarkup({ chatId, messageId }, signal);
      return messageId;
    } catch (error) {
      if (!(error instanceof MessengerError)) throw error;
      const { code, description, retryAfterMs } = error;
      if (code === undefined || code === 401) throw error;
      if (retryAfterMs !== undefined) {
        await sleep(retryAfterMs, { clock, signal });
      } else if (code >= 500) {
        if (++faults > MAX_FAULTS) return undefined;
        await sleep(backoff.next(), { clock, signal });
      } else if (code !== 400) {
        return undefined;
      } else if (/message is not modified/i.test(description)) {
        return messageId;
      } else {
        messageId++;
      }
    }
  }
  return undefined;
}
