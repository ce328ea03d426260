import type { Claim, ClaimSource } from "../../crds/claim.ts";
import type { Change } from "../../crds/client/watch/informer.ts";
import { annotation } from "../../crds/labels.ts";
import { createTimeBuckets } from "./time-buckets.ts";

/** The claims of the last hour: how many became Active, how fast and from which source, and how many failed. */
export interface ClaimHistory {
  /** Adds a claim of the initial list: earlier requests for it are not measured. */
  onListed(claim: Claim): void;
  onChange(change: Change<Claim>): void;
  /** The hour in minutes, oldest first. */
  read(): ClaimHour;
}

export interface ClaimHour {
  /** When the first minute began, in milliseconds since the epoch. */
  readonly from: number;
  readonly sources: SourceHour[];
  /** Claims that ended in `Error`, per minute. */
  readonly errors: number[];
  /** Of the whole hour, most frequent first; reasons beyond the limit as `Other`. */
  readonly reasons: { readonly reason: string; readonly count: number }[];
}

/** The claims of one source; a latency is accurate to about an eighth, and null if nothing was measured. */
interface SourceHour {
  readonly source: ClaimSource;
  /** Per minute. */
  readonly claims: number[];
  readonly p50Ms: (number | null)[];
  readonly p99Ms: (number | null)[];
  readonly hour: { readonly claims: number; readonly p50Ms: number | null; readonly p99Ms: number | null };
}

export const CLAIM_STEP_SECONDS = 60;
const MINUTES = 60;
const sources = ["pool", "pool+data", "cold", "cold+data"] as const satisfies ClaimSource[];
/** Each latency bound is this factor above the previous one: 1 ms to 120 s. */
const GROWTH = 1.28;
const BOUNDS = 48;
const MAX_REASONS = 8;
const OTHER = "Other";

// A row: for each source its count and latencies, then the errors by reason.
const SOURCE_WIDTH = 1 + BOUNDS;
const REASONS_AT = sources.length * SOURCE_WIDTH;
const WIDTH = REASONS_AT + MAX_REASONS + 1;

/** @param options.now milliseconds since the epoch */
export function createClaimHistory({ now }: { now: () => number }): ClaimHistory {
  const minutes = createTimeBuckets({ stepMs: CLAIM_STEP_SECONDS * 1000, count: MINUTES, width: WIDTH, now });
  const reasons: string[] = [];
  /** By the claim's uid: the request that was measured. A replacement pod later does not answer a new request. */
  const measured = new Map<string, string>();

  function add(column: number): void {
    const row = minutes.current();
    row[column] = (row[column] ?? 0) + 1;
  }

  function columnOf(reason: string): number {
    if (reason === OTHER) return REASONS_AT + MAX_REASONS;
    const known = reasons.indexOf(reason);
    if (known >= 0) return REASONS_AT + known;
    const { rows } = minutes.read();
    const free = reasons.length < MAX_REASONS ? reasons.length : reasons.findIndex((_, at) => sum(rows, at) === 0);
    if (free < 0) return REASONS_AT + MAX_REASONS;
    reasons[free] = reason;
    return REASONS_AT + free;
  }

  function sum(rows: readonly Int32Array[], reason: number): number {
    return rows.reduce((total, row) => total + (row[REASONS_AT + reason] ?? 0), 0);
  }

  /** Records that a claim has its answer, a pod or an error; false if its request had one before, or has no time. */
  function isFirstAnswer({ metadata: { uid = "", annotations } }: Claim): boolean {
    const requested = annotations?.[annotation.requestedAt];
    if (requested === undefined || measured.get(uid) === requested) return false;
    measured.set(uid, requested);
    return true;
  }

  /** Milliseconds from the request to the pod; undefined if unknown, or if the pod is not an answer to a request. */
  function latencyOf(claim: Claim): number | undefined {
    const { metadata, status } = claim;
    if (!isFirstAnswer(claim)) return undefined;
    const ms = Date.parse(status?.claimedAt ?? "") - Date.parse(metadata.annotations?.[annotation.requestedAt] ?? "");
    return Number.isNaN(ms) ? undefined : ms;
  }

  function onActive(claim: Claim): void {
    const source = (sources as readonly (string | undefined)[]).indexOf(claim.status?.source);
    if (source < 0) return;
    add(source * SOURCE_WIDTH);
    const ms = latencyOf(claim);
    if (ms !== undefined) add(source * SOURCE_WIDTH + 1 + boundOf(ms));
  }

  return {
    onListed(claim) {
      if (claim.status?.phase === "Active" || claim.status?.phase === "Error") isFirstAnswer(claim);
    },
    onChange({ type, object, previous }) {
      const [is, was] = [object.status, previous?.status];
      if (type === "deleted") measured.delete(object.metadata.uid ?? "");
      else if (is?.phase === "Active" && !(was?.phase === "Active" && was.claimedAt === is.claimedAt)) onActive(object);
      else if (is?.phase === "Error" && !(was?.phase === "Error" && was.attempt === is.attempt)) {
        add(columnOf(is.reason ?? OTHER));
        // A pod that recovers by itself hours later is not a slow claim.
        isFirstAnswer(object);
      }
    },
    read() {
      const { from, rows } = minutes.read();
      return {
        from,
        sources: sources.map((source, index) => sourceHour(source, rows, index * SOURCE_WIDTH)),
        errors: rows.map((row) => row.subarray(REASONS_AT).reduce((total, count) => total + count, 0)),
        reasons: [...reasons, OTHER]
          .map((reason, index) => ({ reason, count: sum(rows, index < reasons.length ? index : MAX_REASONS) }))
          .filter(({ count }) => count > 0)
          .sort((a, b) => b.count - a.count),
      };
    },
  };
}

function sourceHour(source: ClaimSource, rows: readonly Int32Array[], at: number): SourceHour {
  const latencies = rows.map((row) => row.subarray(at + 1, at + SOURCE_WIDTH));
  const whole = new Int32Array(BOUNDS);
  for (const row of latencies) for (const [bound, count] of row.entries()) whole[bound] = (whole[bound] ?? 0) + count;
  const claims = rows.map((row) => row[at] ?? 0);
  return {
    source,
    claims,
    p50Ms: latencies.map((row) => percentile(row, 0.5)),
    p99Ms: latencies.map((row) => percentile(row, 0.99)),
    hour: {
      claims: claims.reduce((total, count) => total + count, 0),
      p50Ms: percentile(whole, 0.5),
      p99Ms: percentile(whole, 0.99),
    },
  };
}

/** The clocks of the edge and the operator may differ, so a latency can be negative. */
function boundOf(ms: number): number {
  return Math.min(BOUNDS - 1, Math.max(0, Math.floor(Math.log(Math.max(1, ms)) / Math.log(GROWTH))));
}

/** The middle of the range that contains the value of that rank, in whole milliseconds. */
function percentile(counts: Int32Array, share: number): number | null {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  let left = Math.ceil(total * share);
  const bound = counts.findIndex((count) => {
    left -= count;
    return left <= 0;
  });
  return Math.round(GROWTH ** (bound + 0.5));
}
