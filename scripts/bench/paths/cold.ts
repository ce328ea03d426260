import { pods } from "../../../crds/client/built-in-resources.ts";
import type { WorkloadSpec } from "../../../crds/workload.ts";
import type { Log } from "../../cluster/log.ts";
import { type BenchEnvironment, NAMESPACE } from "../environment/start-environment.ts";
import { createWorkload } from "../fixtures/create-workload.ts";
import { releaseAll } from "../fixtures/release-all.ts";
import { createBareStarts } from "../floor/bare-starts.ts";
import { claimCall, createTally, timedClaim } from "../load/claim-call.ts";
import type { Measurement } from "../report/measurement.ts";
import { reportEvery, withUsage } from "./with-usage.ts";

/**
 * Claims without a pool, alternating with bare pods that have the same containers. Each is gone before the next starts.
 */
export async function measureCold(
  environment: BenchEnvironment,
  options: { path: string; n: number; spec: WorkloadSpec; note: string; log: Log; signal: AbortSignal },
): Promise<Measurement[]> {
  const { path, n, log, signal } = options;
  const { edge, client } = environment;
  const workload = `bench-${path}`;
  await createWorkload(environment, workload, options.spec);
  const warmUp = await claimCall(edge, { tenantId: "warm-up", workload });
  if (warmUp.kind === "failed") throw new Error(`Cannot measure ${path}: the first claim failed: ${warmUp.why}`);
  const template = await client.get(pods, { namespace: NAMESPACE, name: warmUp.instanceId });
  await releaseAll(edge, ["warm-up"], { workload, signal });
  const bare = await createBareStarts({ client, template, signal });
  const tally = createTally("cold");
  const floorMs: number[] = [];
  try {
    await startAndEnd("warm-up");
    const { machine, rssMb } = await reportEvery(
      log,
      () => `${tally.size} of ${n} claims`,
      () => withUsage(environment, measure),
    );
    return [{ path, ...tally.outcome, floorMs, machine, rssMb, note: options.note }];
  } finally {
    await bare.close();
  }

  async function measure(): Promise<void> {
    for (let index = 0; index < n; index++) {
      signal.throwIfAborted();
      floorMs.push(await startAndEnd(`bare-${index}`));
      const tenantId = `cold-${index}`;
      await timedClaim(edge, { tenantId, workload }, tally);
      await releaseAll(edge, [tenantId], { workload, signal });
    }
  }

  async function startAndEnd(name: string): Promise<number> {
    const { ms } = await bare.start(name);
    await bare.end(name);
    return ms;
  }
}
