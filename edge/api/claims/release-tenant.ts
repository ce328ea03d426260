import type { Claim, ReleasedFiles } from "../../../crds/claim.ts";
import { type ClaimKey, claimKey, hasKey, isOver } from "../../../crds/claims/claim-key.ts";
import { claims } from "../../../crds/kinds.ts";
import { claimName, hashedClaimName } from "../../../crds/names.ts";
import { quote } from "../../../crds/quote.ts";
import { releaseTrace } from "../../../crds/tracing/trace-context.ts";
import { inSpan, type Span } from "../../../crds/tracing/tracer.ts";
import { untilFresh } from "../../cluster/freshness.ts";
import { HttpError } from "../../http/http-error.ts";
import type { ClaimServices } from "./claim-services.ts";
import { claimAttributes } from "./claim-spans.ts";
import { claimError } from "./claim-step.ts";
import { waitForClaims } from "./wait-for-claims.ts";

/**
 * Releases a tenant's claim on a workload: deletes it, and the operator archives the data and removes the pod.
 * Duplicates are released too. A release already in progress counts.
 *
 * @param options.wait whether to wait until the claim is gone
 * @param options.uid of the claim object to act on; any if undefined
 * @param options.span of the caller, if traced
 * @returns what happened to the files; undefined without `wait`, if the workload saves none, or if the watch did not
 * show   it
 * @throws HttpError 404 without a claim; 409 if the claim of that uid has ended; with `wait`, 500 if the data could not
 * be saved, and 504 after the limit
 */
export async function releaseTenant(
  key: ClaimKey,
  services: ClaimServices,
  options: {
    wait: boolean;
    uid?: string | undefined;
    clientGone: () => AbortSignal | undefined;
    span?: Span | undefined;
  },
): Promise<ReleasedFiles | undefined> {
  const { cluster, cache, waiters } = services;
  options.span?.set(claimAttributes(key));
  const released: Claim[] = [];
  await untilFresh([cache.claims], { clock: services.clock, signals: [options.clientGone()] });
  const found = await findClaims(key, services, options.uid);
  if (found.length === 0) throw noClaim(key);
  const meant = requireMeant(found, options.uid, key);
  // Release the others together with the requested one, not without it.
  if (meant !== undefined && (await release(meant)) === "gone") throw endedClaim(key);
  const states = await Promise.all(found.filter((claim) => claim !== meant).map(release));
  if (meant === undefined && !states.includes("released")) {
    // All known ones were released before: the watch may be behind, and a new claim may exist.
    const later = await findMore(key, services, found);
    states.push(...(await Promise.all(later.map(release))));
    found.push(...later);
  }
  if (meant === undefined && states.every((state) => state === "gone")) throw noClaim(key);
  if (!options.wait) return undefined;
  const wait = options.span?.child("wait until released");
  await inSpan(wait, () => waitUntilGone(found, { key, services, clientGone: options.clientGone() }));
  // A claim whose release was already in progress may belong to another session.
  const own = meant !== undefined ? [meant] : released.length > 0 ? released : found;
  return own.map(({ metadata }) => waiters.filesOf(metadata.uid ?? "")).find((files) => files !== undefined);

  async function release(claim: Claim): Promise<"released" | "releasing" | "gone"> {
    const { uid, deletionTimestamp } = claim.metadata;
    if (deletionTimestamp !== undefined) {
      // The wait uses the cache, and the watch may not have shown the deletion yet.
      cache.claims.put(claim);
      return "releasing";
    }
    // The operator begins a trace of its own: a deletion carries no context.
    const span = options.span?.child("delete claim", { kind: "producer", links: [releaseTrace(uid ?? "")] });
    const deletion = await inSpan(span, () => cluster(claims).of(claim).delete());
    // Gone, or another object has its name by now: the one that was to be released does not exist.
    if (deletion.error !== undefined) return "gone";
    released.push(claim);
    return "released";
  }
}

/** The 404 for a claim that does not exist. */
export function noClaim({ tenantId, workloadRef }: ClaimKey): HttpError {
  return new HttpError(404, `tenant ${quote(tenantId)} has no claim on workload ${quote(workloadRef)}`);
}

/**
 * The claim object of that uid; undefined without a uid.
 *
 * @throws HttpError 409 if no found claim has the uid
 */
export function requireMeant(found: readonly Claim[], uid: string | undefined, key: ClaimKey): Claim | undefined {
  if (uid === undefined) return undefined;
  const meant = found.find(({ metadata }) => metadata.uid === uid);
  if (meant === undefined) throw endedClaim(key);
  return meant;
}

function endedClaim({ tenantId, workloadRef }: ClaimKey): HttpError {
  return new HttpError(
    409,
    `the requested claim of tenant ${quote(tenantId)} on workload ${quote(workloadRef)} has ended, and another one exists now: read it first`,
  );
}

async function waitUntilGone(
  released: readonly Claim[],
  { key, services, clientGone }: { key: ClaimKey; services: ClaimServices; clientGone: AbortSignal | undefined },
): Promise<void> {
  const uids = new Set(released.map((claim) => claim.metadata.uid));
  const seconds = services.waitLimitMs / 1000;
  await waitForClaims(key, services, {
    clientGone,
    late: `the release of workload ${quote(key.workloadRef)} is not finished after ${seconds} s; it goes on`,
    look(known) {
      const left = known.filter((claim) => uids.has(claim.metadata.uid) && !isOver(claim));
      const failed = left.find((claim) => claim.status?.phase === "ReleaseFailed");
      if (failed !== undefined) throw claimError(failed);
      return left.length === 0 ? true : undefined;
    },
  });
}

/**
 * All unfinished claim objects of a key: from the cache, or by both names from the cluster, since another process may
 * have created one a moment ago.
 *
 * @param uid of the requested claim; the cluster is also asked if the cache does not have it
 */
export async function findClaims(
  key: ClaimKey,
  services: Pick<ClaimServices, "cluster" | "cache">,
  uid?: string,
): Promise<Claim[]> {
  const known = [...services.cache.claims.store.by("key", claimKey(key))].filter((claim) => !isOver(claim));
  const isKnown = uid === undefined ? known.length > 0 : known.some(({ metadata }) => metadata.uid === uid);
  return isKnown ? known : [...known, ...(await findMore(key, services, known))];
}

/** The claim objects that the cluster has by either name now, without the known ones. */
async function findMore(
  key: ClaimKey,
  { cluster }: Pick<ClaimServices, "cluster">,
  known: readonly Claim[],
): Promise<Claim[]> {
  const uids = new Set(known.map(({ metadata }) => metadata.uid));
  const found = await Promise.all([claimName(key), hashedClaimName(key)].map(get));
  const isMore = (claim: Claim) => hasKey(claim, key) && !isOver(claim) && !uids.has(claim.metadata.uid);
  return found.filter((claim) => claim !== undefined).filter(isMore);

  function get(name: string): Promise<Claim | undefined> {
    return cluster(claims).named(name).find();
  }
}
