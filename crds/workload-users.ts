import type { Claim } from "./claim.ts";
import type { Pod } from "./kubernetes.ts";
import { label } from "./labels.ts";
import type { Pool } from "./pool.ts";

/** Names of the objects that use a workload. */
export interface WorkloadUsers {
  claims: string[];
  pools: string[];
  pods: string[];
}

const MOST_NAMED = 3;

/** The given objects that use a workload; a refused claim does not. */
export function workloadUsers(
  workload: string,
  objects: { claims: Iterable<Claim>; pools: Iterable<Pool>; pods: Iterable<Pod> },
): WorkloadUsers {
  const users: WorkloadUsers = { claims: [], pools: [], pods: [] };
  for (const { metadata, spec, status } of objects.claims)
    if (spec.workloadRef === workload && status?.phase !== "Error") users.claims.push(metadata.name);
  for (const { metadata, spec } of objects.pools) if (spec.workloadRef === workload) users.pools.push(metadata.name);
  for (const { metadata } of objects.pods)
    if (metadata.labels?.[label.workload] === workload) users.pods.push(metadata.name);
  return users;
}

/**
 * Names the users of a deleted workload, and says what to do; undefined if there are none. Pods are deleted with their
 * claims and pools.
 */
export function describeUsers({ claims, pools, pods }: WorkloadUsers): string | undefined {
  if (claims.length + pools.length === 0)
    return pods.length === 0 ? undefined : `the workload is deleted when ${listed("pod", pods)} have ended`;
  const held = [listed("claim", claims), listed("pool", pools)].filter((part) => part !== "");
  return `the workload is deleted when nothing uses it; in use by ${held.join(" and ")}: release its claims and delete its pools`;
}

function listed(kind: string, names: readonly string[]): string {
  if (names.length === 0) return "";
  const more = names.length > MOST_NAMED ? ` and ${names.length - MOST_NAMED} more` : "";
  return `${kind}${names.length > 1 ? "s" : ""} ${names.slice(0, MOST_NAMED).join(", ")}${more}`;
}
