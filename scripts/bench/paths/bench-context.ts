import { pods } from "../../../crds/client/built-in-resources.ts";
import type { Log } from "../../cluster/log.ts";
import { NAMESPACE } from "../environment/start-environment.ts";
import type { SimulatedEnvironment } from "../environment/start-simulated-environment.ts";
import { createWorkload } from "../fixtures/create-workload.ts";
import { type BenchPool, createPool, MAX_FILL_CONCURRENCY } from "../fixtures/pool.ts";
import { releaseAll } from "../fixtures/release-all.ts";
import { createBareStarts } from "../floor/bare-starts.ts";
import { createPoolFloor, type PoolFloor } from "../floor/pool-floor.ts";
import { claimCall } from "../load/claim-call.ts";

/** The shared context of the paths on simulated nodes. */
export interface BenchContext {
  readonly environment: SimulatedEnvironment;
  readonly quick: boolean;
  /** Of the arrival times. */
  readonly seed: number;
  readonly log: Log;
  /** The pool for claims. It is created and filled at its first use. */
  pool(signal: AbortSignal): Promise<BenchPool>;
  /** The bare writes of a pool claim. Created at its first use. */
  floor(signal: AbortSignal): Promise<PoolFloor>;
  /** Ends the watches. */
  close(): Promise<void>;
}

/** As many as a burst claims. */
const POOL_SIZE = 300;
const FLOOR_WARM_UP = 30;
const FLOOR_SAMPLES = 70;

/** Creates the shared context. Each part is created when a path first uses it. */
export function createBenchContext(options: {
  environment: SimulatedEnvironment;
  quick: boolean;
  seed: number;
  log: Log;
}): BenchContext {
  const { environment, log } = options;
  let pool: Promise<BenchPool> | undefined;
  let floor: Promise<PoolFloor> | undefined;
  return {
    ...options,
    pool(signal) {
      pool ??= fillPool(signal);
      return pool;
    },
    floor(signal) {
      floor ??= startFloor(signal);
      return floor;
    },
    async close() {
      // A pool that never became full has already reported that to its caller.
      await pool?.then(({ warm }) => warm.close()).catch(() => undefined);
    },
  };

  async function fillPool(signal: AbortSignal): Promise<BenchPool> {
    const made = await createPool(environment, {
      name: "bench",
      size: POOL_SIZE,
      maxFillConcurrency: MAX_FILL_CONCURRENCY,
    });
    log(`filling a pool of ${POOL_SIZE}`);
    await made.untilFull(signal);
    return made;
  }

  async function startFloor(signal: AbortSignal): Promise<PoolFloor> {
    const { edge, client } = environment;
    const workload = "bench-floor";
    await createWorkload(environment, workload);
    const outcome = await claimCall(edge, { tenantId: "floor", workload });
    if (outcome.kind === "failed") throw new Error(`Cannot make the floor: a claim failed: ${outcome.why}`);
    const template = await client.get(pods, { namespace: NAMESPACE, name: outcome.instanceId });
    await releaseAll(edge, ["floor"], { workload, signal });
    const bare = await createBareStarts({ client, template, signal });
    try {
      const { pod } = await bare.start("floor");
      const warmUp = createPoolFloor({ client, pod, tenantPrefix: "warm-up" });
      for (let count = 0; count < FLOOR_WARM_UP; count++) await warmUp.sample();
      const made = createPoolFloor({ client, pod: warmUp.pod(), tenantPrefix: "floor" });
      for (let count = 0; count < FLOOR_SAMPLES; count++) await made.sample();
      return made;
    } finally {
      await bare.close();
    }
  }
}
