import { type Clock, steadyClock } from "../../../crds/client/clock.ts";
import { HttpError } from "../../http/http-error.ts";

/**
 * Refuses claim calls that the cluster would not serve in time, before they cost it anything.
 *
 * A claim takes several writes after its first one. When the API server is busy, more first writes only delay the
 * others, until most calls reach their limit. So while the API server is slow, the number of calls under way is
 * limited, as TCP limits what is under way on a slow link: it falls by 30 % for each half second in which no claim was
 * written within 100 ms, and grows by 10 % for each other one.
 */
export interface ClaimAdmission {
  /**
   * Begins a call that starts work in the cluster.
   *
   * @returns call it when the call has ended
   * @throws HttpError 429 with `Retry-After` where too many calls are under way, or the tenant has its share of them
   */
  begin(tenantId: string): () => void;
  /** Writes a claim, and notes how long that takes. */
  write<T>(work: () => Promise<T>): Promise<T>;
  /** How many calls may be under way: `Infinity` unless the API server is slow. */
  limit(): number;
}

const WINDOW_MS = 500;
const SLOW_MS = 100;
/** A burst makes one window slow, and is over before a limit would help. */
const SLOW_WINDOWS = 2;
/** Fewer writes say nothing of the server. */
const FEWEST_WRITES = 3;
const [DOWN, UP] = [0.7, 1.1];
const LOWEST_LIMIT = 16;
const LONGEST_RETRY_S = 3;

/** @param options.onRefused is called for each call that is refused */
export function createClaimAdmission({
  clock = steadyClock,
  random = Math.random,
  onRefused,
}: {
  clock?: Pick<Clock, "now">;
  random?: () => number;
  onRefused?: () => void;
} = {}): ClaimAdmission {
  /** Calls under way. */
  const byTenant = new Map<string, number>();
  let underWay = 0;
  let limit = Number.POSITIVE_INFINITY;
  let slowWindows = 0;
  let windowFrom = clock.now();
  /** Of the present window. */
  let most = 0;
  let written = 0;
  let fastestMs = Number.POSITIVE_INFINITY;
  /** When each write that has no answer yet began, oldest first. */
  const unanswered = new Set<{ readonly at: number }>();

  function judge(): void {
    const elapsedMs = clock.now() - windowFrom;
    if (elapsedMs < WINDOW_MS) return;
    const isSlow = fastestMs > SLOW_MS && written + stuck() >= FEWEST_WRITES;
    slowWindows = isSlow ? slowWindows + 1 : 0;
    if (slowWindows >= SLOW_WINDOWS) limit = Math.max(LOWEST_LIMIT, Math.min(limit, most) * DOWN);
    // One that is so far above what is under way limits nothing.
    else if (!isSlow) limit = limit > 4 * most + 100 ? Number.POSITIVE_INFINITY : limit * UP + 1;
    windowFrom += elapsedMs - (elapsedMs % WINDOW_MS);
    most = underWay;
    written = 0;
    fastestMs = Number.POSITIVE_INFINITY;
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

  return {
    begin(tenantId) {
      judge();
      const own = byTenant.get(tenantId) ?? 0;
      const isFull = underWay >= limit;
      if (isFull || own >= Math.max(1, limit / (byTenant.size + 1))) {
        onRefused?.();
        throw tooMany(isFull ? "claims" : `claims of tenant "${tenantId}"`, random);
      }
      underWay += 1;
      most = Math.max(most, underWay);
      byTenant.set(tenantId, own + 1);
      return () => {
        underWay -= 1;
        const left = (byTenant.get(tenantId) ?? 1) - 1;
        if (left === 0) byTenant.delete(tenantId);
        else byTenant.set(tenantId, left);
      };
    },
    async write(work) {
      judge();
      const write = { at: clock.now() };
      unanswered.add(write);
      try {
        return await work();
      } finally {
        unanswered.delete(write);
        judge();
        written += 1;
        fastestMs = Math.min(fastestMs, clock.now() - write.at);
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
