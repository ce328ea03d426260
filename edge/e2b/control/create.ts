import * as v from "valibot";
import { inputProblems, startsTooEarly } from "../../../crds/claims/claim-inputs.ts";
import type { ClaimKey } from "../../../crds/claims/claim-key.ts";
import { sandboxToKeep } from "../../../crds/claims/kept-sandbox.ts";
import { takesClaimInputs } from "../../../crds/defaults.ts";
import type { Workload } from "../../../crds/workload.ts";
import { type Actor, root } from "../../access/actor.ts";
import { requireWorkload } from "../../access/authorize.ts";
import type { ClaimRequest } from "../../api/claims/claim-tenant.ts";
import { secondsSchema } from "../../api/claims/expiry.ts";
import { lookAtSnapshots } from "../../api/snapshots/store.ts";
import { copySnapshot, findVersion } from "../../api/snapshots/versions.ts";
import { readWorkload } from "../../api/workloads.ts";
import { HttpError } from "../../http/http-error.ts";
import { listed, readJson } from "../../http/read-json.ts";
import { jsonResponse } from "../../http/response.ts";
import type { RequestContext, Route, RoutedRequest } from "../../http/router.ts";
import { sandboxId } from "../sandbox-id.ts";
import { recordAnnotation } from "../sandbox-record.ts";
import { claimSandbox } from "./claim-sandbox.ts";
import type { ControlServices } from "./control-services.ts";
import { requireKeptFiles } from "./kept-files.ts";
import { killSandbox } from "./kill.ts";
import { type NewTenant, tenantFor } from "./new-tenant.ts";
import { noList, optionFields, refuseOptions } from "./not-done.ts";
import { refuseTemplate, sandboxAnswer } from "./sandbox.ts";
import { create, mayUseFiles } from "./sandbox-access.ts";
import { readTemplate, type SnapshotName, snapshotNotFound } from "./templates/template.ts";

/** Seconds until a sandbox ends whose creator does not say so. */
export const DEFAULT_SECONDS = 300;

const textsByName = v.pipe(noList, v.record(v.string(), v.string()));
const body = v.strictObject({
  templateID: v.string(),
  timeout: v.nullish(secondsSchema("Seconds until the sandbox ends.")),
  metadata: v.nullish(textsByName),
  envVars: v.nullish(textsByName),
  autoPause: v.nullish(v.boolean()),
  ...optionFields,
});

/** `POST /sandboxes` and `POST /v2/sandboxes`. */
export function createRoutes(services: ControlServices): Route[] {
  return ["/e2b/sandboxes", "/e2b/v2/sandboxes"].map((path) => ({
    method: "POST",
    path,
    access: create,
    handle: (request, context) => createSandbox(request, context, services),
  }));
}

async function createSandbox(
  request: RoutedRequest,
  context: RequestContext,
  services: ControlServices,
): Promise<Response> {
  const { actor = root } = request.caller ?? {};
  const given = await readJson(request, body);
  const { workloadRef, snapshot } = readTemplate(given.templateID);
  request.audit?.about({ workload: workloadRef });
  requireWorkload(actor, workloadRef);
  const metadata = given.metadata ?? {};
  const tenant = tenantFor(actor, Object.hasOwn(metadata, "tenant") ? metadata.tenant : undefined);
  const key = { tenantId: tenant.tenantId, workloadRef };
  request.audit?.about({ tenant: key.tenantId });
  countRequest(actor, key, services);
  if (sandboxId(key) === undefined) refuseTemplate(key);
  const workload = await workloadOf(workloadRef, services);
  refuseOptions(given, workload);
  const autoPause = given.autoPause === true;
  if (autoPause) requireKeptFiles(workload);
  const env = given.envVars ?? {};
  refuseEnv(env, workload);
  const annotations = recordAnnotation({ metadata, by: actor, autoPause, made: tenant.made });
  const clientGone = context.clientGone ?? request.signal;
  context.mayBeSilent?.();
  const version =
    snapshot && (await giveSnapshot(snapshot, { ...tenant, annotations }, { actor, clientGone, services }));
  const claim = {
    ...key,
    // The claim of a tenant that exists gets its files: its release would replace them.
    resume: snapshot !== undefined || !tenant.made,
    version,
    expiresInSeconds: given.timeout ?? DEFAULT_SECONDS,
    annotations,
    ...(Object.keys(env).length > 0 && { inputs: { env } }),
  };
  const answer = await startSandbox(claim, tenant, { request, context, services });
  return jsonResponse(answer, { status: 201 });
}

/**
 * Claims the workload of a sandbox and waits for it. Of one that fails nothing stays if its tenant was made for it: its
 * creator does not get its id.
 *
 * @throws HttpError as {@link claimSandbox} does
 */
export async function startSandbox(
  claim: ClaimRequest,
  { made }: Pick<NewTenant, "made">,
  { request, context, services }: { request: RoutedRequest; context: RequestContext; services: ControlServices },
) {
  const { actor = root } = request.caller ?? {};
  const gone = () => context.clientGone ?? request.signal;
  services.channelsAhead.begin(claim.workloadRef);
  try {
    const { instanceId, source } = await claimSandbox(claim, services, { clientGone: gone, span: context.span });
    request.audit?.about({ instance: instanceId });
    request.audit?.from(source);
    // A new claim counts by its own time.
    if (source === "existing" && instanceId !== undefined) services.activity.touch(instanceId);
    return await sandboxAnswer(claim, actor, services);
  } catch (error) {
    const isBegun = !(error instanceof HttpError && error.status === 429) || claim.resume;
    if (made && isBegun) await removeFailed(claim, services);
    throw error;
  }
}

/** The tenant of a new sandbox, with the annotations of its claim. */
type CopyTarget = NewTenant & { readonly annotations: Readonly<Record<string, string>> };

/**
 * Copies a version to the tenant of a new sandbox, to its end even if the client leaves: a store that was left alone
 * may commit all the same. Of a copy that fails nothing stays if the tenant was made for the sandbox.
 *
 * @throws HttpError as {@link copySnapshot} does
 */
export async function copyToSandbox(
  from: ClaimKey,
  { tenantId, made, annotations, version }: CopyTarget & { readonly version: string },
  services: ControlServices,
): Promise<void> {
  // A later kill deletes only files that say that it may.
  const sandbox = sandboxToKeep({ metadata: { annotations }, spec: { tenantId } });
  try {
    await copySnapshot(from, { tenantId, version, sandbox }, { ...services, clientGone: undefined });
  } catch (error) {
    if (made) await removeFailed({ tenantId, workloadRef: from.workloadRef }, services);
    throw error;
  }
}

/** A failure of this is no other error for the caller: the claim ends by its expiry. */
async function removeFailed(key: ClaimKey, services: ControlServices): Promise<void> {
  await killSandbox(key, services, { made: true, clientGone: undefined }).catch((failure: unknown) => {
    services.log.warn({ tenantId: key.tenantId, error: String(failure) }, "a failed sandbox was not removed");
  });
}

/** Counts a request whose tenant is not in its path. @throws HttpError 429 */
function countRequest(actor: Actor, { tenantId }: ClaimKey, { rates }: ControlServices): void {
  if (actor.tenants !== undefined) rates?.admit(tenantId);
}

/** @throws HttpError 404 for a workload that does not exist */
async function workloadOf(name: string, { cache, namespace, cluster }: ControlServices): Promise<Workload> {
  return cache.workloads.store.get({ namespace, name }) ?? (await readWorkload(name, { cluster }));
}

/** @throws HttpError 400 for variables that the program cannot get */
function refuseEnv(env: Readonly<Record<string, string>>, { metadata: { name }, spec }: Workload): void {
  if (Object.keys(env).length === 0) return;
  const problems = inputProblems({ env }, "body").map((problem) => problem.replace(/^body\.env\b/, "body.envVars"));
  if (!takesClaimInputs(spec)) problems.push(`body.envVars: ${startsTooEarly(name)}`);
  if (problems.length > 0) throw new HttpError(400, listed(problems));
}

/**
 * Copies a saved version to the tenant of a new sandbox, unless the tenant is the snapshot's own.
 *
 * @returns the version to restore; undefined for the newest
 * @throws HttpError 404 for a version that does not exist, or that the caller does not reach; 409 if the tenant has
 *   files or a claim already
 */
async function giveSnapshot(
  snapshot: SnapshotName,
  to: CopyTarget,
  { actor, clientGone, services }: { actor: Actor; clientGone: AbortSignal; services: ControlServices },
): Promise<string | undefined> {
  const { key: from, name } = snapshot;
  if (!mayUseFiles(actor, from)) throw snapshotNotFound(snapshot);
  if (from.tenantId === to.tenantId) {
    const kept = await lookAtSnapshots(from, services, clientGone);
    return findVersion(from, kept, name).sha256;
  }
  await copyToSandbox(from, { ...to, version: name }, services);
  return undefined;
}
