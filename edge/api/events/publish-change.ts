import type { Claim } from "../../../crds/claim.ts";
import { claimResponse } from "../../../crds/claims/claim-response.ts";
import type { Change } from "../../../crds/client/watch/informer.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { label } from "../../../crds/labels.ts";
import { instanceResponse } from "../instances/instance.ts";
import type { EventHub } from "./event-hub.ts";
import type { EventType } from "./event-ring.ts";

/** Publishes a pod's change, where its record shows it. */
export function publishPod({ type, object, previous }: Change<Pod>, hub: Pick<EventHub, "publish">): void {
  const record = openInstance(object);
  if (type === "modified" && previous !== undefined && isSame(record, openInstance(previous))) return;
  hub.publish({ type: `instance.${type}`, tenant: record.tenantId, workload: record.workloadRef, object: record });
}

/** Publishes a claim's change, where its response object shows it. */
export function publishClaim({ type, object, previous }: Change<Claim>, hub: Pick<EventHub, "publish">): void {
  const response = openClaim(object);
  if (type === "modified" && previous !== undefined && isSame(response, openClaim(previous))) return;
  const word = type === "deleted" ? "deleted" : (response.phase.toLowerCase() as Lowercase<typeof response.phase>);
  const eventType: EventType = `claim.${word}`;
  hub.publish({ type: eventType, tenant: response.tenantId, workload: response.workloadRef, object: response });
}

/**
 * A claim's response object, of parts that anybody may see, since `/ws` asks for no key: a message may hold what the
 * tenant's program printed last. A new field of the response is not published until it is named here.
 */
function openClaim(claim: Claim) {
  const { tenantId, phase, instanceId, endpoint, source, claimedAt, workloadRef, reason } = claimResponse(claim);
  return { tenantId, phase, instanceId, endpoint, source, claimedAt, workloadRef, reason };
}

/** A pod's instance record with the labels that are the service's own; others put there what they like. */
function openInstance(pod: Pod) {
  const { name, phase, tenantId, workloadRef, ip, labels, createdAt, lastActivity, claimedAt } = instanceResponse(pod);
  const own = Object.entries(labels).filter(([key]) => ownLabels.has(key));
  return {
    name,
    phase,
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

function isSame(a: object, b: object): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
