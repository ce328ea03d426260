import type { Log } from "../log.ts";

/** Logs what a callback threw; without a log it becomes an uncaught exception, for it must not go unseen. */
export function reportError(error: unknown, options: { log: Log | undefined; fields: object; message: string }): void {
  const { log, fields, message } = options;
  if (log !== undefined) {
    log.error({ ...fields, error }, message);
    return;
  }
  queueMicrotask(() => {
    throw error;
  });
}
