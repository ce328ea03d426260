import type { Log } from "../log.ts";

/**
 * Returns a log that lets one message in ten seconds through, so that a long step shows that it moves.
 *
 * @param now milliseconds, as `performance.now`
 */
export function progressLog(log: Log, now: () => number = () => performance.now()): Log {
  let next = now() + 10_000;
  return (message) => {
    if (now() < next) return;
    next = now() + 10_000;
    log(message);
  };
}
