import { isDeepStrictEqual } from "node:util";
import type { Claim } from "../../../crds/claim.ts";
import { claimResponse } from "../../../crds/claims/claim-response.ts";
import type { Change } from "../../../crds/client/watch/informer.ts";
import type { KubernetesObject, Pod } from "../../../crds/kubernetes.ts";
import { CLAIM_LABEL_PREFIX, label } from "../../../crds/labels.ts";
import { desiredSize, type Pool } from "../../../crds/pool.ts";
import type { Trigger } from "../../../crds/trigger.ts";
import type { Workload } from "../../../crds/workload.ts";
import type { watchCluster } from "../../cluster/watch-cluster.ts";
import { instanceResponse } from "../instances/instance.ts";
import type { ApiTypes } from "../openapi/schemas.ts";
import type { EventHub } from "./event-hub.ts";
import type { EventType } from "./event-ring.ts";

/** Publishes the changes of every kind that change its response object, while a client can receive them. */
export function publishChanges(
  hub: Pick<EventHub, "publish" | "isHeard">,
): Parameters<typeof watchCluster>[0]["onChange"] {
  return {
    claims: (change) => hub.isHeard() && publishClaim(change, hub),
    pods: (change) => hub.isHeard() && publishPod(change, hub),
    workloads: (change) => hub.isHeard() && publishObject(change, shownWorkload, hub),
    pools: (change) => hub.isHeard() && publishObject(change, shownPool, hub),
    triggers: (change) => hub.isHeard() && publishObject(change, shownTrigger, hub),
  };
}

/** Publishes a pod's change if it changes the instance record. */
export function publishPod({ type, object, previous }: Change<Pod>, hub: Pick<EventHub, "publish">): void {
  const record = openInstance(object);
  if (type === "modified" && previous !== undefined && isDeepStrictEqual(record, openInstance(previous))) return;
  hub.publish({ type: `instance.${type}`, tenant: record.tenantId, workload: record.workloadRef, object: record });
}

/** Publishes a claim's change if it changes the response object. */
export function publishClaim({ type, object, previous }: Change<Claim>, hub: Pick<EventHub, "publish">): void {
  const response = openClaim(object);
  if (type === "modified" && previous !== undefined && isDeepStrictEqual(response, openClaim(previous))) return;
  const word = type === "deleted" ? "deleted" : (response.phase.toLowerCase() as Lowercase<typeof response.phase>);
  const eventType: EventType = `claim.${word}`;
  hub.publish({ type: eventType, tenant: response.tenantId, workload: response.workloadRef, object: response });
}

/**
 * The public fields of a claim's response object, since `/ws` may require no key: a `message` may contain the program's
 * last output. A new field of the response is not published until it is added here.
 */
function openClaim(claim: Claim) {
  const response = claimResponse(claim);
  const { tenantId, phase, instanceId, endpoint, source, claimedAt, expiresAt, labels, workloadRef, reason } = response;
  return { tenantId, phase, instanceId, endpoint, source, claimedAt, expiresAt, labels, workloadRef, reason };
}

/** The public part of an object that a person creates. */
interface Shown<T extends KubernetesObject, Open extends object> {
  readonly family: "workload" | "pool" | "trigger";
  readonly open: (object: T) => Open;
  /** What is private: clients learn that it has changed, not its content. */
  readonly wordsOf: (object: T) => string | undefined;
  readonly workloadOf: (object: T) => string;
}

const shownWorkload: Shown<Workload, ApiTypes["OpenWorkload"]> = {
  family: "workload",
  open: openWorkload,
  wordsOf: ({ status }) => JSON.stringify([status?.message, status?.images]),
  workloadOf: ({ metadata }) => metadata.name,
};
const shownPool: Shown<Pool, ApiTypes["OpenPool"]> = {
  family: "pool",
  open: openPool,
  wordsOf: ({ status }) => status?.message,
  workloadOf: ({ spec }) => spec.workloadRef,
};
const shownTrigger: Shown<Trigger, ApiTypes["OpenTrigger"]> = {
  family: "trigger",
  open: openTrigger,
  wordsOf: ({ status }) => status?.detail,
  workloadOf: ({ spec }) => spec.workloadRef,
};

function publishObject<T extends KubernetesObject, Open extends object>(
  { type, object, previous }: Change<T>,
  kind: Shown<T, Open>,
  hub: Pick<EventHub, "publish">,
): void {
  const { family, open, wordsOf, workloadOf } = kind;
  const shown = open(object);
  const isTold =
    previous !== undefined && wordsOf(object) === wordsOf(previous) && isDeepStrictEqual(shown, open(previous));
  if (type === "modified" && isTold) return;
  hub.publish({ type: `${family}.${type}`, tenant: undefined, workload: workloadOf(object), object: shown });
}

/** Without the spec, whose environment may hold secrets; the generation shows that the spec has changed. */
function openWorkload({ metadata, status }: Workload): ApiTypes["OpenWorkload"] {
  const isLeaving = metadata.deletionTimestamp !== undefined;
  const { phase = "Creating", reason } = status ?? {};
  return { ...openObject(metadata), phase: isLeaving ? "Terminating" : phase, ...(reason !== undefined && { reason }) };
}

function openPool(pool: Pool): ApiTypes["OpenPool"] {
  const { metadata, spec, status } = pool;
  const { phase = "Filling", ready = 0, warming = 0, desired, reason } = status ?? {};
  return {
    ...openObject(metadata),
    ...{ workloadRef: spec.workloadRef, size: desiredSize(pool), phase, ready, warming },
    ...(desired !== undefined && { desired }),
    ...(reason !== undefined && { reason }),
  };
}

function openTrigger({ metadata, spec, status }: Trigger): ApiTypes["OpenTrigger"] {
  const { phase } = status ?? {};
  return {
    ...openObject(metadata),
    ...{ type: spec.type, workloadRef: spec.workloadRef },
    ...(phase !== undefined && { phase }),
  };
}

function openObject({ name, generation = 0, creationTimestamp = "" }: KubernetesObject["metadata"]) {
  return { name, generation, createdAt: creationTimestamp };
}

/** A pod's instance record with only the service's own labels and its claim's; others may hold private data. */
function openInstance(pod: Pod) {
  const { labels, ...shown } = instanceResponse(pod);
  const { name, phase, ready, restarts, reason, tenantId, workloadRef, ip, createdAt, lastActivity, claimedAt } = shown;
  const own = Object.entries(labels).filter(([key]) => ownLabels.has(key) || key.startsWith(CLAIM_LABEL_PREFIX));
  return {
    name,
    phase,
    ready,
    restarts,
    reason,
    tenantId,
    workloadRef,
    ip,
    labels: Object.fromEntries(own),
    createdAt,
    lastActivity,
    claimedAt,
  };
}

const ownLabels = new Set<string>(Object.values(label));
