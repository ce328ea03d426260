import type { ClaimResponse } from "../../../crds/claims/claim-response.ts";
import type { Measurement } from "../report/measurement.ts";
import type { LoadClient } from "./load-client.ts";

/** How a claim call ended. */
export type ClaimOutcome =
  | { readonly kind: "answered"; readonly source: string; readonly instanceId: string }
  /** Refused: the server has too much to do and has begun nothing (429). */
  | { readonly kind: "failed"; readonly why: string; readonly isRefused?: boolean };

export interface BenchClaim {
  readonly tenantId: string;
  readonly workload: string;
  readonly resume?: boolean | undefined;
  /** `env`, `secrets` and `files`. */
  readonly inputs?: object | undefined;
}

/** Claims a workload for a tenant by the REST API; never throws. */
export async function claimCall(
  edge: LoadClient,
  { tenantId, workload, resume = false, inputs }: BenchClaim,
): Promise<ClaimOutcome> {
  try {
    const { status, text } = await edge.call("POST", `/api/v1/tenants/${tenantId}/claim`, {
      workload,
      resume,
      ...inputs,
    });
    const answer = JSON.parse(text) as Partial<ClaimResponse> & { error?: string };
    if (status === 429) return { kind: "failed", why: "429, the cluster is busy", isRefused: true };
    if (status !== 201) return failed(`${status} ${answer.error ?? text}`);
    if (answer.phase !== "Active" || answer.instanceId === undefined) return failed(`201 but ${answer.phase}`);
    return { kind: "answered", source: answer.source ?? "?", instanceId: answer.instanceId };
  } catch (error) {
    return failed(error instanceof Error ? error.message : String(error));
  }
}

/** Removes names from a reason, since each name would make another reason. */
function failed(why: string): ClaimOutcome {
  return { kind: "failed", why: why.replace(/"[^"]*"/g, '"…"').slice(0, 200) };
}

/**
 * Claims once and adds the result to the tally; never throws.
 *
 * @param claim.intendedAt the planned time, in milliseconds of `performance.now`. @default now
 */
export async function timedClaim(
  edge: LoadClient,
  claim: BenchClaim & { intendedAt?: number },
  tally: Tally,
): Promise<void> {
  const { intendedAt = performance.now() } = claim;
  const outcome = await claimCall(edge, claim);
  tally.add(outcome, performance.now() - intendedAt);
}

/** Collects the results of the claims of one path. */
interface Tally {
  /** @param ms from the planned time to the complete response */
  add(outcome: ClaimOutcome, ms: number): void;
  /** How many have ended. */
  readonly size: number;
  /** The pods that were given out. */
  readonly instanceIds: ReadonlySet<string>;
  /** The pod of the last claim, unless that failed. */
  readonly lastInstanceId: string | undefined;
  readonly outcome: Pick<Measurement, "samplesMs" | "missed" | "failures">;
}

/** @param source the source that a response must have to count for the measured path */
export function createTally(source: string): Tally {
  const samplesMs: number[] = [];
  const failures: Record<string, number> = {};
  const instanceIds = new Set<string>();
  let missed = 0;
  let lastInstanceId: string | undefined;
  return {
    add(outcome, ms) {
      lastInstanceId = outcome.kind === "failed" ? undefined : outcome.instanceId;
      if (outcome.kind === "failed") {
        samplesMs.push(Number.POSITIVE_INFINITY);
        failures[outcome.why] = (failures[outcome.why] ?? 0) + 1;
        return;
      }
      samplesMs.push(ms);
      instanceIds.add(outcome.instanceId);
      if (outcome.source !== source) missed += 1;
    },
    get size() {
      return samplesMs.length;
    },
    instanceIds,
    get lastInstanceId() {
      return lastInstanceId;
    },
    get outcome() {
      return { samplesMs, missed, failures };
    },
  };
}
