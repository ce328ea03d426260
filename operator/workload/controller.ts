import { isDeepStrictEqual } from "node:util";
import { buildRequest } from "../../crds/builds/build-request.ts";
import { isConflict, isNotFound } from "../../crds/client/api-error.ts";
import { networkPolicies, pods } from "../../crds/client/built-in-resources.ts";
import type { Change } from "../../crds/client/watch/informer.ts";
import { keyAt, keyOf } from "../../crds/client/watch/store.ts";
import { claims, pools, workloads } from "../../crds/kinds.ts";
import type { KubernetesObject, NetworkPolicy } from "../../crds/kubernetes.ts";
import { annotation, finalizer, label } from "../../crds/labels.ts";
import { formerPolicyName, policyName } from "../../crds/names.ts";
import { nextConditions, readiness } from "../../crds/schema/condition.ts";
import { workloadProblems } from "../../crds/schema/validate-workload.ts";
import { imageOf, type Workload, type WorkloadSpec, type WorkloadStatus } from "../../crds/workload.ts";
import { describeUsers, type WorkloadUsers, workloadUsers } from "../../crds/workload-users.ts";
import { applyNetworkPolicy } from "../apply-object.ts";
import { buildWatches } from "../builds/build-watches.ts";
import { type BuildOutcome, builtConditions, reportBuild } from "../builds/end-build.ts";
import { deleteBuilds, deleteContexts, ensureBuild, leaveWaiting } from "../builds/ensure-build.ts";
import { builtImage } from "../builds/render-build.ts";
import type { OperatorConfig } from "../config.ts";
import { type Controller, watch } from "../controller.ts";
import { egressProblems } from "../egress/egress-problems.ts";
import { namesSecret, needsProxy } from "../egress/egress-rules.ts";
import { templateProblem } from "../pod/render-pod.ts";
import type { ReconcileResult } from "../queue.ts";
import { removeFinalizer } from "../remove-finalizer.ts";
import type { WorkloadContext } from "./context.ts";
import { deleteEgress, deleteUnusedEgress, ensureEgress, forgetEgress } from "./ensure-egress.ts";
import {
  type EntrypointOutcome,
  ensureEntrypoint,
  forgetEntrypoint,
  formerEntrypoint,
  holdMs,
  startProblem,
} from "./ensure-entrypoint.ts";
import { findPullSecrets, PULL_SECRETS_CONDITION, type PullSecretsOutcome } from "./find-pull-secrets.ts";
import { findSources, readsSecret } from "./find-sources.ts";
import { renderPolicy } from "./render-policy.ts";

// Backstop: poll, in case an event is missed.
const LOOK_AGAIN_MS = 30_000;

/** Brings workloads to `Ready` or `Error`. */
export function createWorkloadController(context: WorkloadContext): Controller<"workload"> {
  const { informers } = context;
  const egress = informers.egress === undefined ? [] : [informers.egress.configMaps, informers.egress.secrets];
  return {
    name: "workload",
    priority: 1,
    concurrency: 4,
    watches: [
      watch(informers.workloads, ({ type, object }) => {
        if (type !== "deleted") return [keyOf(object)];
        forgetEgress(object, context);
        forgetEntrypoint(object, context);
        return [];
      }),
      watch(informers.claims, ({ type, object }) =>
        type === "deleted" || object.status?.phase === "Error" ? ifDeleted(object.spec.workloadRef, context) : [],
      ),
      watch(informers.pools, ({ type, object }) =>
        type === "deleted" ? ifDeleted(object.spec.workloadRef, context) : [],
      ),
      watch(informers.pods, ({ type, object }) =>
        type === "deleted" ? ifDeleted(object.metadata.labels?.[label.workload], context) : [],
      ),
      watch(informers.networkPolicies, (change) => workloadOfPolicy(change, context)),
      ...egress.map((informer) => watch(informer, (change) => workloadsOfEgress(change, context))),
      ...buildWatches(context),
    ],
    reconcile: (key) => reconcileWorkload(key, context),
  };
}

/** The workload's key, if the workload is being deleted: it is removed once it has no users. */
function ifDeleted(workload: string | undefined, { config, informers }: WorkloadContext): string[] {
  const held = informers.workloads.store.get({ namespace: config.namespace, name: workload ?? "" });
  return held?.metadata.deletionTimestamp === undefined ? [] : [keyOf(held)];
}

/** Maps a policy that a person edited or deleted to its workload; ignores the operator's own writes. */
function workloadOfPolicy({ type, object, previous }: Change<NetworkPolicy>, { config }: WorkloadContext): string[] {
  const workload = object.metadata.labels?.[label.workload];
  const isEdited = type === "modified" && previous?.metadata.generation !== object.metadata.generation;
  return workload !== undefined && (type === "deleted" || isEdited)
    ? [keyAt({ namespace: config.namespace, name: workload })]
    : [];
}

/** Maps a change of a proxy's object, or of a Secret that workloads name, to those workloads. */
function* workloadsOfEgress(
  { object, previous }: Change<KubernetesObject>,
  { config, informers }: WorkloadContext,
): Iterable<string> {
  for (const workload of informers.workloads.store.values())
    if (namesSecret(workload.spec, object.metadata.name) || readsSecret(workload.spec, object.metadata.name))
      yield keyOf(workload);
  // If the label was changed, use the workload that it named before.
  const workload = (previous ?? object).metadata.labels?.[label.workload];
  if (workload !== undefined) yield keyAt({ namespace: config.namespace, name: workload });
}

/**
 * Brings one workload to `Ready` or `Error`. It becomes `Ready` only after its network policy exists, and its pods are
 * created only after that, so no pod is ever without its policy.
 */
async function reconcileWorkload(key: string, context: WorkloadContext): Promise<ReconcileResult> {
  const workload = context.informers.workloads.store.get(key);
  try {
    if (workload === undefined) {
      await deleteUnusedEgress(key.slice(key.indexOf("/") + 1), context);
      return undefined;
    }
    if (workload.metadata.deletionTimestamp !== undefined) return await finalizeWhenUnused(workload, context);
    if (!workload.metadata.finalizers?.includes(finalizer.inUse)) return await addFinalizer(workload, context);
    await ensurePolicy(workload, context);
    // Report problems of the spec before an image is built.
    const template = withProgram(withImage(workload, context.config));
    const problem = workloadProblem(workload.spec, context.config) ?? renderingProblem(template, context);
    const egress = problem === undefined ? await ensureEgress(template, context) : {};
    const sources = problem === undefined ? await findSources(template, context) : {};
    const refused = problem ?? egress.problem ?? sources.problem;
    const built = refused === undefined ? await ensureBuild(workload, context) : undefined;
    if (refused === undefined && built === undefined) return undefined;
    if (refused !== undefined) await leaveWaiting(workload, context);
    const image = workload.spec.image.ref ?? built?.image;
    const secrets = refused === undefined ? await findPullSecrets(workload, context) : undefined;
    const pulledWith = secrets?.condition.message;
    const program = refused === undefined ? ensureEntrypoint(workload, { image, pulledWith, context }) : undefined;
    const invalid = refused ?? (program && startProblem(workload, program));
    const heldMs = program === undefined ? 0 : holdMs(program, workload, context.serverNow());
    const state = stateOf(workload, { built, refused: invalid, isHeld: heldMs > 0 });
    const isNews = await writeStatus(workload, { ...state, built, program, secrets }, context);
    reportPullSecrets(workload, secrets, context);
    if (invalid !== undefined && isNews)
      context.events.record({ resource: workloads, object: workload, type: "Warning", ...invalid });
    if (built?.build !== undefined && isNews) reportBuild(workload, built.build, context);
    const waits = [
      ...[egress.requeueAfterMs, built?.requeueAfterMs, program?.requeueAfterMs],
      ...[secrets?.requeueAfterMs, sources.requeueAfterMs, heldMs || undefined],
    ].filter((wait) => wait !== undefined);
    return waits.length === 0 ? undefined : { requeueAfterMs: Math.min(...waits) };
  } catch (error) {
    if (isConflict(error) || isNotFound(error)) return { requeueAfterMs: 1000 };
    throw error;
  }
}

/**
 * The workload with a placeholder for an image that is not built yet, to check whether its pods can be rendered and
 * admitted. Admission checks an image by its registry.
 */
function withImage(workload: Workload, { builds }: OperatorConfig): Workload {
  const { metadata, spec, status } = workload;
  if (spec.image.dockerfile === undefined || status?.image !== undefined || builds === undefined) return workload;
  return { ...workload, status: { phase: "Creating", ...status, image: builtImage(metadata.name, builds) } };
}

/** The workload with a placeholder for the program of its image, to check the rest of its pods. */
function withProgram(workload: Workload): Workload {
  const image = imageOf(workload);
  if (image === undefined) return workload;
  const entrypoint = { image, digest: "sha256:unknown", command: ["program"], args: [], observedGeneration: 0 };
  return { ...workload, status: { phase: "Creating", ...workload.status, entrypoint } };
}

function stateOf(
  { spec }: Workload,
  {
    built,
    refused,
    isHeld,
  }: {
    built: BuildOutcome | undefined;
    refused: { reason: string; message: string } | undefined;
    isHeld: boolean;
  },
): Pick<WorkloadStatus, "phase" | "reason" | "message"> {
  if (refused !== undefined) return { phase: "Error", ...refused };
  if (isHeld) return { phase: "Creating", reason: "ReadingImage", message: "The image's own command is being read" };
  if (spec.image.dockerfile === undefined || built?.image !== undefined) return { phase: "Ready" };
  const { state, reason = "Building", message = "The image is being built" } = built?.build ?? {};
  return { phase: state === "Failed" ? "Error" : "Building", reason, message };
}

/** A problem that only rendering a pod shows. */
function renderingProblem(workload: Workload, { config }: WorkloadContext) {
  const message = templateProblem(workload, config);
  return message === undefined ? undefined : { reason: "Invalid", message };
}

/**
 * Applies the policy if it differs from the rendered one, or does not exist: an edited or deleted policy is restored.
 */
async function ensurePolicy(workload: Workload, context: WorkloadContext): Promise<void> {
  const { cluster, informers, config } = context;
  const wanted = renderPolicy(workload, config.namespace);
  const present = informers.networkPolicies.store.get(keyOf(wanted));
  if (!isDeepStrictEqual(present?.spec, wanted.spec)) await applyNetworkPolicy(wanted, { present, cluster });
  await deleteFormerPolicy(workload, context);
}

/**
 * Deletes the policy that an earlier version created under another name. Policies add up, so it would keep open what it
 * opens.
 */
async function deleteFormerPolicy(
  { metadata }: Workload,
  { cluster, config, informers }: WorkloadContext,
): Promise<void> {
  const name = formerPolicyName(metadata.name);
  const former = informers.networkPolicies.store.get({ namespace: config.namespace, name });
  if (name === policyName(metadata.name) || former?.metadata.labels?.[label.workload] !== metadata.name) return;
  await cluster(networkPolicies).of(former).delete();
}

/** Writes a workload's status if it differs, and returns whether it did. */
async function writeStatus(
  workload: Workload,
  {
    phase,
    reason,
    message,
    built,
    program = formerEntrypoint(workload),
    secrets,
  }: Pick<WorkloadStatus, "phase" | "reason" | "message"> & {
    built?: BuildOutcome | undefined;
    program?: EntrypointOutcome | undefined;
    secrets?: PullSecretsOutcome | undefined;
  },
  { cluster }: WorkloadContext,
): Promise<boolean> {
  const { generation = 0 } = workload.metadata;
  const before = workload.status;
  const { image, build: known } = built ?? { image: before?.image, build: before?.build };
  const build = built === undefined || known === undefined ? known : { ...known, request: buildRequest(workload) };
  const isDeadEnd = phase === "Error" && built?.build?.tries === undefined;
  const state = phase === "Ready" ? "ready" : isDeadEnd ? "stalled" : "reconciling";
  const ready = readiness(state, { reason: reason ?? "Valid", message: message ?? "The workload can be claimed" });
  const { entrypoint, condition } = program;
  const others = [condition, secrets?.condition].filter((other) => other !== undefined);
  const conditions = [...ready, ...builtConditions(image, build), ...others];
  const status = {
    phase,
    reason: reason ?? null,
    message: message ?? null,
    observedGeneration: generation,
    conditions: nextConditions(before?.conditions, conditions, { generation }),
    image: image ?? null,
    build: build ?? null,
    entrypoint: entrypoint ?? null,
  };
  const present = {
    phase: before?.phase,
    reason: before?.reason ?? null,
    message: before?.message ?? null,
    observedGeneration: before?.observedGeneration,
    conditions: before?.conditions,
    image: before?.image ?? null,
    build: before?.build ?? null,
    entrypoint: before?.entrypoint ?? null,
  };
  if (isDeepStrictEqual(status, present)) return false;
  // `runsAsRoot` of one image does not apply to another.
  const isOther = workload.spec.image.dockerfile === undefined && before?.observedGeneration !== generation;
  const forgotten = isOther || image !== before?.image ? { runsAsRoot: null } : {};
  // A merge patch keeps fields that it does not name, so name them all.
  const left = Object.fromEntries(Object.keys(before?.build ?? {}).map((field) => [field, null]));
  await cluster(workloads)
    .of(workload)
    .patchStatus({ ...status, build: build === undefined ? null : { ...left, ...build }, ...forgotten });
  return true;
}

/** Records that pull Secrets are missing, once for each cause. */
function reportPullSecrets(
  workload: Workload,
  secrets: PullSecretsOutcome | undefined,
  { events }: WorkloadContext,
): void {
  if (secrets?.condition.status !== "False") return;
  const { reason, message } = secrets.condition;
  const former = workload.status?.conditions?.find(({ type }) => type === PULL_SECRETS_CONDITION);
  if (former?.status === "False" && former.message === message) return;
  events.record({ resource: workloads, object: workload, type: "Warning", reason, message });
}

/** Keeps a deleted workload until no claim, pool or pod uses it. The end of the last one starts the next run. */
async function finalizeWhenUnused(workload: Workload, context: WorkloadContext): Promise<ReconcileResult> {
  const { name } = workload.metadata;
  if (!workload.metadata.finalizers?.includes(finalizer.inUse)) return undefined;
  // The images of these builds are not needed any more. The end of the builds starts the next run.
  if (!(await deleteBuilds(workload, context))) {
    const left = { reason: "BuildsLeft", message: "The workload is deleted when the builds of its image have ended" };
    await writeStatus(workload, { phase: "Terminating", ...left }, context);
    return { requeueAfterMs: LOOK_AGAIN_MS };
  }
  if (describeUsers(usersOf(name, context)) === undefined) await readUsers(name, context);
  const users = usersOf(name, context);
  const message = describeUsers(users);
  if (message !== undefined) {
    const isNews = await writeStatus(workload, { phase: "Terminating", reason: "InUse", message }, context);
    if (!isNews) return undefined;
    const kinds = Object.entries(users).flatMap(([kind, names]) => (names.length > 0 ? [kind] : []));
    context.events.record({
      ...{ resource: workloads, object: workload, type: "Normal", reason: "InUse" },
      message: `the workload is deleted when nothing uses it; in use by ${kinds.join(" and ")}: release its claims and delete its pools`,
    });
    return undefined;
  }
  const contexts = deleteContexts(workload, context);
  if (contexts.state === "running") return undefined;
  if (contexts.state === "failed") {
    const { error, retryInMs } = contexts;
    const because = error instanceof Error ? error.message : String(error);
    const message = `The uploaded build contexts cannot be deleted (${because}): to leave them, set the annotation ${annotation.buildContext} to "left"`;
    await writeStatus(workload, { phase: "Terminating", reason: "ContextsLeft", message }, context);
    return { requeueAfterMs: retryInMs };
  }
  await deleteFormerPolicy(workload, context);
  await context.cluster(networkPolicies).named(policyName(name)).delete();
  await deleteEgress(name, context);
  await removeFinalizer({ resource: workloads, object: workload, finalizer: finalizer.inUse }, context.cluster);
  return undefined;
}

function usersOf(workload: string, { informers }: WorkloadContext): WorkloadUsers {
  return workloadUsers(workload, {
    claims: informers.claims.store.by("using", workload),
    pools: informers.pools.store.by("workload", workload),
    pods: informers.pods.store.by("workload", workload),
  });
}

/**
 * Reads the users of a workload into the caches, since a watch may be behind. The network policy is deleted with the
 * workload, and pods that still run would be open.
 */
async function readUsers(workload: string, { cluster }: WorkloadContext): Promise<void> {
  const labelSelector = `${label.managed}=true,${label.workload}=${workload}`;
  await Promise.all([
    cluster(claims).list({ refresh: true }),
    cluster(pools).list({ refresh: true }),
    cluster(pods).list({ labelSelector, refresh: true }),
  ]);
}

async function addFinalizer(workload: Workload, { cluster }: WorkloadContext): Promise<undefined> {
  const { finalizers = [] } = workload.metadata;
  await cluster(workloads)
    .of(workload)
    .patch({ metadata: { finalizers: [...finalizers, finalizer.inUse] } });
  return undefined;
}

/** Why a workload cannot be Ready, and what to change; undefined if it can. */
function workloadProblem(
  spec: WorkloadSpec,
  config: Pick<OperatorConfig, "egress" | "builds" | "podServiceAccounts">,
): { reason: string; message: string } | undefined {
  const problems = workloadProblems(spec, { allowUnknownFields: true });
  if (problems.length > 0) return { reason: "Invalid", message: problems.join("; ") };
  if (spec.image.dockerfile !== undefined && config.builds === undefined) {
    return {
      reason: "BuildUnavailable",
      message:
        "the operator has no registry for built images: set TENANCY_REGISTRY (docs/reference/settings.md), or build spec.image.dockerfile elsewhere and set spec.image.ref to the image",
    };
  }
  const { serviceAccountName: account } = spec;
  if (account !== undefined && !config.podServiceAccounts.includes(account)) {
    return {
      reason: "ServiceAccountRefused",
      message: `spec.serviceAccountName: "${account}" is not one of the ServiceAccounts that pods may have: add it to TENANCY_POD_SERVICE_ACCOUNTS of the operator, or remove the field`,
    };
  }
  const egress = egressProblems(spec);
  if (egress.length > 0) return { reason: "Invalid", message: egress.join("; ") };
  // Without the proxy, these fields would have no effect, and the tenant could reach everything.
  if (config.egress.image === undefined && needsProxy(spec)) {
    return {
      reason: "EgressProxyUnavailable",
      message:
        "the operator has no image for the egress proxy: set TENANCY_PROXY_IMAGE, or leave spec.network.allowlist and spec.network.credentials empty",
    };
  }
  return undefined;
}
