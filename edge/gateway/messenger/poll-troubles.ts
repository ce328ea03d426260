import { createBackoff } from "../../../crds/client/backoff.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import type { MessengerError } from "./messenger-error.ts";

/** Tries before a person is told, and the pace slows down. */
const PATIENCE = 5;
const SLOW_MS = 60_000;
/** Two pollers take turns at failing, so that one poll that succeeds proves nothing. */
const CALM_MS = 120_000;

/** What to do after a call that failed. */
export interface Remedy {
  readonly delayMs: number;
  /** The webhook that keeps the updates away is to be removed first. */
  readonly removeWebhook: boolean;
  /** For the trigger's status. */
  readonly trouble?: string;
}

/** Keeps count of the calls that fail, and says how to go on (https://core.telegram.org/bots/api#making-requests). */
export interface PollTroubles {
  failed(error: MessengerError): Remedy;
  /** Whether all is well. */
  succeeded(): boolean;
}

export function createPollTroubles(options: { clock: Clock; random: () => number; secret: string }): PollTroubles {
  const { clock, random, secret } = options;
  const backoff = createBackoff({ initialMs: 800, maxMs: 30_000, random });
  let failures = 0;
  let conflicts = 0;
  let conflictAt = 0;

  function paced(count: number, trouble: string): Remedy {
    const delayMs = backoff.next();
    return { delayMs, removeWebhook: false, ...(count >= PATIENCE && { trouble }) };
  }

  return {
    failed(error) {
      const { code, description, retryAfterMs } = error;
      if (retryAfterMs !== undefined) return { delayMs: retryAfterMs, removeWebhook: false };
      if (code === 401 || code === 404) {
        const trouble = `the messenger refuses the bot's token: put the right one into ${secret}`;
        return { delayMs: SLOW_MS, removeWebhook: false, trouble };
      }
      if (code === 409) {
        conflictAt = clock.now();
        const removeWebhook = /webhook/i.test(description);
        const delayMs = ++conflicts > PATIENCE ? SLOW_MS : backoff.next();
        if (conflicts <= PATIENCE) return { delayMs, removeWebhook };
        const other = removeWebhook ? "sets a webhook for" : "polls";
        const trouble = `another program ${other} this bot: stop it, or give this trigger a bot of its own; trying again every minute`;
        return { delayMs, removeWebhook, trouble };
      }
      failures++;
      if (code !== undefined && code >= 400 && code < 500) {
        return {
          delayMs: SLOW_MS,
          removeWebhook: false,
          trouble: `the messenger refuses to be polled: ${error.message}`,
        };
      }
      return paced(failures, `the messenger cannot be reached, trying again: ${error.message}`);
    },
    succeeded() {
      failures = 0;
      if (conflicts > 0 && clock.now() - conflictAt < CALM_MS) return conflicts <= PATIENCE;
      conflicts = 0;
      backoff.reset();
      return true;
    },
  };
}
