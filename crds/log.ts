import { pino } from "pino";
import { describeError } from "./describe-error.ts";

/** The methods of a structured logger that this project uses: fields first, then a constant message, as in pino. */
export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/**
 * A log with one JSON line per entry. A line is written before the call returns, so no line is lost at the exit.
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
