import type { ProcessIdentity } from "../../cluster/process/process-identity.ts";
import type { MetricsText } from "./metrics-text.ts";

/** One of our own programs, as a process of its own. */
export interface MeasuredProgram {
  readonly identity: ProcessIdentity;
  /** Milliseconds on the clock of `performance.now` at which it was started. */
  readonly startedAt: number;
  /** Asks the program itself. */
  metrics(): Promise<MetricsText>;
  /** Resolves when it does its work; rejects with the end of its log when it ends or does not get there. */
  readonly ready: Promise<void>;
  /** Asks it to stop, and insists after 10 s. */
  stop(): Promise<void>;
}
