import { isDeepStrictEqual } from "node:util";
import { ApiError, isAlreadyExists, isConflict, isNotFound } from "../../crds/client/api-error.ts";
import { nodes, pods } from "../../crds/client/built-in-resources.ts";
import { keyOf } from "../../crds/client/watch/store.ts";
import { workloads } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { label } from "../../crds/labels.ts";
import type { Workload, WorkloadStatus } from "../../crds/workload.ts";
import { hasNewPhase, isReadyToUse } from "../../crds/workload-phase.ts";
import { applyNetworkPolicy } from "../apply-object.ts";
import { type Controller, watch } from "../controller.ts";
import { podRefusal } from "../pod/pod-refusal.ts";
import { imageToPull } from "../pod/render-pod.ts";
import { schedulingOf } from "../pod/scheduling.ts";
import type { ReconcileResult } from "../queue.ts";
import type { PrepullContext } from "./context.ts";
import { PULL_SECONDS, pullState, renderPrepullPod, renderPrepullPolicy } from "./prepull-pod.ts";
import { createPullPlan, type PullPlan } from "./pull-plan.ts";

/** Of all workloads: pulls share a registry and its lines. */
const PULLS_AT_ONCE = 5;
/** A status changes with each node. */
const BATCH_MS = 1000;
const NODES_PER_PAGE = 100;
/** A right can be given at any time. */
const REFUSED_MS = 60_000;
/** What the kubelet has to end a pod after its limit, before the node counts as lost. */
const LOST_AFTER_MS = (PULL_SECONDS + 60) * 1000;
const MOST_NAMED = 20;
const MOST_FAILED = 10;
const LONGEST_MESSAGE = 512;
const NOT_WATCHED = "the operator does not watch nodes: set TENANCY_WATCH_NODES (docs/how-to/pull-images-ahead.md)";

/** Makes nodes pull the images of workloads with `image.prePull`, a few nodes at a time. */
export function createPrepullController(context: PrepullContext): Controller<"prepull"> {
  const { informers, pullPlans } = context;
  /** The one that has made no pod for longest comes first, so that each gets a place. */
  const waiting = () =>
    [...informers.workloads.store.values()]
      .filter(isAsked)
      .map((one) => ({ key: keyOf(one), startedAt: pullPlans.get(one.metadata.name)?.startedAt ?? 0 }))
      .sort((a, b) => a.startedAt - b.startedAt)
      .map(({ key }) => key);
  return {
    name: "prepull",
    priority: 3,
    // More would count the pods of each other's runs too late.
    concurrency: 1,
    batchMs: () => BATCH_MS,
    watches: [
      watch(informers.workloads, (change) => (hasNewPhase(change) ? [keyOf(change.object)] : [])),
      watch(informers.pods, ({ type, object }) => {
        const workload = object.metadata.labels?.[label.prepull];
        if (workload === undefined) return [];
        if (type === "deleted") noteDeleted(object, pullPlans.get(workload));
        // The next workload may have its place.
        const others = type === "deleted" ? waiting() : [];
        return [...others, keyOf({ metadata: { ...object.metadata, name: workload } })];
      }),
      ...(informers.nodes === undefined
        ? []
        : [
            watch(informers.nodes, ({ type }) => {
              if (type === "modified") return [];
              for (const plan of pullPlans.values()) plan.look();
              return waiting();
            }),
          ]),
    ],
    reconcile: (key) => reconcilePrepull(key, context),
  };
}

/** A pod that was deleted from outside, such as on a node that is drained: its node is looked at before another try. */
function noteDeleted(pod: Pod, plan: PullPlan | undefined): void {
  const { nodeName = "", containers } = pod.spec;
  if (containers[0]?.image !== plan?.image || pullState(pod).state !== "pulling") return;
  plan?.note(nodeName, { uid: pod.metadata.uid ?? "", failure: "the pod was deleted before it had ended" });
  plan?.look();
}

function isAsked({ metadata, spec }: Workload): boolean {
  const { prePull = false, pullPolicy } = spec.image;
  return prePull && pullPolicy !== "Never" && metadata.deletionTimestamp === undefined;
}

async function reconcilePrepull(key: string, context: PrepullContext): Promise<ReconcileResult> {
  const { informers, pullPlans } = context;
  const workload = informers.workloads.store.get(key);
  const name = key.slice(key.indexOf("/") + 1);
  try {
    const isWanted = workload !== undefined && isAsked(workload);
    if (!isWanted || !isReadyToUse(workload) || informers.nodes === undefined) {
      pullPlans.delete(name);
      await endPods(informers.pods.store.by("prepull", name), context);
      const isUnwatched = isWanted && informers.nodes === undefined;
      if (workload !== undefined)
        await writeImages(workload, isUnwatched ? noneOf(workload, NOT_WATCHED) : undefined, context);
      return undefined;
    }
    const plan = planOf(workload, context);
    await readPods(plan, workload, context);
    const refusal = plan.isLookDue() ? await lookAtNodes(context) : undefined;
    if (refusal !== undefined) {
      await writeImages(workload, noneOf(workload, refusal), context);
      return { requeueAfterMs: REFUSED_MS };
    }
    // A look has failed, and there was none before.
    if (!plan.isKnown()) return { requeueAfterMs: plan.waitMs() };
    await startPulls(plan, workload, context);
    await writeImages(workload, imagesOf(plan), context);
    return { requeueAfterMs: plan.waitMs() };
  } catch (error) {
    if (isConflict(error) || isNotFound(error)) return { requeueAfterMs: BATCH_MS };
    throw error;
  }
}

/** The workload's plan; a new one if its image or what chooses its nodes has changed. */
function planOf(workload: Workload, { pullPlans, clock }: PrepullContext): PullPlan {
  const { name, uid } = workload.metadata;
  const scheduled = schedulingOf(workload);
  const { nodeSelector, tolerations, affinity } = scheduled;
  const { pullSecrets } = workload.spec.image;
  const image = imageToPull(workload);
  const { runtimeClassName } = workload.spec;
  const key = JSON.stringify([uid, image, pullSecrets, runtimeClassName, nodeSelector, tolerations, affinity]);
  const known = pullPlans.get(name);
  if (known?.key === key) return known;
  const plan = createPullPlan({ key, image, scheduled, clock });
  pullPlans.set(name, plan);
  return plan;
}

/** Takes over what the pods of a workload have come to, and deletes those that have ended. */
async function readPods(plan: PullPlan, { metadata }: Workload, context: PrepullContext): Promise<void> {
  const { informers, serverNow } = context;
  const ended: Pod[] = [];
  for (const pod of informers.pods.store.by("prepull", metadata.name)) {
    const { nodeName = "", containers } = pod.spec;
    const isOther = containers[0]?.image !== plan.image;
    const isLost = serverNow() - Date.parse(pod.metadata.creationTimestamp ?? "") > LOST_AFTER_MS;
    const state = pullState(pod);
    if (state.state === "pulling" && !isOther && !isLost) continue;
    ended.push(pod);
    if (isOther) continue;
    const message = state.state === "failed" ? state.message : `the node did not pull it within ${PULL_SECONDS} s`;
    plan.note(nodeName, { uid: pod.metadata.uid ?? "", ...(state.state !== "pulled" && { failure: message }) });
  }
  await endPods(ended, context);
}

async function endPods(ended: Iterable<Pod>, { cluster }: PrepullContext): Promise<void> {
  await Promise.all([...ended].map((pod) => cluster(pods).of(pod).delete({ gracePeriodSeconds: 0 })));
}

/**
 * Reads the nodes for all plans, in pages, which are not stored: a node's object has up to 20 KB.
 *
 * @returns the API server's words if the operator may not read them
 */
async function lookAtNodes({ client, pullPlans }: PrepullContext): Promise<string | undefined> {
  const plans = [...pullPlans.values()];
  const looks = plans.map((plan) => plan.beginLook());
  let token: string | undefined;
  try {
    do {
      const page = await client.list(nodes, { limit: NODES_PER_PAGE, continue: token });
      for (const node of page.items) for (const look of looks) look.see(node);
      token = page.metadata.continue;
    } while (token);
  } catch (error) {
    for (const plan of plans) plan.look();
    if (error instanceof ApiError && error.status === 403) return error.message;
    throw error;
  }
  for (const look of looks) look.end();
  return undefined;
}

async function startPulls(plan: PullPlan, workload: Workload, context: PrepullContext): Promise<void> {
  const { cluster, config, informers, clock } = context;
  const { store } = informers.pods;
  const busy = new Set([...store.by("prepull", workload.metadata.name)].map(({ spec }) => spec.nodeName));
  for (const node of plan.due()) {
    if (store.by("anyPrepull", "").size >= PULLS_AT_ONCE) return;
    if (busy.has(node)) continue;
    await ensurePolicy(context);
    try {
      await cluster(pods).create(renderPrepullPod(workload, { node, config }));
      plan.startedAt = clock.now();
    } catch (error) {
      // The watch is about to show it.
      if (isAlreadyExists(error)) continue;
      const refusal = podRefusal(error);
      if (refusal === undefined) throw error;
      plan.note(node, { uid: "", failure: refusal.message });
      return;
    }
  }
}

/** Closes the pods before the first one starts. */
async function ensurePolicy({ cluster, config, informers }: PrepullContext): Promise<void> {
  const wanted = renderPrepullPolicy(config.namespace);
  const present = informers.networkPolicies.store.get(keyOf(wanted));
  if (!isDeepStrictEqual(present?.spec, wanted.spec)) await applyNetworkPolicy(wanted, { present, cluster });
}

type ImagesStatus = NonNullable<WorkloadStatus["images"]>;

function noneOf(workload: Workload, message: string): ImagesStatus {
  return {
    image: workload.spec.image.ref ?? "",
    nodes: 0,
    pulled: 0,
    pulledOn: [],
    failed: [],
    message: cut(message),
  };
}

/** Half a character is stored as another one, and would be written each time. */
function cut(message: string): string {
  return [...message].slice(0, LONGEST_MESSAGE).join("");
}

function imagesOf({ image, states }: PullPlan): ImagesStatus {
  const all = [...states()];
  const pulled = all.flatMap(([node, { isPulled }]) => (isPulled ? [node] : []));
  const failed = all.flatMap(([node, { failure }]) => (failure === undefined ? [] : [{ node, message: cut(failure) }]));
  return {
    ...{ image, nodes: all.length, pulled: pulled.length },
    pulledOn: pulled.slice(0, MOST_NAMED),
    failed: failed.slice(0, MOST_FAILED),
  };
}

async function writeImages(
  workload: Workload,
  images: ImagesStatus | undefined,
  { cluster }: PrepullContext,
): Promise<void> {
  if (isDeepStrictEqual(workload.status?.images, images)) return;
  const written = images === undefined ? null : { ...images, message: images.message ?? null };
  await cluster(workloads).of(workload).patchStatus({ images: written });
}
