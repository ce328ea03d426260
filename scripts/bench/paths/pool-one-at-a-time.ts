import { pause } from "../../cluster/process/pause.ts";
import { createTally } from "../load/tally.ts";
import { timedClaim } from "../load/timed-claim.ts";
import type { Measurement } from "../report/measurement.ts";
import type { BenchContext } from "./bench-context.ts";
import { reportEvery } from "./report-every.ts";
import { withUsage } from "./with-usage.ts";

const WARM_UP = 5;

// For the watches of everyone to have seen the last refilled pod.
const SETTLE_MS = 10;

/**
 * Claims from the pool, one when the pool is full again after the other, in turn with the bare writes; the claims stay.
 *
 * @param path what to call it, since it is measured in an empty cluster and in a crowded one
 */
export async function measurePool(
  { stage, quick, log, pool: poolOf, floor: floorOf }: BenchContext,
  { path, signal }: { path: string; signal: AbortSignal },
): Promise<Measurement[]> {
  const { edge } = stage;
  const pool = await poolOf(signal);
  const floor = await floorOf(signal);
  let sent = 0;
  const tally = createTally("pool");
  const n = quick ? 30 : 200;

  await measure(WARM_UP, createTally("pool"));
  const floorFrom = floor.samplesMs.length;
  const { machine } = await reportEvery(
    log,
    () => `${tally.size} of ${n} claims`,
    () => withUsage(stage, () => measure(n, tally)),
  );
  const floorMs = floor.samplesMs.slice(floorFrom);
  return [{ path, ...tally.outcome, floorMs, machine, note: "floor: the three bare writes in sequence" }];

  async function measure(count: number, into: typeof tally): Promise<void> {
    for (let index = 0; index < count; index++) {
      const tenantId = `${path}-${sent++}`;
      const steps = [() => floor.sample(), () => timedClaim(edge, { tenantId, workload: pool.workload }, into)];
      // In turns, so that neither is always the one that comes after a pause.
      for (const step of index % 2 === 0 ? steps : steps.reverse()) {
        await pool.untilFull(signal);
        await pause(SETTLE_MS, signal);
        await step();
      }
    }
  }
}
