import { pods } from "../../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { claims } from "../../../crds/kinds.ts";
import type { KubernetesObject } from "../../../crds/kubernetes.ts";
import type { Resource } from "../../../crds/resource.ts";
import { programMetricsUsage } from "../environment/measured-program.ts";
import { NAMESPACE } from "../environment/start-environment.ts";
import { createWorkload } from "../fixtures/create-workload.ts";
import { createTally, timedClaim } from "../load/claim-call.ts";
import { inParallel } from "../load/open-loop.ts";
import type { ScaleResult } from "../report/bench-report.ts";
import type { Measurement } from "../report/measurement.ts";
import type { BenchContext } from "./bench-context.ts";
import { measurePool } from "./pool.ts";
import { reportEvery } from "./with-usage.ts";

const FULL = { pods: 10_000, claims: 5000 };
const QUICK = { pods: 1000, claims: 500 };
const RESTARTS = 3;

/**
 * Fills the cluster, then measures the pool path, the operator's memory and how soon a new operator works, in the
 * crowd.
 */
export async function measureScale(
  context: BenchContext,
  signal: AbortSignal,
): Promise<{ measurements: Measurement[]; scale: ScaleResult }> {
  const { environment, quick, log } = context;
  const { client, edge } = environment;
  const wanted = quick ? QUICK : FULL;
  const pool = await context.pool(signal);
  await fill();
  const standing = { pods: await countOf(client, pods), claims: await countOf(client, claims) };
  log(`${standing.pods} pods and ${standing.claims} claims stand`);

  const before = await environment.operator().metrics();
  const measurements = await measurePool(context, { path: "pool-at-scale", signal });
  const after = await environment.operator().metrics();
  const difference = (name: string) => after.sum(name) - before.sum(name);
  const reconciles = difference("tenancy_operator_reconcile_seconds_count");
  const { rssMb } = await programMetricsUsage(environment.operator());

  const restartSamplesMs: number[] = [];
  const restartCpuSamplesMs: number[] = [];
  for (let index = 0; index < RESTARTS; index++) {
    const { ms, cpuMs } = await restart(index);
    log(
      `restart ${index + 1} of ${RESTARTS}: a waiting claim answered after ${ms.toFixed(0)} ms, ${cpuMs.toFixed(0)} of CPU`,
    );
    restartSamplesMs.push(ms);
    restartCpuSamplesMs.push(cpuMs);
  }
  const scale: ScaleResult = {
    ...standing,
    rssMb,
    rssAfterRestartMb: (await programMetricsUsage(environment.operator())).rssMb,
    restartMs: Math.max(...restartSamplesMs),
    restartSamplesMs,
    restartCpuMs: Math.max(...restartCpuSamplesMs),
    cpuMsPerReconcile: (difference("process_cpu_seconds_total") * 1000) / reconciles,
  };
  return { measurements, scale };

  /** Half of the pods warm, half of them claimed. */
  async function fill(): Promise<void> {
    await createWorkload(environment, "bench-crowd");
    const missing = Math.max(0, wanted.claims - (await countOf(client, claims)));
    const tenants = Array.from({ length: missing }, (_, index) => `crowd-${index}`);
    const tally = createTally("cold");
    await pool.resize(wanted.pods - wanted.claims);
    await reportEvery(
      log,
      () => `${tally.size} of ${missing} claims, ${pool.warm.readyCount()} pods warm`,
      async () => {
        await inParallel(tenants, 32, async (tenantId) => {
          signal.throwIfAborted();
          await timedClaim(edge, { tenantId, workload: "bench-crowd" }, tally);
        });
        await pool.untilFull(signal);
      },
    );
    const { failures } = tally.outcome;
    if (Object.keys(failures).length > 0) throw new Error(`Cannot fill the cluster: ${JSON.stringify(failures)}`);
  }

  async function restart(index: number): Promise<{ ms: number; cpuMs: number }> {
    const operator = await environment.restartOperator();
    const tally = createTally("pool");
    const claim = { tenantId: `restart-${index}`, workload: pool.workload, intendedAt: operator.startedAt };
    await timedClaim(edge, claim, tally);
    const { cpuMs } = await programMetricsUsage(operator);
    const [ms = Number.POSITIVE_INFINITY] = tally.outcome.samplesMs;
    if (!Number.isFinite(ms))
      throw new Error(`A claim after a restart failed: ${JSON.stringify(tally.outcome.failures)}`);
    return { ms, cpuMs };
  }
}

/** How many objects of a kind the API server holds for us, which it tells without sending them. */
async function countOf<T extends KubernetesObject>(client: ClusterClient, resource: Resource<T>): Promise<number> {
  const { items, metadata } = await client.list(resource, { namespace: NAMESPACE, limit: 1 });
  return items.length + (metadata.remainingItemCount ?? 0);
}
