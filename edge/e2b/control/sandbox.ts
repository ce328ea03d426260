import type { Claim } from "../../../crds/claim.ts";
import { type ClaimKey, canonicalClaim } from "../../../crds/claims/claim-key.ts";
import { isDestroyed } from "../../../crds/claims/claim-pod.ts";
import { type KeptSandbox, readKeptSandbox } from "../../../crds/claims/kept-sandbox.ts";
import { withDefaults } from "../../../crds/defaults.ts";
import { quote } from "../../../crds/quote.ts";
import type { Actor } from "../../access/actor.ts";
import { findClaims } from "../../api/claims/release-tenant.ts";
import { lookAtSnapshots } from "../../api/snapshots/store.ts";
import { untilFresh } from "../../cluster/freshness.ts";
import { HttpError } from "../../http/http-error.ts";
import type { RoutedRequest } from "../../http/router.ts";
import { sandboxId } from "../sandbox-id.ts";
import { sandboxRecord } from "../sandbox-record.ts";
import type { ControlServices } from "./control-services.ts";
import { sandboxKey, sandboxNotFound } from "./sandbox-access.ts";

/** The version of E2B's program in a sandbox whose calls are served: the SDKs choose by it what they use. */
export const ENVD_VERSION = "0.6.1";

/** What is told as the end of a sandbox that does not end by itself. */
const FAR_MS = 24 * 60 * 60_000;

/** A sandbox that runs or starts: its claim. A paused one: saved files, perhaps with a claim that is being released. */
export type Sandbox =
  | { readonly state: "running"; readonly key: ClaimKey; readonly claim: Claim }
  | {
      readonly state: "paused";
      readonly key: ClaimKey;
      /** ISO 8601: when its files were saved. */
      readonly savedAt: string;
      /** Undefined if the files say nothing of it. */
      readonly kept: KeptSandbox | undefined;
    };

/** The claim of a key as a running sandbox; undefined for one that ends, or has failed. */
export function runningClaim(claims: Iterable<Claim>): Claim | undefined {
  const claim = canonicalClaim(claims);
  if (claim === undefined || claim.metadata.deletionTimestamp !== undefined || isDestroyed(claim)) return undefined;
  const { phase = "Pending" } = claim.status ?? {};
  return phase === "Active" || phase === "Pending" ? claim : undefined;
}

/**
 * Finds a sandbox by the cache, then the cluster, then the saved files.
 *
 * @returns undefined if there is none
 * @throws HttpError 503 while the cache is stale, or if the store of saved files cannot be read
 */
export async function findSandbox(
  key: ClaimKey,
  services: ControlServices,
  clientGone: AbortSignal,
): Promise<Sandbox | undefined> {
  await untilFresh([services.cache.claims], { clock: services.clock, signals: [clientGone] });
  const claims = await findClaims(key, services);
  const claim = runningClaim(claims);
  if (claim !== undefined) return { state: "running", key, claim };
  const present = canonicalClaim(claims);
  // Being killed.
  if (present?.metadata.deletionTimestamp !== undefined && isDestroyed(present)) return undefined;
  const kept = await lookAtSnapshots(key, services, clientGone);
  if (kept?.newest !== undefined) {
    const { createdAt, sandbox } = kept.newest;
    return { state: "paused", key, savedAt: createdAt, kept: readKeptSandbox(sandbox, key) };
  }
  // Files whose metadata is lost can be restored all the same.
  const now = new Date(services.timeOfDay()).toISOString();
  if (kept?.state === "unrecorded") return { state: "paused", key, savedAt: now, kept: undefined };
  // Its files are being saved for the first time.
  const savedAt = present?.metadata.deletionTimestamp;
  if (present === undefined || savedAt === undefined) return undefined;
  return { state: "paused", key, savedAt, kept: sandboxRecord(present) };
}

/** @throws HttpError 404 for a sandbox that is paused, or does not exist */
export async function requireRunning(
  request: RoutedRequest,
  services: ControlServices,
  clientGone: AbortSignal,
): Promise<Extract<Sandbox, { state: "running" }>> {
  const found = await findSandbox(sandboxKey(request), services, clientGone);
  if (found?.state !== "running") throw sandboxNotFound(request);
  return found;
}

/** A sandbox in E2B's list; undefined if its workload cannot be a template. */
export function listedSandbox(sandbox: Sandbox, { cache, namespace, timeOfDay }: ControlServices) {
  const { key } = sandbox;
  const id = sandboxId(key);
  if (id === undefined) return undefined;
  const workload = cache.workloads.store.get({ namespace, name: key.workloadRef });
  const claim = sandbox.state === "running" ? sandbox.claim : undefined;
  const given = claim?.status?.resources;
  const resources = workload && withDefaults(workload.spec).resources;
  const startedAt = sandbox.state === "running" ? (sandbox.claim.metadata.creationTimestamp ?? "") : sandbox.savedAt;
  const endAt =
    claim === undefined ? startedAt : (claim.spec.expiresAt ?? new Date(timeOfDay() + FAR_MS).toISOString());
  return {
    sandboxID: id,
    ...templateOf(key),
    state: sandbox.state,
    ...{ startedAt, endAt },
    cpuCount: Math.ceil(given?.vcpus ?? resources?.vcpus ?? 0),
    memoryMB: given?.memoryMb ?? resources?.memoryMb ?? 0,
    diskSizeMB: (resources?.diskGb ?? 0) * 1024,
    envdVersion: ENVD_VERSION,
    metadata: metadataOf(sandbox),
    volumeMounts: [],
  };
}

/** A sandbox in full. @throws HttpError 400 if its workload cannot be a template */
export function sandboxDetail(sandbox: Sandbox, services: ControlServices) {
  const autoPause = recordOf(sandbox)?.autoPause === true;
  return {
    ...(listedSandbox(sandbox, services) ?? refuseTemplate(sandbox.key)),
    ...domainOf(services),
    lifecycle: { onTimeout: autoPause ? "pause" : "kill", autoResume: false },
  };
}

/**
 * What a caller gets to connect to a sandbox. One that may not use what is in a sandbox gets no tokens.
 *
 * @throws HttpError 400 if its workload cannot be a template
 */
export async function sandboxAnswer(key: ClaimKey, actor: Actor, services: ControlServices) {
  const mayUse = actor.role !== "reader";
  const token = mayUse ? await services.accessTokens.sign(key, actor) : undefined;
  return {
    sandboxID: sandboxId(key) ?? refuseTemplate(key),
    ...templateOf(key),
    envdVersion: ENVD_VERSION,
    ...(token !== undefined && { envdAccessToken: token, trafficAccessToken: token }),
    ...domainOf(services),
  };
}

function domainOf({ domain }: ControlServices): { domain?: string } {
  const name = domain();
  return name === undefined ? {} : { domain: name };
}

/** The fields that name a template. `clientID` has no meaning any more, and is required. */
function templateOf({ workloadRef }: ClaimKey) {
  return { templateID: workloadRef, alias: workloadRef, clientID: "tenancy" };
}

/** @throws HttpError 400 */
export function refuseTemplate({ workloadRef }: Pick<ClaimKey, "workloadRef">): never {
  const why = `a workload with "--" in its name cannot be a template`;
  throw new HttpError(400, `${why}: create ${quote(workloadRef)} under another name`);
}

/** A tenant that was not made for its sandbox is in the metadata, so that lists can be filtered by it. */
export function metadataOf(sandbox: Sandbox): Readonly<Record<string, string>> {
  return { ...(!isMade(sandbox) && { tenant: sandbox.key.tenantId }), ...recordOf(sandbox)?.metadata };
}

/** Whether the claim or the saved files say that the tenant was made for the sandbox. The look of its id says nothing. */
export function isMade(sandbox: Sandbox): boolean {
  return recordOf(sandbox)?.made === true;
}

/** What is known of a sandbox. */
export function recordOf(sandbox: Sandbox): KeptSandbox | undefined {
  return sandbox.state === "running" ? sandboxRecord(sandbox.claim) : sandbox.kept;
}
