import { createHash } from "node:crypto";
import { pattern } from "./schema/patterns.ts";

const TENANT_ID = new RegExp(pattern.tenantId);
const SUBDOMAIN = new RegExp(pattern.subdomain);

/** Whether the value can be a tenant id: a non-empty legal label value. */
export function isTenantId(value: unknown): value is string {
  return typeof value === "string" && value.length <= 63 && TENANT_ID.test(value);
}

/** A tenant id, or the start of one and a `*`. */
export const TENANT_OR_START = /^[A-Za-z0-9](([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?|[-A-Za-z0-9_.]{0,62}\*)$/;

/** The name of a workload, or the start of one and a `*`. */
export const WORKLOAD_OR_START = /^[a-z0-9](([-a-z0-9.]{0,61}[a-z0-9])?|[-a-z0-9.]{0,62}\*)$/;

/** Whether the value can name a workload, pool, claim or trigger: a DNS-1123 subdomain of at most 63 characters. */
export function isObjectName(value: unknown): value is string {
  return typeof value === "string" && value.length <= MAX_NAME_LENGTH && SUBDOMAIN.test(value);
}

/**
 * The name of a tenant's claim on a workload: `claim-<tenantId>-<workloadRef>` if that is valid.
 *
 * Two claim keys can share it (`claim-a-b-c`). So compare the `spec.tenantId` and `spec.workloadRef` of a claim found
 * by this name, and use {@link hashedClaimName} if they differ.
 */
export function claimName(claim: { tenantId: string; workloadRef: string }): string {
  return objectName({ prefix: "claim", parts: [claim.tenantId, claim.workloadRef], form: "subdomain" });
}

/** The name of a claim whose {@link claimName} belongs to another claim key; never equal to any key's readable name. */
export function hashedClaimName(claim: { tenantId: string; workloadRef: string }): string {
  return objectName({ prefix: "claim", parts: [claim.tenantId, claim.workloadRef], hashed: true });
}

/**
 * The name of a claim if a finished claim of the same key still has the {@link hashedClaimName}. It is derived from
 * that claim's uid, so that concurrent calls choose the same name.
 */
export function nextClaimName(claim: { tenantId: string; workloadRef: string }, heldBy: string): string {
  return objectName({ prefix: "claim", parts: [claim.tenantId, claim.workloadRef, heldBy], hashed: true });
}

/** The prefix of the names of pods that are created for a pool, and of no other pod. */
const POOL_PREFIX = "inst-pool";

/**
 * The name of a pod that is created for a tenant: `inst-<tenantId>-<workload>-<suffix>`. If that looks like a pod of a
 * pool, for example with the tenant `pool`, it is `inst-tenant-<tenantId>-<workload>-<suffix>`.
 */
export function instanceName(pod: { tenantId: string; workload: string; suffix: string }): string {
  const named = { parts: [pod.tenantId, pod.workload], suffix: pod.suffix };
  const name = objectName({ prefix: "inst", ...named });
  return name.startsWith(`${POOL_PREFIX}-`) ? objectName({ prefix: "inst-tenant", ...named }) : name;
}

/** The name of a pod that is created for a pool, which stays when it is claimed: `inst-pool-<workload>-<suffix>`. */
export function poolInstanceName(pod: { workload: string; suffix: string }): string {
  return objectName({ prefix: POOL_PREFIX, parts: [pod.workload], suffix: pod.suffix });
}

/** The name of a claim's Service: the claim's name if that is valid for a Service, which needs a DNS-1035 label. */
export function serviceName(claim: string): string {
  const isFree = isObjectName(claim) && /^[a-z][^.]*$/.test(claim) && !/--[0-9a-f]{24}$/.test(claim);
  return isFree ? claim : objectName({ prefix: "claim", parts: [claim], hashed: true, unique: true });
}

/** The name of a workload's network policy: `workload-<workload>`. */
export function policyName(workload: string): string {
  return objectName({ prefix: "workload", parts: [workload], unique: true });
}

/** The name that {@link policyName} returned when its hashes were shorter; the same for most workloads. */
export function formerPolicyName(workload: string): string {
  return objectName({ prefix: "workload", parts: [workload] });
}

// Kubernetes' alphabet for generated names: no vowels, so no words, and no characters that look alike.
const ALPHABET = "bcdfghjklmnpqrstvwxz2456789";
const LENGTH = 6;

/**
 * Six characters that are derived from the seeds, for a name that must be the same after a restart.
 *
 * @param seeds such as a claim's uid and the revision of its pod
 */
export function nameSuffix(...seeds: readonly (string | number)[]): string {
  const digest = createHash("sha256").update(JSON.stringify(seeds)).digest();
  let suffix = "";
  for (let index = 0; index < LENGTH; index++) suffix += ALPHABET[digest.readUInt16BE(index * 2) % ALPHABET.length];
  return suffix;
}

/** The longest name that we derive or accept: names also serve as label values and host names. */
const MAX_NAME_LENGTH = 63;

// For names that are only a first guess: compare the found object's own fields.
const HASH_LENGTH = 8;
// For names that alone distinguish two objects.
const UNIQUE_HASH_LENGTH = 24;
const LABEL = new RegExp(pattern.label);
const SUFFIX = /^[a-z0-9]{1,16}$/;
const LOOKS_HASHED = new RegExp(`--([0-9a-f]{${HASH_LENGTH}}|[0-9a-f]{${UNIQUE_HASH_LENGTH}})$`);

/** The parts of a derived name. */
interface ObjectNameParts {
  /** The kind of object, such as `claim`; it comes first. */
  prefix: string;
  /** The owners of the object, such as a tenant id and a workload; any strings. */
  parts: readonly string[];
  /** Lower-case letters and digits that come last and are never shortened, at most 16. */
  suffix?: string;
  /** The DNS-1123 form: `label` for a name that becomes a host name, `subdomain` to keep dots. @default "label" */
  form?: "label" | "subdomain";
  /** Use the hashed form even if the readable one is valid. @default false */
  hashed?: boolean;
  /**
   * Whether the name alone has to distinguish the object from others of its kind. That needs a longer hash, only one
   * part, and a prefix that, with its `-`, does not begin another prefix of that kind. @default false
   */
  unique?: boolean;
}

/**
 * Derives a valid DNS-1123 name of at most 63 characters.
 *
 * The readable form is `<prefix>-<parts joined by ->-<suffix>`. If that is not valid, the hashed form is
 * `<prefix>-<slug>--<8 or 24 hex digits of SHA-256 over the parts>-<suffix>`. A readable name that looks hashed is
 * hashed too, so no readable name ever equals a hashed one.
 *
 * @throws {TypeError} if the suffix is not valid.
 */
export function objectName(options: ObjectNameParts): string {
  const { prefix, parts, suffix, form = "label", hashed = false, unique = false } = options;
  if (suffix !== undefined && !SUFFIX.test(suffix)) {
    throw new TypeError(`Cannot derive a name: suffix ${JSON.stringify(suffix)} is not 1 to 16 of a-z, 0-9`);
  }
  const ending = suffix === undefined ? "" : `-${suffix}`;
  const readable = [prefix, ...parts].join("-");
  return !hashed && isReadable({ readable, ending, parts, form })
    ? readable + ending
    : hashedName({ prefix, parts, ending, digits: unique ? UNIQUE_HASH_LENGTH : HASH_LENGTH });
}

function isReadable(name: { readable: string; ending: string; parts: readonly string[]; form: "label" | "subdomain" }) {
  const legal = name.form === "label" ? LABEL : SUBDOMAIN;
  return (
    name.readable.length + name.ending.length <= MAX_NAME_LENGTH &&
    legal.test(name.readable) &&
    name.parts.every((part) => legal.test(part)) &&
    !LOOKS_HASHED.test(name.readable)
  );
}

function hashedName(name: { prefix: string; parts: readonly string[]; ending: string; digits: number }): string {
  // JSON separates the parts, so ("a-b", "c") and ("a", "b-c") differ.
  const hash = createHash("sha256").update(JSON.stringify(name.parts)).digest("hex").slice(0, name.digits);
  const room = MAX_NAME_LENGTH - `${name.prefix}---${hash}${name.ending}`.length;
  const slug = name.parts
    .join("-")
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, "-")
    .replace(/^-/, "")
    .slice(0, room)
    .replace(/-$/, "");
  return slug === "" ? `${name.prefix}--${hash}${name.ending}` : `${name.prefix}-${slug}--${hash}${name.ending}`;
}

/** The name of a build's Job, derived from its key, so that two operators that begin it create only one. */
export function buildJobName(workload: string, key: string): string {
  return objectName({ prefix: "build", parts: [workload], suffix: key.slice(0, 16), unique: true });
}

/** The name of the Secret with what a claim call brings; `id` is random. */
export function claimSecretName(id: string): string {
  return `claim-${id}`;
}
