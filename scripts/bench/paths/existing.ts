import { createWorkload } from "../fixtures/create-workload.ts";
import { claimCall } from "../load/claim-call.ts";
import { createTally } from "../load/tally.ts";
import { timedClaim } from "../load/timed-claim.ts";
import type { Measurement } from "../report/measurement.ts";
import type { BenchContext } from "./bench-context.ts";
import { withUsage } from "./with-usage.ts";

const WARM_UP = 200;

/** Claims again what is Active, one call after the other; the floor is a bare call of the same server, in turn with them. */
export async function measureExisting({ stage, quick }: BenchContext, signal: AbortSignal): Promise<Measurement[]> {
  const { edge } = stage;
  const claim = { tenantId: "existing", workload: "bench-existing" };
  await createWorkload(stage, claim.workload);
  const first = await claimCall(edge, claim);
  if (first.kind === "failed") throw new Error(`Cannot measure existing: the first claim failed: ${first.why}`);
  for (let count = 0; count < WARM_UP; count++) await claimCall(edge, claim);

  const tally = createTally("existing");
  const floorMs: number[] = [];
  const used = await withUsage(stage, async () => {
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
