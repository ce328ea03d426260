import { isMap, isScalar, parseDocument } from "yaml";
import type { ConfigMap } from "../kubernetes.ts";
import { TENANT_OR_START } from "../names.ts";
import { quote } from "../quote.ts";

/** What a tenant may use. A limit that is absent does not hold. */
export interface TenantLimits {
  /** Claims that have an instance, or get one. */
  readonly activeClaims?: number | undefined;
  /** Of the instances of these claims together. */
  readonly vcpus?: number | undefined;
  readonly memoryMb?: number | undefined;
  /** Instances that the tenant gets in 60 seconds. */
  readonly startsPerMinute?: number | undefined;
  /** Through each replica of the edge: requests to the front door, and those of the tenant's keys to the API. */
  readonly requestsPerSecond?: number | undefined;
  /** Of the bodies of these requests and of their answers. */
  readonly bytesPerSecond?: number | undefined;
  /** MB of the tenant's saved files, with older versions. */
  readonly snapshotMb?: number | undefined;
  /** WebSockets that are attached to processes, on each replica of the edge. */
  readonly terminals?: number | undefined;
}

export interface TenantQuota {
  /** The class that the limits come from. */
  readonly className?: string | undefined;
  readonly limits: TenantLimits;
}

export interface TenantQuotas {
  of(tenantId: string): TenantQuota;
  /** Ids of tenants with an entry of their own; starts of ids are left out. @default none */
  readonly named?: readonly string[];
}

/** The ConfigMap of the quotas, in the namespace of the claims. */
export const QUOTAS_CONFIG_MAP = "tenancy-quotas";
const ENTRY = "quotas.yaml";

export const noQuotas: TenantQuotas = { of: () => ({ limits: {} }) };

const limitNames = [
  "activeClaims",
  "vcpus",
  "memoryMb",
  "startsPerMinute",
  "requestsPerSecond",
  "bytesPerSecond",
  "terminals",
  "snapshotMb",
] as const satisfies (keyof TenantLimits)[];
const CLASS = /^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/;

/** What is wrong, with its place. */
class Problem extends Error {
  constructor(place: string, problem: string) {
    super(`${[ENTRY, ...(place === "" ? [] : [place])].join(".")}: ${problem}`);
  }
}

/**
 * Reads the quotas of all tenants from their ConfigMap; without one there are no limits.
 *
 * Its entry `quotas.yaml` has `classes` (limits by name), `default` (the class of all other tenants) and `tenants` (by
 * id, or by the start of ids and a `*`: the name of a class, or limits that replace those of their `class`). An id
 * counts before a start, and a longer start before a shorter one.
 *
 * @returns the quotas, or what is wrong
 */
export function readQuotas(configMap: Pick<ConfigMap, "data"> | undefined): TenantQuotas | string {
  if (configMap === undefined) return noQuotas;
  const { [ENTRY]: text, ...others } = configMap.data ?? {};
  if (text === undefined || Object.keys(others).length > 0) return `its data must have one entry, ${ENTRY}`;
  try {
    return quotasIn(text);
  } catch (error) {
    if (error instanceof Problem) return error.message;
    throw error;
  }
}

function quotasIn(text: string): TenantQuotas {
  // Ids such as 0042 and 1e3 must stay texts. The library's check of unique keys takes minutes for a large text.
  const { contents, errors } = parseDocument(text, { schema: "failsafe", uniqueKeys: false, logLevel: "silent" });
  const [syntax] = errors;
  if (syntax !== undefined) throw new Problem("", `must be YAML: ${syntax.message.split("\n")[0]}`);
  const top = entriesOf(contents, "", ["classes", "default", "tenants"]);
  const classes = new Map<string, TenantLimits>();
  for (const [name, node] of entriesOf(top.get("classes"), "classes")) {
    if (!CLASS.test(name)) throw new Problem(`classes.${name}`, "must be the name of a class: letters, digits, - _ .");
    classes.set(name, limitsOf(entriesOf(node, `classes.${name}`, limitNames), `classes.${name}`));
  }
  const quotas = new Map<string, TenantQuota>();
  for (const [name, node] of entriesOf(top.get("tenants"), "tenants")) {
    const place = `tenants.${name}`;
    if (!TENANT_OR_START.test(name)) throw new Problem(place, "must be a tenant id, or the start of one and a *");
    if (isScalar(node)) quotas.set(name, ofClass(node, place));
    else {
      const { class: className, ...own } = Object.fromEntries(entriesOf(node, place, ["class", ...limitNames]));
      const { className: named, limits } = ofClass(className, `${place}.class`);
      quotas.set(name, { className: named, limits: { ...limits, ...limitsOf(new Map(Object.entries(own)), place) } });
    }
  }
  return quotasBy(quotas, ofClass(top.get("default"), "default"));

  function ofClass(node: unknown, place: string): TenantQuota {
    if (node === undefined) return { className: undefined, limits: {} };
    const className = textOf(node, place);
    const limits = classes.get(className);
    if (limits === undefined) throw new Problem(place, `class ${quote(className)} does not exist: add it to classes`);
    return { className, limits };
  }
}

/** The entries of a mapping, which may be left out. */
function entriesOf(node: unknown, place: string, known?: readonly string[]): Map<string, unknown> {
  const entries = new Map<string, unknown>();
  if (node === undefined || node === null || (isScalar(node) && node.source === "")) return entries;
  if (!isMap(node)) throw new Problem(place, "must be a mapping");
  for (const { key, value } of node.items) {
    const name = textOf(key, place);
    const at = place === "" ? name : `${place}.${name}`;
    if (known !== undefined && !known.includes(name))
      throw new Problem(at, `is unknown; known are ${known.join(", ")}`);
    if (entries.has(name)) throw new Problem(at, "is there twice");
    entries.set(name, value);
  }
  return entries;
}

function limitsOf(entries: ReadonlyMap<string, unknown>, place: string): TenantLimits {
  return Object.fromEntries(
    [...entries].map(([name, node]) => {
      const text = textOf(node, `${place}.${name}`);
      if (!/^\d{1,9}$/.test(text))
        throw new Problem(`${place}.${name}`, `must be a whole number from 0 to 999999999, not ${quote(text)}`);
      return [name, Number(text)];
    }),
  );
}

function textOf(node: unknown, place: string): string {
  if (isScalar(node) && typeof node.value === "string") return node.value;
  throw new Problem(place, "must be a word or a number");
}

function quotasBy(quotas: ReadonlyMap<string, TenantQuota>, others: TenantQuota): TenantQuotas {
  const lengths = [...new Set([...quotas.keys()].filter((name) => name.endsWith("*")).map((name) => name.length - 1))];
  lengths.sort((a, b) => b - a);
  return {
    named: [...quotas.keys()].filter((name) => !name.endsWith("*")),
    of(tenantId) {
      const own = quotas.get(tenantId);
      if (own !== undefined) return own;
      for (const length of lengths) {
        const started = quotas.get(`${tenantId.slice(0, length)}*`);
        if (started !== undefined && tenantId.length >= length) return started;
      }
      return others;
    },
  };
}
