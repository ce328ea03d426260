import { pino } from "pino";
import type { Log } from "../crds/log.ts";
import type { LogLevel } from "./config.ts";
import { describeError } from "./describe-error.ts";

/** A log of one JSON line an entry, written before the call returns, so that nothing is lost at the end. */
export function createLog(
  level: LogLevel,
  /** @default standard output */
  destination: { write(line: string): void } = pino.destination({ dest: 1, sync: true }),
): Log {
  const serializers = { error: (error: unknown) => (error instanceof Error ? describeError(error) : error) };
  const timestamp = pino.stdTimeFunctions.isoTime;
  return pino({ level, base: { program: "edge" }, serializers, timestamp }, destination);
}
