import type { Clock } from "../../crds/client/clock.ts";
import type { CurrentQuotas } from "../../crds/quotas/follow-quotas.ts";
import { placeOf } from "../../crds/quotas/room.ts";
import type { TenantLimits } from "../../crds/quotas/tenant-quotas.ts";
import { HttpError } from "../http/http-error.ts";

/** Limits the requests and bytes of each tenant through this process, by its quota. */
export interface TenantRates {
  /**
   * Counts a request.
   *
   * @param by.isStranger strangers have half as much, of their own. @default false
   * @throws HttpError 429 with `Retry-After` if the tenant has used up its requests or bytes
   */
  admit(tenantId: string, by?: { readonly isStranger: boolean }): void;
  /** Counts bytes that have passed. They end no request; later ones wait until they are made up for. */
  addBytes(tenantId: string, bytes: number, by?: { readonly isStranger: boolean }): void;
}

/** A token bucket of one second, which may owe up to a minute. */
interface Bucket {
  /** What is left, in the limit's unit. */
  left: number;
  /** Milliseconds. */
  at: number;
}

const LONGEST_DEBT_S = 60;

/** @param options.clock steady */
export function createTenantRates({
  quotas,
  clock,
}: {
  quotas: Pick<CurrentQuotas, "current">;
  clock: Pick<Clock, "now">;
}): TenantRates {
  /** By tenant, the latest used last. */
  const own = { requests: new Map<string, Bucket>(), bytes: new Map<string, Bucket>() };
  const ofStrangers = { requests: new Map<string, Bucket>(), bytes: new Map<string, Bucket>() };

  function bucketOf(buckets: Map<string, Bucket>, tenantId: string, limit: number): Bucket {
    const now = clock.now();
    const known = buckets.get(tenantId) ?? { left: limit, at: now };
    const left = Math.min(limit, known.left + (limit * (now - known.at)) / 1000);
    const bucket = { left: Math.max(left, -LONGEST_DEBT_S * limit), at: now };
    buckets.delete(tenantId);
    buckets.set(tenantId, bucket);
    for (const [other, { at }] of buckets) {
      if (now - at < (LONGEST_DEBT_S + 1) * 1000) break;
      buckets.delete(other);
    }
    return bucket;
  }

  return {
    admit(tenantId, { isStranger } = { isStranger: false }) {
      const quota = quotas.current()?.of(tenantId);
      const { requests, bytes } = isStranger ? ofStrangers : own;
      const { requestsPerSecond, bytesPerSecond } = shareOf(quota?.limits, isStranger);
      if (quota === undefined || (requestsPerSecond === undefined && bytesPerSecond === undefined)) return;
      const refuse = (name: "requestsPerSecond" | "bytesPerSecond", limit: number, owes: number): HttpError => {
        const seconds = limit === 0 ? LONGEST_DEBT_S : Math.max(1, Math.ceil(owes / limit));
        const unit = name === "requestsPerSecond" ? "requests" : "bytes";
        return new HttpError(
          429,
          `tenant "${tenantId}" has used up its ${limit} ${unit} a second (${placeOf(quota, name)}); try again in ${seconds} s`,
          { headers: { "retry-after": String(seconds) } },
        );
      };
      if (bytesPerSecond !== undefined) {
        const { left } = bucketOf(bytes, tenantId, bytesPerSecond);
        if (left <= 0) throw refuse("bytesPerSecond", bytesPerSecond, -left);
      }
      if (requestsPerSecond !== undefined) {
        const bucket = bucketOf(requests, tenantId, requestsPerSecond);
        if (bucket.left < 1) throw refuse("requestsPerSecond", requestsPerSecond, 1 - bucket.left);
        bucket.left -= 1;
      }
    },
    addBytes(tenantId, count, { isStranger } = { isStranger: false }) {
      const { bytesPerSecond } = shareOf(quotas.current()?.of(tenantId).limits, isStranger);
      const { bytes } = isStranger ? ofStrangers : own;
      if (bytesPerSecond !== undefined) bucketOf(bytes, tenantId, bytesPerSecond).left -= count;
    },
  };
}

function shareOf(
  { requestsPerSecond, bytesPerSecond }: TenantLimits = {},
  isStranger: boolean,
): Pick<TenantLimits, "requestsPerSecond" | "bytesPerSecond"> {
  const half = (limit: number | undefined) => (isStranger && limit !== undefined ? Math.ceil(limit / 2) : limit);
  return { requestsPerSecond: half(requestsPerSecond), bytesPerSecond: half(bytesPerSecond) };
}
