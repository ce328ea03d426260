import * as v from "valibot";
import { parseForeignJson } from "../../crds/foreign-json.ts";
import type { Secret } from "../../crds/kubernetes.ts";
import { TENANT_OR_START, WORKLOAD_OR_START } from "../../crds/names.ts";
import { KEY_SECRET_TYPE, USE_LABEL } from "../../crds/secret-refusal.ts";
import { isTime } from "../../crds/time.ts";
import { type Role, roles } from "./actor.ts";
import { keyIdPattern } from "./key-text.ts";

/** A key without its text. */
export interface KeyRecord {
  readonly id: string;
  /** For people. */
  readonly name: string;
  readonly role: Role;
  /** Ids of tenants, or the start of ids before a `*`. */
  readonly tenants?: readonly string[];
  /** Names of workloads, or the start of names before a `*`. */
  readonly workloads?: readonly string[];
  /** On each replica. */
  readonly requestsPerSecond?: number;
  /** RFC 3339. */
  readonly createdAt: string;
  readonly expiresAt?: string;
  /** The digest of {@link ParsedKey}, in hexadecimal digits. A Buffer would pin the pool that it is cut from. */
  readonly sha256: string;
}

export const KEY_LABEL_SELECTOR = `${USE_LABEL}=key`;
const NAME_PREFIX = "key-";
/** The only entry of the Secret. */
const ENTRY = "key.json";
/** Ten times the largest record. */
const MAX_BYTES = 65_536;

const NAME = "^[^\\x00-\\x1f\\x7f-\\x9f]{1,63}$";
const NAME_RULE = "must be 1 to 63 characters on one line";
const TENANT_RULE = "must be a tenant id, or the start of one and a *";
const WORKLOAD_RULE = "must be the name of a workload, or the start of one and a *";
const MOST_REQUESTS = 1_000_000;
const COUNT_RULE = "must have 1 to 100 entries";

function namesOrStarts({ pattern, rule }: { pattern: RegExp; rule: string }, description: string) {
  return v.pipe(
    v.array(v.pipe(v.string(), v.regex(pattern, rule))),
    v.minLength(1, COUNT_RULE),
    v.maxLength(100, COUNT_RULE),
    v.description(description),
  );
}

/** What the caller of the API and the author of a Secret write alike. Messages never repeat a value. */
export const keyEntries = {
  name: v.pipe(
    v.string(),
    // Code points, as JSON Schema counts them.
    v.regex(new RegExp(NAME, "u"), NAME_RULE),
    v.description("What it is for; shown in the list of keys."),
  ),
  role: v.pipe(
    v.picklist(roles, `must be one of ${roles.join(", ")}`),
    v.description(
      "`admin`: everything. `platform`: all tenants, but no keys and no debug dump. `tenant`: its own tenants. `reader`: sees the service, but no files, logs, processes or messages.",
    ),
  ),
  tenants: v.optional(
    namesOrStarts(
      { pattern: TENANT_OR_START, rule: TENANT_RULE },
      "Ids of tenants, or the start of ids and a `*`; required for the role `tenant`, possible for `reader`.",
    ),
  ),
  workloads: v.optional(
    namesOrStarts(
      { pattern: WORKLOAD_OR_START, rule: WORKLOAD_RULE },
      "Names of workloads, or the start of names and a `*`: it reaches only what is of these. Possible for the roles `tenant` and `reader`.",
    ),
  ),
  requestsPerSecond: v.optional(
    v.pipe(
      v.number(),
      v.integer("must be a whole number"),
      v.minValue(1, "must be at least 1"),
      v.maxValue(MOST_REQUESTS, `must be at most ${MOST_REQUESTS}`),
      v.description("How many requests a second it may make of each replica; by default any number."),
    ),
  ),
};

type Limits = Pick<KeyRecord, "tenants" | "workloads" | "requestsPerSecond">;

/** What limits a key, without what is not given. */
export function limitsOf({
  tenants,
  workloads,
  requestsPerSecond,
}: { readonly [Name in keyof Limits]: Limits[Name] | undefined }): Limits {
  return {
    ...(tenants && { tenants }),
    ...(workloads && { workloads }),
    ...(requestsPerSecond !== undefined && { requestsPerSecond }),
  };
}

/** Why the tenants or workloads do not fit the role; undefined if they do. */
export function reachProblem({
  role,
  tenants,
  workloads,
}: Pick<KeyRecord, "role" | "tenants" | "workloads">): string | undefined {
  if (role === "tenant" && tenants === undefined) return "tenants: required for the role tenant";
  if ((role === "admin" || role === "platform") && tenants !== undefined)
    return `tenants: not allowed for the role ${role}, which reaches all tenants`;
  if ((role === "admin" || role === "platform") && workloads !== undefined)
    return `workloads: not allowed for the role ${role}, which reaches all workloads`;
  return undefined;
}

const schema = v.strictObject({
  sha256: v.pipe(v.string(), v.regex(/^[0-9a-f]{64}$/, "must be 64 hexadecimal digits in lower case")),
  ...keyEntries,
  expiresAt: v.optional(v.pipe(v.string(), v.check(isTime, "must be a time (RFC 3339)"))),
});

export function keySecretName(id: string): string {
  return NAME_PREFIX + id;
}

/** The Secret of a new key. */
export function secretOfKey({ id, createdAt: _, ...record }: KeyRecord, { namespace }: { namespace: string }): Secret {
  return {
    metadata: { name: keySecretName(id), namespace, labels: { [USE_LABEL]: "key" } },
    type: KEY_SECRET_TYPE,
    data: { [ENTRY]: Buffer.from(JSON.stringify(record)).toString("base64") },
  };
}

/** The key of a Secret, or why it gives none: a sentence without its content. */
export function readKeySecret({ metadata, type, data = {} }: Secret): KeyRecord | string {
  const id = metadata.name.slice(NAME_PREFIX.length);
  if (!metadata.name.startsWith(NAME_PREFIX) || !new RegExp(keyIdPattern).test(id))
    return `its name must be ${NAME_PREFIX} and 16 of a-z and 0-9`;
  if (metadata.labels?.[USE_LABEL] !== "key") return `it must have the label ${KEY_LABEL_SELECTOR}`;
  if (type !== KEY_SECRET_TYPE) return `its type must be ${KEY_SECRET_TYPE}`;
  if (metadata.deletionTimestamp !== undefined) return "it is being deleted";
  const encoded = Object.hasOwn(data, ENTRY) ? data[ENTRY] : undefined;
  if (encoded === undefined || Object.keys(data).length !== 1) return `its data must have one entry, ${ENTRY}`;
  const bytes = Buffer.from(encoded, "base64");
  if (bytes.length > MAX_BYTES) return `${ENTRY}: must have at most ${MAX_BYTES} bytes`;
  let content: unknown;
  try {
    content = parseForeignJson(bytes.toString("utf8"));
  } catch {
    return `${ENTRY}: must be JSON`;
  }
  const checked = v.safeParse(schema, content);
  if (!checked.success) return [...new Set(checked.issues.map(problemOf))].join("; ");
  const { tenants, workloads, requestsPerSecond, expiresAt, ...rest } = checked.output;
  const limits = limitsOf({ tenants, workloads, requestsPerSecond });
  const problem = reachProblem({ ...rest, ...limits });
  if (problem !== undefined) return `${ENTRY}: ${problem}`;
  return {
    id,
    ...rest,
    ...limits,
    ...(expiresAt !== undefined && { expiresAt }),
    createdAt: metadata.creationTimestamp ?? "",
  };
}

/** The messages of valibot's own types repeat values, and an unknown field may be one. */
function problemOf({ kind, type, expected, message, path }: v.InferIssue<typeof schema>): string {
  if (expected === "never") return `${ENTRY}: has an unknown field`;
  const place = [ENTRY, ...(path ?? []).map(({ key }) => String(key))].join(".");
  return `${place}: ${kind === "schema" && type !== "picklist" ? `must be ${expected}` : message}`;
}
