import type { Change } from "../../crds/client/watch/informer.ts";
import type { Pod, ResourceQuota } from "../../crds/kubernetes.ts";

/**
 * Whether a change of a ResourceQuota leaves more room for something than before. Reads its status, as admission does.
 *
 * https://kubernetes.io/docs/concepts/policy/resource-quotas/
 */
export function hasMoreRoom({ type, object, previous }: Change<ResourceQuota>): boolean {
  if (type === "deleted") return true;
  return Object.keys(previous?.status?.hard ?? {}).some((name) => roomOf(object, name) > roomOf(previous, name));
}

/**
 * How many more pods the quotas allow; infinite without a limit. Without a pod as a sample, only the number of pods
 * counts. A quota of some pods only is left out: the API server then refuses what it does not allow.
 */
export function roomForPods(quotas: Iterable<ResourceQuota>, sample: PodNeeds | undefined): number {
  let room = Number.POSITIVE_INFINITY;
  for (const { resource, left } of limitsOf(quotas)) {
    const each = useOf(sample, resource);
    if (each > 0) room = Math.min(room, Math.floor(left / each));
  }
  return Math.max(0, room);
}

/** What quotas count of a pod. */
export type PodNeeds = Pick<Pod, "spec">;

/** Counts what the quotas of all pods leave, while a plan gives it to pods. It knows what admission knew last. */
export interface RoomLedger {
  /** The resources, by their names in quotas, of which a pod uses more than is left. */
  lacks(pod: PodNeeds): string[];
  take(pod: PodNeeds): void;
  give(pod: PodNeeds): void;
}

export function createRoomLedger(quotas: Iterable<ResourceQuota>): RoomLedger {
  const limits = [...limitsOf(quotas)];
  const change = (pod: PodNeeds, sign: 1 | -1): void => {
    for (const limit of limits) limit.left += sign * useOf(pod, limit.resource);
  };
  return {
    lacks: (pod) =>
      limits.flatMap(({ resource, left }) => {
        const use = useOf(pod, resource);
        return use > 0 && use > left ? [resource] : [];
      }),
    take: (pod) => change(pod, -1),
    give: (pod) => change(pod, 1),
  };
}

/** What each quota of all pods leaves of each resource that it limits. */
function* limitsOf(quotas: Iterable<ResourceQuota>): Iterable<{ readonly resource: string; left: number }> {
  for (const quota of quotas) {
    if (quota.spec?.scopes !== undefined || quota.spec?.scopeSelector !== undefined) continue;
    for (const resource of Object.keys(quota.status?.hard ?? {})) yield { resource, left: roomOf(quota, resource) };
  }
}

/** A plan asks many times about each pod, which never changes. */
const uses = new WeakMap<PodNeeds, Map<string, number>>();

/** What one pod uses of a quota's resource; 0 if that is not known. */
export function useOf(pod: PodNeeds | undefined, name: string): number {
  if (name === "pods" || name === "count/pods") return 1;
  if (pod === undefined) return 0;
  const known = uses.get(pod) ?? new Map<string, number>();
  const use = known.get(name) ?? sumOf(pod, name);
  uses.set(pod, known.set(name, use));
  return use;
}

function sumOf(pod: PodNeeds, name: string): number {
  const [, kind = "requests", resource = ""] = /^(?:(requests|limits)\.)?(.+)$/.exec(name) ?? [];
  let sum = 0;
  for (const { resources } of pod.spec?.containers ?? []) {
    const amount = resources?.[kind as "requests" | "limits"]?.[resource];
    if (amount !== undefined) sum += amountOf(amount);
  }
  return sum;
}

function roomOf(quota: ResourceQuota | undefined, name: string): number {
  const { hard, used } = quota?.status ?? {};
  const limit = hard?.[name];
  return limit === undefined ? Number.POSITIVE_INFINITY : amountOf(limit) - amountOf(used?.[name] ?? "0");
}

const DECIMAL = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/**
 * The value of a quantity; NaN if the text is none.
 * https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
 */
export function amountOf(quantity: string): number {
  const [, digits = "", unit = ""] = /^([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([a-zA-Z]*)$/.exec(quantity) ?? [];
  const [decimal, binary] = [DECIMAL.indexOf(unit), BINARY.indexOf(unit)];
  if (digits === "" || Math.max(decimal, binary) < 0) return Number.NaN;
  return Number(digits) * (decimal >= 0 ? 1000 ** (decimal - DECIMAL.indexOf("")) : 1024 ** binary);
}
