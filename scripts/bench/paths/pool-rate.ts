import { openLoop } from "../load/open-loop.ts";
import { createTally } from "../load/tally.ts";
import { timedClaim } from "../load/timed-claim.ts";
import type { Measurement } from "../report/measurement.ts";
import { poissonArrivals } from "../stats/poisson-arrivals.ts";
import { seededRandom } from "../stats/seeded-random.ts";
import type { BenchContext } from "./bench-context.ts";
import { reportEvery } from "./report-every.ts";
import { withUsage } from "./with-usage.ts";

const PER_SECOND = 45;

/** Claims from the pool at random moments at a fixed mean rate, each timed from its intended moment; the claims stay. */
export async function measurePoolRate(
  { stage, quick, seed, log, pool: poolOf, floor: floorOf }: BenchContext,
  signal: AbortSignal,
): Promise<Measurement[]> {
  const pool = await poolOf(signal);
  const floor = await floorOf(signal);
  await pool.untilFull(signal);
  const seconds = quick ? 8 : 60;
  const arrivalsMs = poissonArrivals({ perSecond: PER_SECOND, seconds, random: seededRandom(seed) });
  const tally = createTally("pool");
  const used = await reportEvery(
    log,
    () => `${tally.size} of ${arrivalsMs.length} claims, ${pool.warm.readyCount()} pods ready`,
    () =>
      withUsage(stage, () =>
        openLoop(arrivalsMs, {
          send: (index, intendedAt) =>
            timedClaim(stage.edge, { tenantId: `rate-${index}`, workload: pool.workload, intendedAt }, tally),
          signal,
        }),
      ),
  );
  const note = `${PER_SECOND} claims a second at random (Poisson, seed ${seed}) for ${seconds} s, timed from the intended moment, with the pool being refilled`;
  return [{ path: "pool-rate", ...tally.outcome, floorMs: floor.samplesMs, ...used, note }];
}
