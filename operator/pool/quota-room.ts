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
export function roomForPods(quotas: Iterable<ResourceQuota>, sample: Pod | undefined): number {
  let room = Number.POSITIVE_INFINITY;
  for (const quota of quotas) {
    if (quota.spec?.scopes !== undefined || quota.spec?.scopeSelector !== undefined) continue;
    for (const name of Object.keys(quota.status?.hard ?? {})) {
      const each = useOf(sample, name);
      if (each > 0) room = Math.min(room, Math.floor(roomOf(quota, name) / each));
    }
  }
  return Math.max(0, room);
}

/** What one pod uses of a quota's resource; 0 if that is not known. */
function useOf(pod: Pod | undefined, name: string): number {
  if (name === "pods" || name === "count/pods") return 1;
  const [, kind = "requests", resource = ""] = /^(?:(requests|limits)\.)?(.+)$/.exec(name) ?? [];
  let sum = 0;
  for (const { resources } of pod?.spec?.containers ?? []) {
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
