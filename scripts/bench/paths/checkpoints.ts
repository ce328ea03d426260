import type { WorkloadSpec } from "../../../crds/workload.ts";
import type { Log } from "../../cluster/log.ts";
import { pause } from "../../cluster/process/wait-until.ts";
import type { BenchEnvironment } from "../environment/start-environment.ts";
import { createWorkload } from "../fixtures/create-workload.ts";
import { createInstanceShell, FILES_WORKLOAD, filesOf, fillScript } from "../fixtures/files-workload.ts";
import { releaseAll } from "../fixtures/release-all.ts";
import { claimCall } from "../load/claim-call.ts";
import type { Measurement } from "../report/measurement.ts";
import { reportEvery, withUsage } from "./with-usage.ts";

const MiB = 2 ** 20;
/** What is written this long before a checkpoint is not read again by the next one. */
const INTERVAL_SECONDS = 130;
const POLL_MS = 250;
const TENANT = "checkpointed";
/** Those that read all files, since the fill is not settled before. */
const FIRST = 2;

/** One checkpoint, by the operator's clock. */
interface Sample {
  readonly ms: number;
  readonly frozenMs: number;
  /** From the pod. */
  readonly bytes: number;
}

/**
 * Checkpoints of an instance in which one of a hundred files has changed since the one before, and for how long each
 * stops the program.
 *
 * @param options.n checkpoints
 */
export async function measureCheckpoints(
  environment: BenchEnvironment,
  options: { mebibytes: number; n: number; log: Log; signal: AbortSignal },
): Promise<Measurement[]> {
  const { mebibytes, n, log, signal } = options;
  const { edge, kubeconfigPath } = environment;
  const workload = "bench-checkpoints";
  const filesystem = { ...FILES_WORKLOAD.filesystem, checkpointSeconds: INTERVAL_SECONDS };
  const spec: WorkloadSpec = { ...FILES_WORKLOAD, resources: { vcpus: 1, memoryMb: 256, diskGb: 1 }, filesystem };
  await createWorkload(environment, workload, spec);
  const run = await createInstanceShell({ kubeconfigPath, signal });
  const samples: Sample[] = [];
  const claimed = await claimCall(edge, { tenantId: TENANT, workload, resume: false });
  if (claimed.kind === "failed") throw new Error(`Cannot measure checkpoints: a claim failed: ${claimed.why}`);
  await run(claimed.instanceId, fillScript(mebibytes));
  for (let first = 0; first < FIRST; first += 1) await next();
  const { machine, rssMb } = await reportEvery(
    log,
    () => `${samples.length} of ${n} checkpoints`,
    () =>
      withUsage(environment, async () => {
        while (samples.length < n) {
          await run(claimed.instanceId, fillScript(mebibytes, { every: 100 }));
          samples.push(await next());
        }
      }),
  );
  await releaseAll(edge, [TENANT], { workload, signal });
  const mebibytesEach = samples.reduce((sum, { bytes }) => sum + bytes, 0) / samples.length / MiB;
  const note = `${mebibytes} MiB in ${filesOf(mebibytes)} files; ${mebibytesEach.toFixed(2)} MiB came from the pod for each`;
  const common = { missed: 0, failures: {}, machine, rssMb };
  return [
    { path: `checkpoint-${mebibytes}mib-1%-changed`, samplesMs: samples.map(({ ms }) => ms), ...common, note },
    { path: `checkpoint-${mebibytes}mib-1%-frozen`, samplesMs: samples.map(({ frozenMs }) => frozenMs), ...common },
  ];

  /** What the operator has counted of checkpoints. */
  async function counted(): Promise<Sample & { readonly count: number }> {
    const metrics = await environment.operator().metrics();
    const checkpoints = { operation: "checkpoint" };
    return {
      count: metrics.sum("tenancy_snapshot_seconds_count", checkpoints),
      ms: 1000 * metrics.sum("tenancy_snapshot_seconds_sum", checkpoints),
      frozenMs: 1000 * metrics.sum("tenancy_checkpoint_frozen_seconds_sum"),
      bytes: metrics.sum("tenancy_snapshot_pod_bytes_total", checkpoints),
    };
  }

  /** Waits for the next checkpoint. */
  async function next(): Promise<Sample> {
    const before = await counted();
    for (;;) {
      await pause(POLL_MS);
      signal.throwIfAborted();
      const { count, ms, frozenMs, bytes } = await counted();
      if (count === before.count) continue;
      return { ms: ms - before.ms, frozenMs: frozenMs - before.frozenMs, bytes: bytes - before.bytes };
    }
  }
}
