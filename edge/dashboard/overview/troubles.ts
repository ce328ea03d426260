import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { poolSize } from "../pools/pool-size.ts";

/** A current problem; similar problems are grouped. */
export interface Trouble {
  readonly key: string;
  readonly is: "bad" | "warn";
  /** The API's reason, or our own words if it has none. */
  readonly reason: string;
  readonly what: string;
  /** Number of claims. */
  readonly claims?: number;
  /** One of the claims; its message has the details. */
  readonly example?: { readonly tenantId: string; readonly workloadRef: string };
  /** Whether another claim call can start the claims. */
  readonly isOver?: boolean;
  readonly message?: string;
  /** The page with the details. */
  readonly href: string;
}

export interface TroubleSources {
  readonly claims: Iterable<ApiTypes["Claim"]>;
  readonly workloads: Iterable<ApiTypes["Workload"]>;
  readonly pools: Iterable<ApiTypes["Pool"]>;
  readonly triggers: Iterable<ApiTypes["Trigger"]>;
  /** How long a claim has been Pending or Releasing, as measured by the page. */
  waitingMs(claim: ApiTypes["Claim"]): number;
  /** How long a pool has had no ready pod, as measured by the page. */
  emptyMs(pool: ApiTypes["Pool"]): number;
}

/** A claim or an empty pool is a problem after this time; a burst empties a pool only for a moment. */
export const SLOW_MS = 30_000;

/** Ranks: files that may be lost, then failures, then slow claims. */
const claimTroubles = {
  ReleaseFailed: { is: "bad", rank: 0, otherwise: "SaveFailed" },
  Error: { is: "bad", rank: 1, otherwise: "Error" },
  // For example, a program that keeps crashing: the claim keeps its pod.
  Active: { is: "bad", rank: 1, otherwise: "Active" },
  Pending: { is: "warn", rank: 5, otherwise: "Pending" },
  Releasing: { is: "warn", rank: 5, otherwise: "Releasing" },
} as const;

/**
 * The overview's heading.
 *
 * @param of.states of the lists that it summarises
 * @param of.heardAt when they were last up to date, as a time of day
 */
export function headingWords(of: { states: readonly string[]; count: number; heardAt: string }): string {
  const { states, count, heardAt } = of;
  if (states.includes("loading")) return "Loading…";
  const what = count === 0 ? "No problems" : count === 1 ? "One problem" : `${count} problems`;
  return states.includes("stale") ? `${what} at ${heardAt}` : what;
}

/** Lists the problems: the worst first, then the most frequent. */
export function findTroubles(sources: TroubleSources): Trouble[] {
  const found: { rank: number; trouble: Trouble }[] = [];
  for (const { rank, trouble } of claimGroups(sources).values()) found.push({ rank, trouble });
  for (const { name, status } of sources.workloads) {
    if (status.phase === "Error") found.push({ rank: 2, trouble: { ...told("workload", name, status), is: "bad" } });
  }
  for (const pool of sources.pools) {
    const { name, status } = pool;
    const isEmpty = isPoolEmpty(pool) && sources.emptyMs(pool) >= SLOW_MS;
    if (status.phase !== "Error" && status.phase !== "Degraded" && !isEmpty) continue;
    const { reason = isEmpty ? "Empty" : status.phase } = status;
    const what = `pool ${name}: ${status.ready} of ${poolSize(pool)} ready`;
    const is = status.phase === "Error" ? "bad" : "warn";
    found.push({ rank: 3, trouble: { ...told("pool", name, status), reason, what, is } });
  }
  for (const { name, status } of sources.triggers) {
    if (status.phase !== "Error") continue;
    const { detail } = status;
    const trouble = told("trigger", name, { phase: "Error", ...(detail !== undefined && { message: detail }) });
    found.push({ rank: 4, trouble: { ...trouble, is: "bad" } });
  }
  found.sort((a, b) => a.rank - b.rank || (b.trouble.claims ?? 0) - (a.trouble.claims ?? 0));
  return found.map(({ trouble }) => trouble);
}

/** Whether a claim is in a phase that should end by itself. */
export function isWaiting({ phase }: ApiTypes["Claim"]): boolean {
  return phase === "Pending" || phase === "Releasing";
}

/** Whether a pool that should have pods has no ready one. */
export function isPoolEmpty(pool: ApiTypes["Pool"]): boolean {
  return pool.status.ready === 0 && poolSize(pool) > 0;
}

function claimGroups({ claims, waitingMs }: TroubleSources): Map<string, { rank: number; trouble: Trouble }> {
  const groups = new Map<string, { rank: number; trouble: Trouble }>();
  for (const claim of claims) {
    const { phase, reason, workloadRef, tenantId } = claim;
    if (phase === "Released" || (phase === "Active" && reason === undefined)) continue;
    if (isWaiting(claim) && waitingMs(claim) < SLOW_MS) continue;
    const { is, rank, otherwise } = claimTroubles[phase];
    const key = `${phase} ${reason} ${workloadRef}`;
    const known = groups.get(key)?.trouble;
    const query = new URLSearchParams({ phase, workload: workloadRef, ...(reason !== undefined && { reason }) });
    groups.set(key, {
      rank,
      trouble: {
        ...{ key, is, reason: reason ?? otherwise },
        what: phase === "ReleaseFailed" ? `${workloadRef}: files cannot be saved` : workloadRef,
        claims: (known?.claims ?? 0) + 1,
        ...(phase === "Error" && { isOver: true }),
        example: known?.example ?? { tenantId, workloadRef },
        href: `/dashboard/claims?${query}`,
      },
    });
  }
  return groups;
}

function told(
  noun: "workload" | "pool" | "trigger",
  name: string,
  { phase, reason, message }: { phase: string; reason?: string; message?: string },
): Omit<Trouble, "is"> {
  return {
    key: `${noun} ${name}`,
    reason: reason ?? phase,
    what: `${noun} ${name}`,
    ...(message !== undefined && { message }),
    href: `/dashboard/${noun}s/${name}`,
  };
}
