import { Writable } from "node:stream";
import { loadClusterConfig } from "../../../crds/client/config/load-cluster-config.ts";
import { createExec } from "../../../crds/client/exec/exec.ts";
import { WORKLOAD_CONTAINER } from "../../../crds/labels.ts";
import type { WorkloadSpec } from "../../../crds/workload.ts";
import { BUSYBOX_IMAGE } from "../../cluster/images/local-images.ts";
import type { Log } from "../../cluster/log.ts";
import { type BenchEnvironment, NAMESPACE } from "../environment/start-environment.ts";
import { createWorkload } from "../fixtures/create-workload.ts";
import { createPool } from "../fixtures/pool.ts";
import { releaseAll } from "../fixtures/release-all.ts";
import { claimCall, createTally, timedClaim } from "../load/claim-call.ts";
import type { Measurement } from "../report/measurement.ts";
import { reportEvery, withUsage } from "./with-usage.ts";

const MiB = 2 ** 20;
const POOL_SIZE = 2;

const WORKLOAD: WorkloadSpec = {
  image: { ref: BUSYBOX_IMAGE },
  entrypoint: { cmd: "/bin/busybox", args: ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done"] },
  resources: { vcpus: 1, memoryMb: 64, diskGb: 1 },
  filesystem: { overlayDirs: ["/data"] },
};

// Random bytes, which do not compress, in as many files as a small project has.
const fill = (mebibytes: number): string =>
  `for i in $($b seq 1 ${mebibytes * 16}); do $b dd if=/dev/urandom of=/data/$i bs=64k count=1 2>/dev/null; done`;
const digest = "cd /data && $b find . -type f | $b sort | $b xargs $b sha256sum | $b sha256sum";

/**
 * Claims that bring a tenant's files back, each checked by a digest of all of them, and each released before the next,
 * which saves the files anew.
 *
 * @throws Error when the files are not the same, which no figure could make good
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
  await createWorkload(environment, workload, WORKLOAD);
  const pool =
    path === "pool+data"
      ? await createPool(environment, { name: workload, size: POOL_SIZE, maxFillConcurrency: 2 })
      : undefined;
  const tally = createTally(path);
  try {
    await pool?.untilFull(signal);
    const first = await claimCall(edge, claim);
    if (first.kind === "failed") throw new Error(`Cannot measure ${path}: the first claim failed: ${first.why}`);
    await run(first.instanceId, fill(mebibytes));
    const expected = await run(first.instanceId, digest);
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
        const of = (metrics: typeof before) => metrics.sum(`tenancy_snapshot_seconds_${part}`, { operation });
        return of(after) - of(before);
      }) as [number, number];
      return `${operation} ${((times * mebibytes * MiB) / 1e6 / seconds).toFixed(0)} MB/s`;
    };
    const note = `${mebibytes} MiB in ${mebibytes * 16} files, digest checked; ${speed("restore")}, ${speed("save")}, by the operator's own clock`;
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
      const seen = await run(lastInstanceId, digest);
      if (seen !== expected) throw new Error(`the files of ${lastInstanceId} are not those that were saved`);
      await release();
    }
  }

  async function release(): Promise<void> {
    await releaseAll(edge, [claim.tenantId], { workload, signal });
  }
}

const LIMIT_MS = 120_000;

/**
 * Makes the function that runs a script in an instance, with the busybox that is brought there as `$b`, and resolves
 * with what it wrote.
 *
 * @throws Error when the script fails
 */
async function createInstanceShell({
  kubeconfigPath,
  signal,
}: {
  kubeconfigPath: string;
  signal: AbortSignal;
}): Promise<(pod: string, script: string) => Promise<string>> {
  const exec = createExec({ config: await loadClusterConfig({ kubeconfigPath }) });
  return async (pod, script) => {
    const chunks: Buffer[] = [];
    const stdout = new Writable({
      write(chunk: Buffer, _encoding, callback) {
        chunks.push(chunk);
        callback();
      },
    });
    const command = ["/.tenancy/busybox", "sh", "-c", `b=/.tenancy/busybox; ${script}`];
    const target = { namespace: NAMESPACE, pod, container: WORKLOAD_CONTAINER, command };
    const { exitCode, stderr } = await exec({ ...target, stdout, signal, timeoutMs: LIMIT_MS });
    if (exitCode !== 0) throw new Error(`Cannot run a script in ${pod}: ${stderr.trim() || `exit code ${exitCode}`}`);
    return Buffer.concat(chunks).toString("utf8");
  };
}
