import type { Log } from "../../cluster/log.ts";

const EVERY_MS = 5000;

/** Tells every 5 s how far something is, while `work` goes on. */
export async function reportEvery<T>(log: Log, line: () => string, work: () => Promise<T>): Promise<T> {
  const timer = setInterval(() => log(line()), EVERY_MS);
  try {
    return await work();
  } finally {
    clearInterval(timer);
  }
}
