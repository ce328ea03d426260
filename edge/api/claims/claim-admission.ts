import { type ClaimKey, claimKey } from "../../../crds/claims/claim-key.ts";
import { ApiError, isTransient } from "../../../crds/client/api-error.ts";
import { type Clock, steadyClock } from "../../../crds/client/clock.ts";
import { createCounts } from "../../counts.ts";
import { HttpError } from "../../http/http-error.ts";

/**
 * Refuses claim calls that the cluster would not serve in time, before they cost it anything.
 *
 * A claim takes several writes after its first one. When the API server is busy, more first writes only delay the
 * others, until most calls reach their limit. So while the API server is slow, the number of claims that are being
 * started is limited, as TCP limits what is under way on a slow link
 * (docs/decisions/claims.md#a-busy-api-server-limits-the-claims-that-are-being-started).
 */
export interface ClaimAdmission {
  /**
   * Begins to start a claim. Calls for a claim that another call is starting need no place of their own.
   *
   * @returns call it when the claim has started or failed, or the call has reached its limit
   * @throws HttpError 429 with `Retry-After` if too many claims are being started, or too many of the tenant
   */
  begin(key: ClaimKey): () => void;
  /** Sends the write of a claim, and notes how long the API server takes for it. */
  write<T>(send: () => Promise<T>): Promise<T>;
  /** How many claims may be started at the same time: `Infinity` unless the API server is slow. */
  limit(): number;
}

const WINDOW_MS = 500;
/** A fast API server takes up to 10 ms. One that is far away is slow at four times its own shortest time. */
const [SLOW_MS, SLOW_FACTOR] = [100, 4];
/** A burst makes one window slow, and is over before a limit would help. */
const SLOW_WINDOWS = 2;
/** Fewer writes say nothing of the server. */
const FEWEST_WRITES = 3;
const [DOWN, UP] = [0.7, 1.1];
const LOWEST_LIMIT = 16;
/** A tenant alone leaves some room, so that the next one is not refused. */
const ALONE = 0.75;
const LONGEST_RETRY_S = 3;
/** After so many empty windows there is no limit any more, whatever it was. */
const MOST_WINDOWS = 100;
/** For how long the shortest time of the API server counts, at the least. */
const SHORTEST_KEPT_MS = 1_800_000;

/** @param options.onRefused called for each call that is refused */
export function createClaimAdmission({
  clock = steadyClock,
  random = Math.random,
  onRefused,
}: {
  clock?: Pick<Clock, "now">;
  random?: () => number;
  onRefused?: () => void;
} = {}): ClaimAdmission {
  /** Calls under way by claim, and claims by tenant. */
  const calls = createCounts();
  const claimsOf = createCounts();
  let limit = Number.POSITIVE_INFINITY;
  let slowWindows = 0;
  let windowFrom = clock.now();
  /** Of the present window. */
  let most = 0;
  let written = 0;
  let fastestMs = Number.POSITIVE_INFINITY;
  /** When each write that has no answer yet began, oldest first. */
  const unanswered = new Set<{ readonly at: number }>();
  const shortest = { since: clock.now(), ms: Number.POSITIVE_INFINITY, beforeMs: Number.POSITIVE_INFINITY };

  function judge(): void {
    const windows = Math.floor((clock.now() - windowFrom) / WINDOW_MS);
    for (let count = 0; count < Math.min(windows, MOST_WINDOWS); count += 1) judgeWindow();
    windowFrom += windows * WINDOW_MS;
  }

  function judgeWindow(): void {
    const isSlow = fastestMs > slowMs() && written + stuck() >= FEWEST_WRITES;
    slowWindows = isSlow ? slowWindows + 1 : 0;
    if (slowWindows >= SLOW_WINDOWS) limit = Math.max(LOWEST_LIMIT, Math.min(limit, most) * DOWN);
    // One that is so far above what is under way limits nothing.
    else if (!isSlow) limit = limit > 4 * most + 100 ? Number.POSITIVE_INFINITY : limit * UP + 1;
    most = calls.size;
    written = 0;
    fastestMs = Number.POSITIVE_INFINITY;
  }

  function slowMs(): number {
    const known = Math.min(shortest.ms, shortest.beforeMs);
    return Number.isFinite(known) ? Math.max(SLOW_MS, SLOW_FACTOR * known) : SLOW_MS;
  }

  /** How many writes have had no answer for a whole window; counted no further than matters. */
  function stuck(): number {
    let count = 0;
    for (const { at } of unanswered) {
      if (count === FEWEST_WRITES || clock.now() - at < WINDOW_MS) break;
      count += 1;
    }
    return count;
  }

  function noteAnswer(ms: number): void {
    written += 1;
    fastestMs = Math.min(fastestMs, ms);
    if (clock.now() - shortest.since > SHORTEST_KEPT_MS)
      Object.assign(shortest, { since: clock.now(), ms: Number.POSITIVE_INFINITY, beforeMs: shortest.ms });
    shortest.ms = Math.min(shortest.ms, ms);
  }

  return {
    begin(key) {
      judge();
      const id = claimKey(key);
      const { tenantId } = key;
      if (calls.of(id) === 0) {
        const own = claimsOf.of(tenantId);
        const isFull = calls.size >= limit;
        const tenants = claimsOf.size + (own === 0 ? 1 : 0);
        const share = tenants === 1 ? limit * ALONE : limit / tenants;
        if (isFull || own >= Math.max(1, share)) {
          onRefused?.();
          throw tooMany(isFull ? "claims" : `claims of tenant "${tenantId}"`, random);
        }
        claimsOf.add(tenantId);
      }
      calls.add(id);
      most = Math.max(most, calls.size);
      return () => {
        if (calls.remove(id)) claimsOf.remove(tenantId);
      };
    },
    async write(send) {
      judge();
      const write = { at: clock.now() };
      unanswered.add(write);
      try {
        const answer = await send();
        judge();
        noteAnswer(clock.now() - write.at);
        return answer;
      } catch (error) {
        judge();
        // Another refusal was made before anything was written, and says nothing of how long a write takes.
        if (error instanceof ApiError && error.status === 409) noteAnswer(clock.now() - write.at);
        else if (isTransient(error)) written += 1;
        throw error;
      } finally {
        unanswered.delete(write);
      }
    },
    limit() {
      judge();
      return Math.floor(limit);
    },
  };
}

/** Callers that were refused at the same time should not all come back at the same time. */
function tooMany(what: string, random: () => number): HttpError {
  const seconds = 1 + Math.floor(random() * LONGEST_RETRY_S);
  const message = `too many ${what} are starting for what the cluster can do at the moment; nothing was begun, try again in ${seconds} s`;
  return new HttpError(429, message, { headers: { "retry-after": String(seconds) } });
}
