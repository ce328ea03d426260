import type { Claim, ClaimStatus } from "../../../crds/claim.ts";
import { askedCheckpoint, checkpointRequest } from "../../../crds/claims/asked-checkpoint.ts";
import type { ClaimKey } from "../../../crds/claims/claim-key.ts";
import { isDestroyed } from "../../../crds/claims/claim-pod.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import { untilFresh } from "../../cluster/freshness.ts";
import { HttpError } from "../../http/http-error.ts";
import type { ClaimServices } from "./claim-services.ts";
import { changePresentClaim, claimOf } from "./present-claim.ts";
import { waitForClaims } from "./wait-for-claims.ts";

type Services = Pick<ClaimServices, "cluster" | "cache" | "clock" | "waiters" | "randomId" | "waitLimitMs">;

/**
 * Asks for a checkpoint of a tenant's instance, and waits until it is made.
 *
 * @param options.name of the version, which then stays. @default the session's next checkpoint replaces it
 * @param options.uid of the claim object to act on; any if undefined
 * @returns the SHA-256 of the version
 * @throws HttpError 404 without a claim; 409 if it has no instance, if another checkpoint is being made, or if this one
 *   is refused; 500 if it failed; 504 after the limit, and the checkpoint is still made
 */
export async function makeCheckpoint(
  key: ClaimKey,
  services: Services,
  options: { name: string | undefined; uid: string | undefined; clientGone: AbortSignal },
): Promise<string> {
  const { cache, clock } = services;
  await untilFresh([cache.claims], { clock, signals: [options.clientGone] });
  const { claim, request } = await askForCheckpoint(key, services, options);
  const { sha256, reason, message = "" } = await untilAnswered(claim, { key, request, ...options }, services);
  if (sha256 !== undefined) return sha256;
  const isFailure = reason === undefined || reason === "CheckpointFailed";
  throw new HttpError(isFailure ? 500 : 409, message, { expected: true });
}

async function askForCheckpoint(
  key: ClaimKey,
  services: Services,
  { name, uid }: { name: string | undefined; uid: string | undefined },
): Promise<{ claim: Claim; request: string }> {
  const { cluster, cache, randomId } = services;
  return await changePresentClaim(key, services, {
    uid,
    async change(claim) {
      // The wait uses the cache, and the watch may not have shown the request of another call yet.
      cache.claims.put(claim);
      const { phase } = claim.status ?? {};
      if (phase !== "Active" || isDestroyed(claim)) {
        const state = phase === "Active" ? "its instance was destroyed" : `it is ${phase ?? "Pending"}`;
        throw new HttpError(409, `${claimOf(key)} has no instance to save: ${state}`);
      }
      const pending = askedCheckpoint(claim);
      // A call that was repeated after its time was over.
      if (pending !== undefined && name !== undefined && pending.name === name)
        return { claim, request: pending.request };
      if (pending !== undefined)
        throw new HttpError(409, `another checkpoint of ${claimOf(key)} is being made: try again when it is done`, {
          headers: { "retry-after": "1" },
        });
      const request = checkpointRequest({ name, id: randomId() });
      const annotations = { [annotation.checkpoint]: request };
      return { claim: await cluster(claims).of(claim).patch({ metadata: { annotations } }), request };
    },
  });
}

async function untilAnswered(
  { metadata: { uid } }: Claim,
  { key, request, clientGone }: { key: ClaimKey; request: string; clientGone: AbortSignal },
  services: Services,
): Promise<NonNullable<ClaimStatus["checkpoint"]>> {
  const seconds = services.waitLimitMs / 1000;
  return await waitForClaims(key, services, {
    clientGone,
    late: `the checkpoint of ${claimOf(key)} is not made after ${seconds} s; it goes on, and the claim's status.checkpoint has the result`,
    look(known) {
      const present = known.find(({ metadata }) => metadata.uid === uid);
      const { checkpoint } = present?.status ?? {};
      if (checkpoint?.request === request) return checkpoint;
      if (present === undefined || present.metadata.deletionTimestamp !== undefined)
        throw new HttpError(409, `${claimOf(key)} was released before the checkpoint was made`);
      if (present.metadata.annotations?.[annotation.checkpoint] !== request)
        throw new HttpError(409, `another request of ${claimOf(key)} has replaced this one: try again`);
      return undefined;
    },
  });
}
