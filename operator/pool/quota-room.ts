import type { Change } from "../../crds/client/watch/informer.ts";
import type { ResourceQuota } from "../../crds/kubernetes.ts";

/**
 * Whether a change of a ResourceQuota leaves more room for something than before. Reads its status, as admission does.
 *
 * https://kubernetes.io/docs/concepts/policy/resource-quotas/
 */
export function hasMoreRoom({ type, object, previous }: Change<ResourceQuota>): boolean {
  if (type === "deleted") return true;
  return Object.keys(previous?.status?.hard ?? {}).some((name) => roomOf(object, name) > roomOf(previous, name));
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
