import { pino } from "pino";
import type { Log } from "./log.ts";

/**
 * A log of one JSON line an entry on standard output, written before the call returns, so that nothing is lost at the end.
 *
 * @param level `debug`, `info`, `warn`, `error` or `silent`
 */
export function createLog({ program, level }: { program: string; level: string }): Log {
  return pino({
    level,
    base: { program },
    timestamp: pino.stdTimeFunctions.isoTime,
    serializers: { error: (error: unknown) => (error instanceof Error ? pino.stdSerializers.err(error) : error) },
  });
}
