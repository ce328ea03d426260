import { pause } from "../../cluster/process/wait-until.ts";
import { currentServerCounts, type ServerCounts, serverCountsPerClaim } from "../environment/server-counts.ts";
import { createWorkload } from "../fixtures/create-workload.ts";
import { claimCall, createTally, timedClaim } from "../load/claim-call.ts";
import { openLoop, poissonArrivals, seededRandom } from "../load/open-loop.ts";
import type { Measurement } from "../report/measurement.ts";
import type { BenchContext } from "./bench-context.ts";
import { reportEvery, withUsage } from "./with-usage.ts";

const WARM_UP = 5;

// In this time, all watches have shown the last refilled pod.
const SETTLE_MS = 10;

/**
 * Claims from the pool, each when the pool is full again, alternating with the bare writes. The claims stay.
 *
 * @param path its name, since it is measured in an empty cluster and in a full one
 */
export async function measurePool(
  { environment, quick, log, pool: poolOf, floor: floorOf }: BenchContext,
  { path, signal }: { path: string; signal: AbortSignal },
): Promise<Measurement[]> {
  const { edge } = environment;
  const pool = await poolOf(signal);
  const floor = await floorOf(signal);
  let sent = 0;
  const tally = createTally("pool");
  const n = quick ? 30 : 200;

  await measure(WARM_UP, createTally("pool"));
  const floorFrom = floor.samplesMs.length;
  const { machine, rssMb } = await reportEvery(
    log,
    () => `${tally.size} of ${n} claims`,
    () => withUsage(environment, () => measure(n, tally)),
  );
  const floorMs = floor.samplesMs.slice(floorFrom);
  return [{ path, ...tally.outcome, floorMs, machine, rssMb, note: "floor: the three bare writes in sequence" }];

  async function measure(count: number, into: typeof tally): Promise<void> {
    for (let index = 0; index < count; index++) {
      const tenantId = `${path}-${sent++}`;
      const steps = [() => floor.sample(), () => timedClaim(edge, { tenantId, workload: pool.workload }, into)];
      // They alternate, so that not always the same one comes after a pause.
      for (const step of index % 2 === 0 ? steps : steps.reverse()) {
        await pool.untilFull(signal);
        await pause(SETTLE_MS, signal);
        await step();
      }
    }
  }
}

const CLAIMS = 300;

/** Claims a whole pool at once, a few times. The claims stay. */
export async function measurePoolBurst(context: BenchContext, signal: AbortSignal): Promise<Measurement[]> {
  const { environment, quick, log } = context;
  const { edge } = environment;
  const pool = await context.pool(signal);
  const floor = await context.floor(signal);
  const tally = createTally("pool");
  const bursts = quick ? 1 : 3;
  await pool.untilFull(signal);
  const before = await currentServerCounts(environment.client);
  const used = await withUsage(environment, async () => {
    for (let burst = 1; burst <= bursts; burst++) {
      // Then no claim has to open a connection.
      await edge.open(CLAIMS);
      const names = Array.from({ length: CLAIMS }, (_, index) => `burst-${burst}-${index}`);
      const began = performance.now();
      await Promise.all(names.map((tenantId) => timedClaim(edge, { tenantId, workload: pool.workload }, tally)));
      log(`burst ${burst} of ${bursts}: the last of ${CLAIMS} after ${Math.round(performance.now() - began)} ms`);
      await pool.untilFull(signal);
    }
  });
  const server = await serverCountsSince(before, tally.size, context, signal);
  const note = `${bursts} x ${CLAIMS} claims at one moment; max is when the last was answered`;
  return [{ path: "pool-burst", ...tally.outcome, floorMs: floor.samplesMs, ...used, server, note }];
}

const PER_SECOND = 45;

/** Claims from the pool for a minute at a rate that it must sustain after any other path. */
export async function measurePoolRate(context: BenchContext, signal: AbortSignal): Promise<Measurement[]> {
  const { quick, seed } = context;
  const floor = await context.floor(signal);
  const seconds = quick ? 8 : 60;
  const { planned: _, ...found } = await claimAtRate(context, { perSecond: PER_SECOND, seconds, name: "rate", signal });
  const note = `${PER_SECOND} claims a second at random (Poisson, seed ${seed}) for ${seconds} s, timed from the intended moment, with the pool being refilled`;
  return [{ path: "pool-rate", ...found, floorMs: floor.samplesMs, note }];
}

/**
 * Claims from a full pool at random times with a fixed mean rate. Each claim is timed from its planned time. The claims
 * stay.
 *
 * @param options.name the prefix of the tenants' names
 * @param options.isOver called with the times so far and the number of planned claims; `true` skips the rest
 * @returns the results, and the number of planned claims
 */
export async function claimAtRate(
  context: BenchContext,
  options: {
    perSecond: number;
    seconds: number;
    name: string;
    isOver?: (samplesMs: readonly number[], planned: number) => boolean;
    signal: AbortSignal;
  },
): Promise<Omit<Measurement, "path"> & { planned: number }> {
  const { environment, seed, log } = context;
  const { perSecond, seconds, name, isOver, signal } = options;
  const pool = await context.pool(signal);
  await pool.untilFull(signal);
  const arrivalsMs = poissonArrivals({ perSecond, seconds, random: seededRandom(seed) });
  const planned = arrivalsMs.length;
  const tally = createTally("pool");
  const before = await currentServerCounts(environment.client);
  const used = await reportEvery(
    log,
    () => `${tally.size} of ${planned} claims, ${pool.warm.readyCount()} pods ready`,
    () =>
      withUsage(environment, () =>
        openLoop(arrivalsMs, {
          send: (index, intendedAt) =>
            timedClaim(environment.edge, { tenantId: `${name}-${index}`, workload: pool.workload, intendedAt }, tally),
          isOver: () => isOver?.(tally.outcome.samplesMs, planned) === true,
          signal,
        }),
      ),
  );
  const server = await serverCountsSince(before, tally.size, context, signal);
  return { ...tally.outcome, ...used, server, planned };
}

// In this time, the writes after the refill are done, such as the pool's status.
const QUIET_MS = 500;

/** The API server's work for a number of claims, including the refill of the pool. */
async function serverCountsSince(
  before: ServerCounts,
  claims: number,
  { environment, pool }: BenchContext,
  signal: AbortSignal,
): Promise<ServerCounts> {
  await (await pool(signal)).untilFull(signal);
  await pause(QUIET_MS, signal);
  return serverCountsPerClaim(before, await currentServerCounts(environment.client), claims);
}

const EXISTING_WARM_UP = 200;

/**
 * Repeats the calls of Active claims, one after the other. They alternate with the floor, a bare call of the same
 * server.
 */
export async function measureExisting(
  { environment, quick }: BenchContext,
  signal: AbortSignal,
): Promise<Measurement[]> {
  const { edge } = environment;
  const claim = { tenantId: "existing", workload: "bench-existing" };
  await createWorkload(environment, claim.workload);
  const first = await claimCall(edge, claim);
  if (first.kind === "failed") throw new Error(`Cannot measure existing: the first claim failed: ${first.why}`);
  for (let count = 0; count < EXISTING_WARM_UP; count++) await claimCall(edge, claim);

  const tally = createTally("existing");
  const floorMs: number[] = [];
  const used = await withUsage(environment, async () => {
    while (tally.size < (quick ? 1000 : 5000)) {
      signal.throwIfAborted();
      await timedClaim(edge, claim, tally);
      const began = performance.now();
      await edge.call("GET", "/api/v1/health");
      floorMs.push(performance.now() - began);
    }
  });
  return [{ path: "existing", ...tally.outcome, floorMs, ...used, note: "floor: GET /api/v1/health" }];
}
