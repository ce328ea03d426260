import { pino } from "pino";
import type { Log } from "../crds/log.ts";
import type { LogLevel } from "./config.ts";

/** A log of one JSON line an entry on standard output, written before the call returns, so that nothing is lost at the end. */
export function createLog(level: LogLevel): Log {
  return pino({ level, base: { program: "edge" }, timestamp: pino.stdTimeFunctions.isoTime });
}
