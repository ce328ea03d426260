import type { Log } from "../log.ts";

const EVERY_MS = 10_000;

/**
 * Runs a long step and logs the latest message that it has given, every ten seconds, so that it shows that it moves even
 * while it has nothing new to say.
 */
export async function withProgress<Result>(log: Log, work: (update: Log) => Promise<Result>): Promise<Result> {
  let latest = "still at it";
  const timer = setInterval(() => log(latest), EVERY_MS);
  try {
    return await work((message) => {
      latest = message;
    });
  } finally {
    clearInterval(timer);
  }
}
