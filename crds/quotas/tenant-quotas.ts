import * as v from "valibot";
import { parse } from "yaml";
import type { ConfigMap } from "../kubernetes.ts";

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
}

/** The ConfigMap of the quotas, in the namespace of the claims. */
export const QUOTAS_CONFIG_MAP = "tenancy-quotas";
const ENTRY = "quotas.yaml";

export const noQuotas: TenantQuotas = { of: () => ({ limits: {} }) };

const MOST = 1_000_000_000;
const count = v.optional(
  v.pipe(
    v.number(),
    v.integer("must be a whole number"),
    v.minValue(0, "must be at least 0"),
    v.maxValue(MOST, `must be at most ${MOST}`),
  ),
);
const limitEntries = {
  activeClaims: count,
  vcpus: count,
  memoryMb: count,
  startsPerMinute: count,
  requestsPerSecond: count,
  bytesPerSecond: count,
  terminals: count,
  snapshotMb: count,
};
const className = v.pipe(
  v.string(),
  v.regex(/^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/, "must be the name of a class: letters, digits, - _ ."),
);
const tenantOrStart = v.pipe(
  v.string(),
  v.regex(
    /^[A-Za-z0-9](([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?|[-A-Za-z0-9_.]{0,62}\*)$/,
    "must be a tenant id, or the start of one and a *",
  ),
);
const schema = v.strictObject({
  classes: v.optional(v.record(className, v.strictObject(limitEntries)), {}),
  default: v.optional(className),
  tenants: v.optional(
    v.record(tenantOrStart, v.union([className, v.strictObject({ class: v.optional(className), ...limitEntries })])),
    {},
  ),
});

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
  let content: unknown;
  try {
    // Aliases could make a large object out of a small text.
    content = parse(text, { maxAliasCount: 0 });
  } catch (error) {
    return `${ENTRY}: must be YAML: ${String(error instanceof Error ? error.message : error).split("\n")[0]}`;
  }
  if (Array.isArray(content)) return `${ENTRY}: must be a mapping`;
  const checked = v.safeParse(schema, content ?? {});
  if (!checked.success) return [...new Set(checked.issues.map(problemOf))].join("; ");
  const { classes, default: ofOthers, tenants } = checked.output;
  const named = [ofOthers, ...Object.values(tenants).map((one) => (typeof one === "string" ? one : one.class))];
  const missing = named.find((name) => name !== undefined && !Object.hasOwn(classes, name));
  if (missing !== undefined) return `${ENTRY}: class ${missing} does not exist: add it to classes`;
  return quotasOf({ classes, ofOthers, tenants });
}

type Given = v.InferOutput<typeof schema>;

function quotasOf({
  classes,
  ofOthers,
  tenants,
}: Omit<Given, "default"> & { ofOthers: string | undefined }): TenantQuotas {
  const quotas = new Map(
    Object.entries(tenants).map(([name, given]) => {
      const { class: className, ...limits } = typeof given === "string" ? { class: given } : given;
      return [name, ofClass(className, limits)];
    }),
  );
  const lengths = [...new Set([...quotas.keys()].filter((name) => name.endsWith("*")).map((name) => name.length - 1))];
  lengths.sort((a, b) => b - a);
  const others = ofClass(ofOthers, {});

  function ofClass(className: string | undefined, limits: TenantLimits): TenantQuota {
    return { className, limits: { ...(className !== undefined && classes[className]), ...limits } };
  }

  return {
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

function problemOf({ kind, type, expected, message, path }: v.InferIssue<typeof schema>): string {
  const place = [ENTRY, ...(path ?? []).map(({ key }) => String(key))].join(".");
  if (expected === "never") return `${place}: is unknown`;
  if (type === "union") return `${place}: must be the name of a class, or limits`;
  return `${place}: ${kind === "schema" ? `must be a ${expected === "Object" ? "mapping" : expected}` : message}`;
}
