import type { Clock } from "../../crds/client/clock.ts";
import { sleep } from "../../crds/waits.ts";
import { HttpError } from "./http-error.ts";

const PAUSE_MS = 500;

/**
 * Asks again every half second until the answer is good or the time limit passes.
 *
 * @returns the last answer
 * @throws HttpError 499 when the client disconnects; what `ask` throws
 */
export async function askUntil<T>(
  ask: () => Promise<T>,
  options: { isGood: (answer: T) => boolean; limitMs: number; clock: Clock; clientGone: AbortSignal },
): Promise<T> {
  const { isGood, limitMs, clock, clientGone } = options;
  const until = clock.now() + limitMs;
  for (;;) {
    const answer = await ask();
    if (isGood(answer) || clock.now() >= until) return answer;
    try {
      await sleep(PAUSE_MS, { clock, signal: clientGone });
    } catch (cause) {
      throw new HttpError(499, "the client went away", { cause });
    }
  }
}
