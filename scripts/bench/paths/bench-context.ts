import type { Log } from "../../cluster/log.ts";
import type { SimulatedEnvironment } from "../environment/start-simulated-environment.ts";
import type { BenchPool } from "../fixtures/pool.ts";
import type { PoolFloor } from "../floor/pool-floor.ts";

/** What the paths on simulated nodes share. */
export interface BenchContext {
  readonly environment: SimulatedEnvironment;
  readonly quick: boolean;
  /** Of the arrival times. */
  readonly seed: number;
  readonly log: Log;
  /** The pool that claims are made from, made and filled at its first use. */
  pool(signal: AbortSignal): Promise<BenchPool>;
  /** The bare writes of a pool claim; made at its first use. */
  floor(signal: AbortSignal): Promise<PoolFloor>;
  /** Ends the watches of what was made. */
  close(): Promise<void>;
}
