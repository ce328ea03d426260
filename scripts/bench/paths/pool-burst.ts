import { createTally } from "../load/tally.ts";
import { timedClaim } from "../load/timed-claim.ts";
import type { Measurement } from "../report/measurement.ts";
import type { BenchContext } from "./bench-context.ts";
import { withUsage } from "./with-usage.ts";

const CLAIMS = 300;

/** Claims a whole pool at one moment, a few times; the claims stay. */
export async function measurePoolBurst(
  { stage, quick, log, pool: poolOf, floor: floorOf }: BenchContext,
  signal: AbortSignal,
): Promise<Measurement[]> {
  const { edge } = stage;
  const pool = await poolOf(signal);
  const floor = await floorOf(signal);
  const tally = createTally("pool");
  const bursts = quick ? 1 : 3;
  await pool.untilFull(signal);
  const used = await withUsage(stage, async () => {
    for (let burst = 1; burst <= bursts; burst++) {
      // So that no claim has to open a connection.
      await edge.open(CLAIMS);
      const names = Array.from({ length: CLAIMS }, (_, index) => `burst-${burst}-${index}`);
      const began = performance.now();
      await Promise.all(names.map((tenantId) => timedClaim(edge, { tenantId, workload: pool.workload }, tally)));
      log(`burst ${burst} of ${bursts}: the last of ${CLAIMS} after ${Math.round(performance.now() - began)} ms`);
      await pool.untilFull(signal);
    }
  });
  const note = `${bursts} x ${CLAIMS} claims at one moment; max is when the last was answered`;
  return [{ path: "pool-burst", ...tally.outcome, floorMs: floor.samplesMs, ...used, note }];
}
