import { pause, waitUntil } from "../../cluster/process/wait-until.ts";
import { type MeasuredProgram, programMetricsUsage } from "../environment/measured-program.ts";
import { type ReceivedBytes, receivedBetween, receivedBytes } from "../environment/received-bytes.ts";
import { readServerCounts, serverCountsPerClaim, serverMetrics } from "../environment/server-counts.ts";
import { startEdge } from "../environment/start-programs.ts";
import { histogramQuantile, type MetricsText } from "../environment/usage.ts";
import { type Crowd, createCrowd, crowdOf } from "../fixtures/crowd.ts";
import { releaseAll } from "../fixtures/release-all.ts";
import { createTally, timedClaim } from "../load/claim-call.ts";
import { inParallel, openLoop, poissonArrivals, seededRandom } from "../load/open-loop.ts";
import type { ScaleResult, ScaleSize } from "../report/bench-report.ts";
import type { Measurement } from "../report/measurement.ts";
import { finite } from "../report/summarise.ts";
import type { BenchContext } from "./bench-context.ts";
import { withUsage } from "./with-usage.ts";

/** The sizes to measure, and how long. */
export interface ScalePlan {
  /** Pods, ascending; the other kinds in proportion. */
  readonly sizes: readonly number[];
  readonly idleSeconds: number;
  readonly loadSeconds: number;
  readonly restarts: number;
  /** The operator is at rest if it has reconciled nothing for this long. */
  readonly quietMs: number;
}

const FULL: ScalePlan = { sizes: [1000, 3000, 10_000], idleSeconds: 15, loadSeconds: 20, restarts: 3, quietMs: 1500 };
const QUICK: ScalePlan = { sizes: [200, 600], idleSeconds: 5, loadSeconds: 5, restarts: 1, quietMs: 1500 };

/** Claims per second over all pools. Two cores sustain this at every size. */
const PER_SECOND = 20;
const PROGRAMS = ["operator", "edge", "kube-apiserver", "etcd"];
const RECONCILES = "tenancy_operator_reconcile_seconds";

/** Lets a cluster grow. At each size, measures memory, idle work, a load of claims, and starts. */
export async function measureScale(
  context: BenchContext,
  { plan = context.quick ? QUICK : FULL, signal }: { plan?: ScalePlan; signal: AbortSignal },
): Promise<{ measurements: Measurement[]; scale: ScaleResult }> {
  const { log } = context;
  const crowd = createCrowd(context.environment, log);
  const look: Look = { ...context, crowd, plan, signal };
  const measurements: Measurement[] = [];
  const sizes: ScaleSize[] = [];
  for (const pods of plan.sizes) {
    const began = performance.now();
    await crowd.grow(crowdOf(pods), signal);
    const fillSeconds = (performance.now() - began) / 1000;
    const standing = await crowd.standing();
    log(
      `${Object.entries(standing).map(([kind, count]) => `${count} ${kind}`)} stand after ${fillSeconds.toFixed(0)} s`,
    );
    const path = `claims-at-${pods}`;
    const loaded = await measureLoad(look, path);
    measurements.push(loaded.measurement);
    const idle = await measureIdle(look);
    const edge = await measureEdgeStart(look);
    const operator = await measureRestarts(look);
    const figures = { "filled in s": fillSeconds, ...idle, ...loaded.figures, ...edge, ...operator.figures };
    sizes.push({ standing, figures: rounded(figures), restartSamplesMs: operator.samplesMs });
  }
  return { measurements, scale: { sizes } };
}

type Look = BenchContext & { readonly crowd: Crowd; readonly plan: ScalePlan; readonly signal: AbortSignal };

function rounded(figures: Readonly<Record<string, number | undefined>>): Record<string, number | null> {
  return Object.fromEntries(Object.entries(figures).map(([name, value]) => [name, finite(value ?? Number.NaN)]));
}

type Figures = Record<string, number | undefined>;

/** Memory of all programs, and their work while there are no requests. */
async function measureIdle(look: Look): Promise<Figures> {
  const { environment, plan, signal } = look;
  const seconds = plan.idleSeconds;
  await untilQuiet(look);
  const traffic = await startTraffic(look);
  const { cpuMs, rssMb } = await withUsage(environment, () => pause(seconds * 1000, signal));
  signal.throwIfAborted();
  const { received, server } = await traffic.end();
  return {
    ...prefixed("MiB", shown(rssMb)),
    "MiB of etcd's file": server.sum("apiserver_storage_size_bytes") / 2 ** 20,
    ...prefixed("idle: CPU ms/s", shown(cpuMs), (ms) => ms / seconds),
    "idle: watch events/s": traffic.since(server, "apiserver_watch_events_total") / seconds,
    "idle: watch KiB/s": traffic.since(server, "apiserver_watch_events_sizes_sum") / 1024 / seconds,
    ...prefixed("idle: KiB/s to", received, (bytes) => bytes / 1024 / seconds),
  };
}

/** Claims from all of the pools at a low rate, and releases what was claimed. */
async function measureLoad(look: Look, path: string): Promise<{ measurement: Measurement; figures: Figures }> {
  const { environment, seed, crowd, plan, signal } = look;
  const seconds = plan.loadSeconds;
  const random = seededRandom(seed);
  const arrivalsMs = poissonArrivals({ perSecond: PER_SECOND, seconds, random });
  const pools = arrivalsMs.map(() => Math.floor(random() * 2 ** 20));
  const claimOf = (index: number) => ({
    tenantId: `${path}-${index}`,
    workload: crowd.pooledWorkload(pools[index] ?? 0),
  });
  const tally = createTally("pool");
  await untilQuiet(look);
  const traffic = await startTraffic(look);
  const before = await environment.operator().metrics();
  const used = await withUsage(environment, async () => {
    await openLoop(arrivalsMs, {
      send: (index, intendedAt) => timedClaim(environment.edge, { ...claimOf(index), intendedAt }, tally),
      signal,
    });
    await crowd.untilFull(signal);
    await untilQuiet(look);
  });
  const after = await environment.operator().metrics();
  const { received, server } = await traffic.end();
  await inParallel(pools, 16, (_, index) => {
    const { tenantId, workload } = claimOf(index);
    return releaseAll(environment.edge, [tenantId], { workload, signal });
  });
  const difference = (name: string) => after.sum(name) - before.sum(name);
  const reconciles = difference(`${RECONCILES}_count`);
  const quantile = (share: number) => 1000 * histogramQuantile(before, after, { name: RECONCILES, share });
  const perClaim = serverCountsPerClaim(readServerCounts(traffic.before), readServerCounts(server), pools.length);
  const note = `${PER_SECOND} claims a second at random from all pools for ${seconds} s`;
  return {
    measurement: { path, ...tally.outcome, ...used, server: perClaim, note },
    figures: {
      "claims: reconciles each": reconciles / pools.length,
      "claims: reconcile p50 ms": quantile(0.5),
      "claims: reconcile p99 ms": quantile(0.99),
      "claims: CPU ms a reconcile": (difference("process_cpu_seconds_total") * 1000) / reconciles,
      "claims: operator's requests each": difference("tenancy_api_requests_total") / pools.length,
      ...prefixed("claims: KiB each to", received, (bytes) => bytes / 1024 / pools.length),
    },
  };
}

/** Starts another edge in addition to the one that serves. */
async function measureEdgeStart({ environment, signal }: Look): Promise<Figures> {
  const { kubeconfigPath, folder, client } = environment;
  const before = await serverMetrics(client);
  const edge = await startEdge({ kubeconfigPath, folder, signal });
  try {
    await edge.ready;
    const ms = performance.now() - edge.startedAt;
    const { rssMb, cpuMs } = await programMetricsUsage(edge);
    const listed = listedBetween(before, await serverMetrics(client));
    return {
      "MiB edge, restarted": rssMb,
      "edge: start ms": ms,
      "edge: start CPU ms": cpuMs,
      ...prefixed("edge: start", listed),
    };
  } finally {
    await edge.stop();
  }
}

/** Restarts the operator, each time with a claim that waits for it. */
async function measureRestarts(look: Look): Promise<{ samplesMs: number[]; figures: Figures }> {
  const { environment, crowd, plan, log, signal } = look;
  const { client, edge } = environment;
  const samplesMs: number[] = [];
  let figures: Figures = {};
  for (let index = 0; index < plan.restarts; index++) {
    const before = await serverMetrics(client);
    const operator = await environment.restartOperator();
    const tally = createTally("pool");
    const claim = { tenantId: `restart-${index}`, workload: crowd.pooledWorkload(index) };
    await timedClaim(edge, { ...claim, intendedAt: operator.startedAt }, tally);
    const { cpuMs } = await programMetricsUsage(operator);
    const { failures, samplesMs: answered } = tally.outcome;
    if (Object.keys(failures).length > 0)
      throw new Error(`A claim after a restart failed: ${JSON.stringify(failures)}`);
    samplesMs.push(...answered);
    log(`restart ${index + 1} of ${plan.restarts}: a waiting claim answered after ${answered[0]?.toFixed(0)} ms`);
    await crowd.untilFull(signal);
    await untilQuiet(look);
    const { rssMb, cpuMs: cpuMsToQuiet } = await programMetricsUsage(operator);
    const metrics = await operator.metrics();
    const listed = listedBetween(before, await serverMetrics(client));
    figures = {
      "MiB operator, restarted": Math.max(rssMb, figures["MiB operator, restarted"] ?? 0),
      ...prefixed("operator: start", listed),
      "operator: start reconciles": metrics.sum(`${RECONCILES}_count`),
      "operator: start requests": metrics.sum("tenancy_api_requests_total"),
      "operator: restart CPU ms": Math.max(cpuMs, figures["operator: restart CPU ms"] ?? 0),
      "operator: CPU ms until all is reconciled": Math.max(
        cpuMsToQuiet,
        figures["operator: CPU ms until all is reconciled"] ?? 0,
      ),
    };
    await releaseAll(edge, [claim.tenantId], { ...claim, signal });
  }
  return { samplesMs, figures };
}

const QUIET_LIMIT_MS = 60_000;

/** Resolves when the operator has reconciled nothing for a while. */
async function untilQuiet({ environment, plan, signal }: Look): Promise<void> {
  const { quietMs } = plan;
  let last = -1;
  let since = performance.now();
  await waitUntil(
    async () => {
      const now = (await environment.operator().metrics()).sum(`${RECONCILES}_count`);
      if (now !== last) since = performance.now();
      last = now;
      return performance.now() - since >= quietMs;
    },
    { what: "the operator to have nothing to do", limitMs: QUIET_LIMIT_MS, intervalMs: quietMs / 6, signal },
  );
}

/** Counts what the API server sends from now on. */
async function startTraffic({ environment }: Look) {
  const { client, edgeProgram, serverPort: fromPort } = environment;
  const socketsBefore = await receivedBytes({ fromPort });
  const before = await serverMetrics(client);
  return {
    before,
    since: (now: MetricsText, name: string) => now.sum(name) - before.sum(name),
    async end() {
      const server = await serverMetrics(client);
      const sockets = await receivedBytes({ fromPort });
      const of = (program: MeasuredProgram) => bytesBetween(socketsBefore, sockets, program);
      return { server, received: { operator: of(environment.operator()), edge: of(edgeProgram) } };
    },
  };
}

function bytesBetween(before: ReceivedBytes | undefined, after: ReceivedBytes | undefined, program: MeasuredProgram) {
  if (before === undefined || after === undefined) return Number.NaN;
  return receivedBetween(before, after, program.identity.pid);
}

/** The lists that the API server has answered between two looks. */
function listedBetween(before: MetricsText, after: MetricsText): { lists: number; "MiB listed": number } {
  const difference = (name: string) => after.sum(name, { verb: "LIST" }) - before.sum(name, { verb: "LIST" });
  return {
    lists: difference("apiserver_request_total"),
    "MiB listed": difference("apiserver_response_sizes_sum") / 2 ** 20,
  };
}

/** Without the simulated nodes, which a real cluster does not have, and without the bench. */
function shown(figures: Readonly<Record<string, number>>): Record<string, number> {
  return Object.fromEntries(Object.entries(figures).filter(([name]) => PROGRAMS.includes(name)));
}

function prefixed(
  prefix: string,
  figures: Readonly<Record<string, number>>,
  change: (value: number) => number = (value) => value,
): Figures {
  return Object.fromEntries(Object.entries(figures).map(([name, value]) => [`${prefix} ${name}`, change(value)]));
}
