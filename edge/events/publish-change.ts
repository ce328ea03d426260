import type { Claim } from "../../crds/claim.ts";
import { claimResponse } from "../../crds/claim-response.ts";
import type { Change } from "../../crds/client/informer.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { instanceResponse } from "../instances/instance-response.ts";
import type { EventHub } from "./event-hub.ts";
import type { EventType } from "./event-type.ts";

/** Publishes a pod's change, where its record shows it. */
export function publishPod({ type, object, previous }: Change<Pod>, hub: Pick<EventHub, "publish">): void {
  const record = instanceResponse(object);
  if (type === "modified" && previous !== undefined && isSame(record, instanceResponse(previous))) return;
  hub.publish({ type: `instance.${type}`, tenant: record.tenantId, workload: record.workloadRef, object: record });
}

/** Publishes a claim's change, where its response object shows it. */
export function publishClaim({ type, object, previous }: Change<Claim>, hub: Pick<EventHub, "publish">): void {
  const response = claimResponse(object);
  if (type === "modified" && previous !== undefined && isSame(response, claimResponse(previous))) return;
  const word = type === "deleted" ? "deleted" : (response.phase.toLowerCase() as Lowercase<typeof response.phase>);
  const eventType: EventType = `claim.${word}`;
  hub.publish({ type: eventType, tenant: response.tenantId, workload: response.workloadRef, object: response });
}

function isSame(a: object, b: object): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
