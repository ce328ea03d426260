import * as v from "valibot";
import type { Claim } from "../../../crds/claim.ts";
import type { ClaimKey } from "../../../crds/claims/claim-key.ts";
import { claims } from "../../../crds/kinds.ts";
import { HttpError } from "../../http/http-error.ts";
import type { ClaimServices } from "./claim-services.ts";
import { changePresentClaim, claimOf } from "./present-claim.ts";

const MOST_SECONDS = 31_536_000;

/** Seconds until a claim expires, in a request's body. */
export function secondsSchema(description: string) {
  return v.pipe(
    v.number(),
    v.integer("must be a whole number"),
    v.minValue(1, "must be at least 1"),
    v.maxValue(MOST_SECONDS, `must be at most ${MOST_SECONDS}`),
    v.description(description),
  );
}

/** The expiry so many seconds from now, in whole seconds as Kubernetes writes times. */
export function expiryIn(seconds: number, { timeOfDay }: Pick<ClaimServices, "timeOfDay">): string {
  const second = Math.ceil(timeOfDay() / 1000) + seconds;
  return new Date(second * 1000).toISOString().replace(".000Z", "Z");
}

/** Whether a claim expires before a time; false if it does not expire. */
export function expiresBefore({ spec }: Claim, time: string): boolean {
  return Date.parse(spec.expiresAt ?? "") < Date.parse(time);
}

/**
 * Moves the expiry of a tenant's claim to so many seconds from now, never to an earlier time.
 *
 * @param options.uid of the claim object to act on; any if undefined
 * @returns the expiry
 * @throws HttpError 404 without a claim; 409 if it is being released, if it does not expire, or if the claim of that
 *   uid has ended
 */
export async function extendClaim(
  key: ClaimKey,
  services: Pick<ClaimServices, "cluster" | "cache" | "timeOfDay">,
  { seconds, uid }: { seconds: number; uid?: string | undefined },
): Promise<string> {
  return await changePresentClaim(key, services, {
    uid,
    async change(claim) {
      const { expiresAt } = claim.spec;
      if (expiresAt === undefined)
        throw new HttpError(409, `${claimOf(key)} does not expire: there is nothing to extend`);
      const wanted = expiryIn(seconds, services);
      if (!expiresBefore(claim, wanted)) return expiresAt;
      await services
        .cluster(claims)
        .of(claim)
        .patch({ spec: { expiresAt: wanted } });
      return wanted;
    },
  });
}
