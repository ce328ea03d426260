import type { WorkloadSpec } from "../../../crds/workload.ts";
import type { Log } from "../../cluster/log.ts";
import type { BenchEnvironment } from "../environment/start-environment.ts";
import { createWorkload } from "../fixtures/create-workload.ts";
import { FILES_WORKLOAD } from "../fixtures/files-workload.ts";
import { createPool } from "../fixtures/pool.ts";
import { releaseAll } from "../fixtures/release-all.ts";
import { createTally, timedClaim } from "../load/claim-call.ts";
import type { Measurement } from "../report/measurement.ts";
import { reportEvery, withUsage } from "./with-usage.ts";

const POOL_SIZE = 2;

/** Pool claims whose program starts with its claim, alternating with those whose program runs before. */
export async function measureOnClaim(
  environment: BenchEnvironment,
  { n, log, signal }: { n: number; log: Log; signal: AbortSignal },
): Promise<Measurement[]> {
  const { edge } = environment;
  const { filesystem: _, ...warm } = FILES_WORKLOAD;
  const onClaim: WorkloadSpec = { ...warm, entrypoint: { ...warm.entrypoint, start: "OnClaim" } };
  const [before, after] = await Promise.all([start("bench-warm", warm), start("bench-on-claim", onClaim)]);
  const both = [before, after];
  try {
    const { machine, rssMb } = await reportEvery(
      log,
      () => `${after.tally.size} of ${n} claims of each`,
      () => withUsage(environment, measure),
    );
    const note = "floor: pool claims whose program runs already";
    return [
      { path: "on-claim", ...after.tally.outcome, floorMs: before.tally.outcome.samplesMs, machine, rssMb, note },
    ];
  } finally {
    await Promise.all(both.map(({ pool }) => pool.remove(signal)));
  }

  async function start(name: string, spec: WorkloadSpec) {
    await createWorkload(environment, name, spec);
    const pool = await createPool(environment, { name, size: POOL_SIZE, maxFillConcurrency: 2 });
    return { pool, tally: createTally("pool") };
  }

  async function measure(): Promise<void> {
    for (let index = 0; index < n; index++) {
      for (const { pool, tally } of both) {
        await Promise.all(both.map((each) => each.pool.untilFull(signal)));
        signal.throwIfAborted();
        const tenantId = `tenant-${index}`;
        await timedClaim(edge, { tenantId, workload: pool.workload }, tally);
        await releaseAll(edge, [tenantId], { workload: pool.workload, signal });
      }
    }
  }
}
