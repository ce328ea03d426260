import type { AuditEvent } from "./audit-event.ts";

/** Requests of one kind that one of our programs made. */
export interface RequestCount {
  /** `operator` or `edge`. */
  readonly client: string;
  readonly verb: string;
  /** With its subresource, as in `tenancyclaims/status`. */
  readonly resource: string;
  /** Whether it filled a pool up, so that it is no claim's. */
  readonly refill: boolean;
  readonly count: number;
}

// A leader's heartbeat and a watch are there whether anybody claims or not.
const NEVER_A_CLAIMS = new Set(["leases"]);

/**
 * Counts what an audit log says that operator and edge asked of the API server.
 *
 * What concerns a pod that no claim was given, and a pool's own status, is counted as refill: the caller begins to count when the
 * pool is full, so whatever is written of a pod that was given out, was written to give it out.
 *
 * @param log lines of JSON, one an event
 * @param given names of the pods that the counted claims were given
 */
export function countRequests(log: string, given: ReadonlySet<string>): RequestCount[] {
  const counts = new Map<string, RequestCount>();
  for (const line of log.split("\n")) {
    if (line === "") continue;
    const { stage, verb, userAgent, objectRef } = JSON.parse(line) as AuditEvent;
    const client = /^tenancy-(operator|edge)\//.exec(userAgent ?? "")?.[1];
    if (stage !== "ResponseComplete" || client === undefined || objectRef === undefined) continue;
    if (verb === "watch" || NEVER_A_CLAIMS.has(objectRef.resource)) continue;
    const { subresource, name } = objectRef;
    const resource = subresource === undefined ? objectRef.resource : `${objectRef.resource}/${subresource}`;
    const isOtherPod = objectRef.resource === "pods" && name !== undefined && !given.has(name);
    const refill = isOtherPod || objectRef.resource === "tenancypools";
    const key = JSON.stringify([client, verb, resource, refill]);
    counts.set(key, { client, verb, resource, refill, count: (counts.get(key)?.count ?? 0) + 1 });
  }
  return [...counts.values()].sort((a, b) => Number(a.refill) - Number(b.refill) || b.count - a.count);
}
