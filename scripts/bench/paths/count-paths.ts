import { systemClock } from "../../../crds/client/clock.ts";
import { withTimeLimit } from "../../../crds/waits.ts";
import { pause } from "../../cluster/process/wait-until.ts";
import { type CountedPath, countRequests, createLogReader } from "../audit-log.ts";
import { currentServerCounts, serverCountsPerClaim } from "../environment/server-counts.ts";
import { createWorkload } from "../fixtures/create-workload.ts";
import { claimCall, createTally, timedClaim } from "../load/claim-call.ts";
import type { BenchContext } from "./bench-context.ts";

/** The paths whose requests can be counted. */
export type CountablePath = "existing" | "pool" | "cold";

const CLAIMS = 10;

// A request is logged after its response, and the operator may still be doing its last request.
const LOG_LAG_MS = 300;

// The status of a pool is written when it is full again.
const POOL_STATUS_MS = 100;

const COLD = "bench-counted";

/** Counts the API server's work per claim, in its audit log; nothing is timed during the count. */
export async function countPaths(
  context: BenchContext,
  { paths, signal }: { paths: readonly CountablePath[]; signal: AbortSignal },
): Promise<Partial<Record<CountablePath, CountedPath>>> {
  const { environment } = context;
  const { edge } = environment;
  await createWorkload(environment, COLD);
  const workload = paths.includes("pool") ? (await context.pool(signal)).workload : COLD;
  const log = createLogReader(await environment.startAudit());
  await untilClaimable();
  const counted: Partial<Record<CountablePath, CountedPath>> = {};
  for (const path of paths) {
    counted[path] = await count(path);
  }
  return counted;

  async function count(path: CountablePath): Promise<CountedPath> {
    if (path === "pool") await settledPool();
    await pause(LOG_LAG_MS, signal);
    log.next();
    const before = await currentServerCounts(environment.client);
    const tally = createTally(path);
    for (let index = 0; index < CLAIMS; index++) {
      signal.throwIfAborted();
      // The pool is refilled after each claim before the next, as in the timed path.
      if (path === "pool") await settledPool();
      const tenantId = path === "existing" ? "counted" : `counted-${path}-${index}`;
      await timedClaim(edge, { tenantId, workload: path === "pool" ? workload : COLD }, tally);
    }
    const { missed, failures } = tally.outcome;
    if (missed > 0 || Object.keys(failures).length > 0) {
      throw new Error(`Cannot count ${path}: ${missed} claims went another way, failed: ${JSON.stringify(failures)}`);
    }
    if (path === "pool") await settledPool();
    await pause(LOG_LAG_MS, signal);
    const requests = countRequests(log.next(), tally.instanceIds);
    const after = await currentServerCounts(environment.client);
    return { claims: CLAIMS, requests, server: serverCountsPerClaim(before, after, CLAIMS) };
  }

  async function settledPool(): Promise<void> {
    await (await context.pool(signal)).untilFull(signal);
    await pause(POOL_STATUS_MS, signal);
  }

  /** Operator and edge reconnect by themselves when the API server is back. */
  async function untilClaimable(): Promise<void> {
    await withTimeLimit({ what: "the first claim", ms: 30_000, clock: systemClock, signal }, async (limited) => {
      for (;;) {
        const outcome = await claimCall(edge, { tenantId: "counted", workload: COLD });
        if (outcome.kind === "answered") return;
        if (limited.aborted)
          throw new Error(`Cannot count: no claim succeeds after the API server's restart: ${outcome.why}`);
        await pause(200, limited);
      }
    });
  }
}
