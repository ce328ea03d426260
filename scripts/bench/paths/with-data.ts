import type { Log } from "../../cluster/log.ts";
import type { BenchEnvironment } from "../environment/start-environment.ts";
import { createWorkload } from "../fixtures/create-workload.ts";
import { createInstanceShell, FILES_DIGEST, FILES_WORKLOAD, filesOf, fillScript } from "../fixtures/files-workload.ts";
import { createPool } from "../fixtures/pool.ts";
import { releaseAll } from "../fixtures/release-all.ts";
import { claimCall, createTally, timedClaim } from "../load/claim-call.ts";
import type { Measurement } from "../report/measurement.ts";
import { reportEvery, withUsage } from "./with-usage.ts";

const MiB = 2 ** 20;
const POOL_SIZE = 2;

/**
 * Claims that restore a tenant's files. Each is checked with a digest of all files, and released before the next, which
 * saves the files again.
 *
 * @throws Error if the files differ, which makes every figure worthless
 */
export async function measureWithData(
  environment: BenchEnvironment,
  options: { path: "pool+data" | "cold+data"; mebibytes: number; n: number; log: Log; signal: AbortSignal },
): Promise<Measurement[]> {
  const { path, mebibytes, n, log, signal } = options;
  const { edge, kubeconfigPath } = environment;
  const workload = `bench-${path.replace("+", "-")}`;
  const claim = { tenantId: `tenant-${mebibytes}`, workload, resume: true };
  const run = await createInstanceShell({ kubeconfigPath, signal });
  await createWorkload(environment, workload, FILES_WORKLOAD);
  const pool =
    path === "pool+data"
      ? await createPool(environment, { name: workload, size: POOL_SIZE, maxFillConcurrency: 2 })
      : undefined;
  const tally = createTally(path);
  try {
    await pool?.untilFull(signal);
    const first = await claimCall(edge, claim);
    if (first.kind === "failed") throw new Error(`Cannot measure ${path}: the first claim failed: ${first.why}`);
    await run(first.instanceId, fillScript(mebibytes));
    const expected = await run(first.instanceId, FILES_DIGEST);
    await release();
    const before = await environment.operator().metrics();
    const { machine, rssMb } = await reportEvery(
      log,
      () => `${tally.size} of ${n} claims`,
      () => withUsage(environment, () => measure(expected)),
    );
    const after = await environment.operator().metrics();
    const speed = (operation: string): string => {
      const [seconds, times] = ["sum", "count"].map((part) => {
        const name = `tenancy_snapshot_seconds_${part}`;
        const of = (metrics: typeof before) => metrics.sum(name, { operation, outcome: "done" });
        return of(after) - of(before);
      }) as [number, number];
      return `${operation} ${((times * mebibytes * MiB) / 1e6 / seconds).toFixed(0)} MB/s`;
    };
    const note = `${mebibytes} MiB in ${filesOf(mebibytes)} files, digest checked; ${speed("restore")}, ${speed("save")}, by the operator's own clock`;
    return [{ path: `${path}-${mebibytes}mib`, ...tally.outcome, machine, rssMb, note }];
  } finally {
    await pool?.remove(signal);
  }

  async function measure(expected: string): Promise<void> {
    for (let index = 0; index < n; index++) {
      await pool?.untilFull(signal);
      signal.throwIfAborted();
      await timedClaim(edge, claim, tally);
      const { lastInstanceId } = tally;
      if (lastInstanceId === undefined) continue;
      const seen = await run(lastInstanceId, FILES_DIGEST);
      if (seen !== expected) throw new Error(`the files of ${lastInstanceId} are not those that were saved`);
      // Without a change, the release would save nothing.
      await run(lastInstanceId, "$b touch /data/1");
      await release();
    }
  }

  async function release(): Promise<void> {
    await releaseAll(edge, [claim.tenantId], { workload, signal });
  }
}
