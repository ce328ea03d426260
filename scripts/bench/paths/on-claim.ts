import { systemClock } from "../../../crds/client/clock.ts";
import { sleep } from "../../../crds/waits.ts";
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
const PREPARING_MS = 500;

const INPUTS = {
  env: { LANG: "de_DE.UTF-8" },
  secrets: { TOKEN: "x".repeat(64) },
  files: [{ path: "/tmp/settings.json", content: "{}" }],
};

/**
 * Pool claims whose program starts with its claim, with and without inputs, beside those whose program runs before and
 * is told of its inputs, or of nothing.
 */
export async function measureOnClaim(
  environment: BenchEnvironment,
  { n, log, signal }: { n: number; log: Log; signal: AbortSignal },
): Promise<Measurement[]> {
  const { edge } = environment;
  const { filesystem: _, ...warm } = FILES_WORKLOAD;
  const onClaim: WorkloadSpec = { ...warm, entrypoint: { ...warm.entrypoint, start: "OnClaim" } };
  const onClaimCall = { exec: { command: ["/bin/busybox", "true"] } };
  const told: WorkloadSpec = { ...warm, entrypoint: { ...warm.entrypoint, onClaim: onClaimCall } };
  const all = await Promise.all([
    start("bench-warm", warm),
    start("bench-on-claim", onClaim),
    // A pool of its own, since the last claim of a pool leaves it unprepared for a moment.
    start("bench-inputs", onClaim, INPUTS),
    start("bench-told", told, INPUTS),
  ]);
  const [before, after, withInputs, toldOf] = all;
  try {
    const { machine, rssMb } = await reportEvery(
      log,
      () => `${after.tally.size} of ${n} claims of each`,
      () => withUsage(environment, measure),
    );
    const usage = { machine, rssMb };
    const [floorMs, withoutMs] = [before.tally.outcome.samplesMs, after.tally.outcome.samplesMs];
    return [
      {
        path: "on-claim",
        ...after.tally.outcome,
        floorMs,
        ...usage,
        note: "floor: pool claims whose program runs already",
      },
      {
        path: "on-claim with inputs",
        ...withInputs.tally.outcome,
        floorMs: withoutMs,
        ...usage,
        note: "floor: those without inputs",
      },
      {
        path: "told of inputs",
        ...toldOf.tally.outcome,
        floorMs,
        ...usage,
        note: "floor: pool claims whose program runs already, and is told of nothing",
      },
    ];
  } finally {
    await Promise.all(all.map(({ pool }) => pool.remove(signal)));
  }

  async function start(name: string, spec: WorkloadSpec, inputs?: object) {
    await createWorkload(environment, name, spec);
    const pool = await createPool(environment, { name, size: POOL_SIZE, maxFillConcurrency: 2 });
    return { pool, tally: createTally("pool"), inputs };
  }

  async function measure(): Promise<void> {
    for (let index = 0; index < n; index++) {
      // Each claim follows one of another pool, not always the same.
      for (const { pool, tally, inputs } of index % 2 === 0 ? all : all.toReversed()) {
        await Promise.all(all.map((each) => each.pool.untilFull(signal)));
        // A pool that is full is prepared a moment later, which would slow the next claim.
        await sleep(PREPARING_MS, { clock: systemClock, signal });
        const tenantId = `tenant-${index}`;
        await timedClaim(edge, { tenantId, workload: pool.workload, inputs }, tally);
        await releaseAll(edge, [tenantId], { workload: pool.workload, signal });
      }
    }
  }
}
