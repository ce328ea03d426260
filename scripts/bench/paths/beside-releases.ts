import type { Log } from "../../cluster/log.ts";
import type { BenchEnvironment } from "../environment/start-environment.ts";
import { createWorkload } from "../fixtures/create-workload.ts";
import { createInstanceShell, FILES_WORKLOAD, fillScript } from "../fixtures/files-workload.ts";
import { createPool } from "../fixtures/pool.ts";
import { releaseAll } from "../fixtures/release-all.ts";
import { claimCall, createTally, timedClaim } from "../load/claim-call.ts";
import { inParallel } from "../load/open-loop.ts";
import type { Measurement } from "../report/measurement.ts";
import { percentile } from "../report/summarise.ts";
import { reportEvery, withUsage } from "./with-usage.ts";

const RELEASES = 20;
const AT_ONCE = 5;
const POOL_SIZE = 3;

/**
 * Pool claims one at a time: first alone, and then while many tenants with files to save are released at once.
 *
 * @param options.mebibytes of each tenant that is released
 * @param options.n claims alone; beside the releases there are as many as come until all are saved
 */
export async function measureBesideReleases(
  environment: BenchEnvironment,
  options: { mebibytes: number; n: number; log: Log; signal: AbortSignal },
): Promise<Measurement[]> {
  const { mebibytes, n, log, signal } = options;
  const { edge, kubeconfigPath } = environment;
  const [keeps, workload] = ["bench-released", "bench-beside"];
  const run = await createInstanceShell({ kubeconfigPath, signal });
  await createWorkload(environment, keeps, FILES_WORKLOAD);
  const { filesystem: _, ...plain } = FILES_WORKLOAD;
  await createWorkload(environment, workload, plain);
  const pool = await createPool(environment, { name: workload, size: POOL_SIZE, maxFillConcurrency: 2 });
  const tenants = Array.from({ length: RELEASES }, (_, index) => `released-${index}`);
  let claims = 0;
  try {
    await inParallel(tenants, AT_ONCE, async (tenantId) => {
      const claimed = await claimCall(edge, { tenantId, workload: keeps });
      if (claimed.kind === "failed") throw new Error(`Cannot measure releases: a claim failed: ${claimed.why}`);
      await run(claimed.instanceId, fillScript(mebibytes));
    });
    const alone = await measure("nothing", () => claims < n);
    let isOver = false;
    const all = tenants.map((tenantId) => releaseAll(edge, [tenantId], { workload: keeps, signal }));
    const released = Promise.all(all).finally(() => {
      isOver = true;
    });
    const beside = await measure("releases", () => !isOver);
    await released;
    const median = ({ samplesMs }: Measurement): number =>
      percentile(
        [...samplesMs].sort((a, b) => a - b),
        0.5,
      );
    const ratio = median(beside) / median(alone);
    const note = `${RELEASES} releases of ${mebibytes} MiB at once; the median is ${ratio.toFixed(2)} x that alone`;
    return [alone, { ...beside, note }];
  } finally {
    await pool.remove(signal);
  }

  async function measure(what: string, goesOn: () => boolean): Promise<Measurement> {
    const tally = createTally("pool");
    claims = 0;
    const { machine, rssMb } = await reportEvery(
      log,
      () => `${claims} claims beside ${what}`,
      () =>
        withUsage(environment, async () => {
          while (goesOn()) {
            await pool.untilFull(signal);
            signal.throwIfAborted();
            const tenantId = `${what}-${claims}`;
            await timedClaim(edge, { tenantId, workload }, tally);
            claims += 1;
            await releaseAll(edge, [tenantId], { workload, signal });
          }
        }),
    );
    return { path: `pool-beside-${what}`, ...tally.outcome, machine, rssMb };
  }
}
