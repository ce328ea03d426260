import type { WorkloadSpec } from "../../../crds/workload.ts";
import type { Log } from "../../cluster/log.ts";
import type { BenchEnvironment } from "../environment/start-environment.ts";
import { createWorkload } from "../fixtures/create-workload.ts";
import { createInstanceShell, FILES_DIGEST, FILES_WORKLOAD, filesOf, fillScript } from "../fixtures/files-workload.ts";
import { createPool } from "../fixtures/pool.ts";
import { releaseAll } from "../fixtures/release-all.ts";
import { claimCall } from "../load/claim-call.ts";
import type { Measurement } from "../report/measurement.ts";
import { reportEvery, withUsage } from "./with-usage.ts";

const MiB = 2 ** 20;
const POOL_SIZE = 2;

/** One release. */
interface Sample {
  readonly percent: number;
  /** Until the pod is gone. */
  readonly ms: number;
  /** Of the save in it, by the operator's clock. */
  readonly savedMs: number;
  /** From the pod. */
  readonly bytes: number;
}

/**
 * Releases of sessions that differ in how many files they changed. The bytes are what the operator counted. The files
 * of each next claim are checked with a digest.
 *
 * @param options.fileKib of each file
 * @param options.percents of the files that get other content, in turn
 * @param options.n releases of each kind
 * @throws Error if the files differ, which makes every figure worthless
 */
export async function measureIncrements(
  environment: BenchEnvironment,
  options: {
    mebibytes: number;
    fileKib: number;
    percents: readonly number[];
    n: number;
    log: Log;
    signal: AbortSignal;
  },
): Promise<Measurement[]> {
  const { mebibytes, fileKib, percents, n, log, signal } = options;
  const { edge, kubeconfigPath } = environment;
  const files = filesOf(mebibytes, fileKib);
  const workload = "bench-increments";
  const claim = { tenantId: `tenant-${mebibytes}`, workload, resume: true };
  const spec: WorkloadSpec = {
    ...FILES_WORKLOAD,
    resources: { vcpus: 1, memoryMb: 512, diskGb: 2 },
    // The files are compared with those of the claim only if no program ran while they came.
    entrypoint: { ...FILES_WORKLOAD.entrypoint, start: "OnClaim" },
  };
  const run = await createInstanceShell({ kubeconfigPath, signal });
  await createWorkload(environment, workload, spec);
  const pool = await createPool(environment, { name: workload, size: POOL_SIZE, maxFillConcurrency: 2 });
  const samples: Sample[] = [];
  try {
    let { instanceId, expected } = await begin();
    const { machine, rssMb } = await reportEvery(
      log,
      () => `${samples.length} of ${n * percents.length} releases`,
      () =>
        withUsage(environment, async () => {
          for (let index = 0; index < n; index++) {
            for (const percent of percents) {
              if (percent > 0) await run(instanceId, fillScript(mebibytes, { fileKib, every: 100 / percent }));
              if (percent > 0) expected = await run(instanceId, FILES_DIGEST);
              await release(percent);
              instanceId = await claimAgain();
              if ((await run(instanceId, FILES_DIGEST)) !== expected)
                throw new Error(`the files of ${instanceId} are not those that were saved`);
            }
          }
        }),
    );
    return percents.flatMap((percent) => {
      const own = samples.filter((sample) => sample.percent === percent);
      const mebibytesEach = own.reduce((sum, { bytes }) => sum + bytes, 0) / own.length / MiB;
      const note = `${mebibytes} MiB in ${files} files; ${mebibytesEach.toFixed(2)} MiB came from the pod for each`;
      const path = `${mebibytes}mib-${percent}%-changed`;
      const common = { missed: 0, failures: {}, machine, rssMb };
      return [
        { path: `release-${path}`, samplesMs: own.map(({ ms }) => ms), ...common, note },
        { path: `save-${path}`, samplesMs: own.map(({ savedMs }) => savedMs), ...common },
      ];
    });
  } finally {
    await pool.remove(signal);
  }

  async function begin(): Promise<{ instanceId: string; expected: string }> {
    const first = await claimAgain();
    await run(first, fillScript(mebibytes, { fileKib }));
    const expected = await run(first, FILES_DIGEST);
    await releaseAll(edge, [claim.tenantId], { workload, signal });
    return { instanceId: await claimAgain(), expected };
  }

  async function claimAgain(): Promise<string> {
    await pool.untilFull(signal);
    signal.throwIfAborted();
    const claimed = await claimCall(edge, claim);
    if (claimed.kind === "failed") throw new Error(`Cannot measure releases: a claim failed: ${claimed.why}`);
    return claimed.instanceId;
  }

  async function release(percent: number): Promise<void> {
    const before = await environment.operator().metrics();
    const beganAt = performance.now();
    await releaseAll(edge, [claim.tenantId], { workload, signal });
    const ms = performance.now() - beganAt;
    const after = await environment.operator().metrics();
    const grown = (name: string, labels = {}): number =>
      after.sum(name, { operation: "save", ...labels }) - before.sum(name, { operation: "save", ...labels });
    samples.push({
      percent,
      ms,
      savedMs: 1000 * grown("tenancy_snapshot_seconds_sum"),
      bytes: grown("tenancy_snapshot_pod_bytes_total"),
    });
  }
}
