import { pino } from "pino";
import { describeError } from "./describe-error.ts";

/** The slice of a structured logger that this project calls: fields first, then a constant message (pino's order). */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/**
 * A log of one JSON line an entry, written before the call returns, so that nothing is lost at the end.
 *
 * @param options.level `debug`, `info`, `warn`, `error` or `silent`
 * @param options.destination @default standard output
 */
export function createLog(options: {
  program: string;
  level: string;
  destination?: { write(line: string): void };
}): Log {
  const { program, level, destination = pino.destination({ dest: 1, sync: true }) } = options;
  const serializers = { error: (error: unknown) => (error instanceof Error ? describeError(error) : error) };
  return pino({ level, base: { program }, serializers, timestamp: pino.stdTimeFunctions.isoTime }, destination);
}
