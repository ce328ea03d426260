import type { KubernetesObject, Secret } from "./kubernetes.ts";
import { API_GROUP, label } from "./labels.ts";
import { NAMES_SECRET, SNAPSHOTS_NAME } from "./snapshots/store-folder.ts";

/** The use of a Secret: what a workload's program reads or sends, a trigger's signatures, or a claim's inputs. */
export type SecretUse = "workload" | "trigger" | "claim";

/**
 * TENANCY_SECRETS: whether any Secret of the namespace can be named, or only those with the label `tenancy.dev/use`.
 */
export const secretPolicies = ["any", "labelled"] as const;
export type SecretPolicy = (typeof secretPolicies)[number];

/** On a Secret: the allowed use, `workload`, `trigger`, `claim`, or several joined by dots. */
export const USE_LABEL = `${API_GROUP}/use`;
/** Contains the key of the REST API, as named by `manifests/base`. */
const API_KEY_SECRET = "tenancy-api-key";
/** Contains the keys that sign links of the front door. */
export const LINK_KEYS_SECRET = "tenancy-proxy-keys";
/**
 * Contains the credentials of the bucket with the tenants' files, as named by `manifests/components/object-storage`.
 */
const OBJECT_STORAGE_SECRET = "tenancy-object-storage";
/** The same for processes that may only list the tenants with files. */
const OBJECT_STORAGE_NAMES_SECRET = "tenancy-object-storage-names";
/** Signs and authorizes the events to a sink, as named by `manifests/components/sink`. */
const SINK_SECRET = "tenancy-sink";
/** Only basic-auth is a user's own type; the others are credentials of the cluster, of servers and of releases. */
const BUILT_IN_TYPE = /^(?:[^/]+\.)?(?:kubernetes\.io|helm\.sh)\//;
const BASIC_AUTH = "kubernetes.io/basic-auth";
/** Of a Secret with what a claim call brought (manifests/components/admission/secrets.yaml). */
export const CLAIM_SECRET_TYPE = "tenancy.dev/claim";
/** Of a Secret that makes a key of the REST API (manifests/keys). */
export const KEY_SECRET_TYPE = "tenancy.dev/key";

/**
 * Why a workload, a trigger or a claim cannot use a Secret, even if its author may. They give its value to an address or
 * a program of their own choice, so it must not be a Secret of the service or the cluster.
 *
 * @param options.secret undefined if it does not exist; then only the name is checked
 * @returns a sentence that says what to do; undefined if it may be used
 */
export function secretRefusal(options: {
  name: string;
  secret: Pick<Secret, "metadata" | "type"> | undefined;
  use: SecretUse;
  policy: SecretPolicy;
  /** Whether it belongs to the claim that names it. @default false */
  isOwn?: boolean;
}): string | undefined {
  const { name, secret, use, policy, isOwn = false } = options;
  const instead = "name a Secret that contains only this value";
  if (name === API_KEY_SECRET) return `Secret ${name} contains the key of the API: ${instead}`;
  if (name === LINK_KEYS_SECRET) return `Secret ${name} contains the keys of links: ${instead}`;
  if (name === SNAPSHOTS_NAME || name === OBJECT_STORAGE_SECRET)
    return `Secret ${name} gives access to the tenants' files: ${instead}`;
  if (name === NAMES_SECRET || name === OBJECT_STORAGE_NAMES_SECRET)
    return `Secret ${name} reveals which tenants have saved files: ${instead}`;
  if (name === SINK_SECRET) return `Secret ${name} signs the events of the service: ${instead}`;
  if (secret === undefined) return undefined;
  const { labels = {} } = secret.metadata;
  if (labels[label.managed] === "true")
    return `Secret ${name} belongs to the service (${label.managed}=true): ${instead}`;
  const { type = "Opaque" } = secret;
  if (BUILT_IN_TYPE.test(type) && type !== BASIC_AUTH) return `Secret ${name} is of type ${type}: ${instead}`;
  if (type === KEY_SECRET_TYPE) return `Secret ${name} is a key of the API (type ${type}): ${instead}`;
  if (type === CLAIM_SECRET_TYPE && !isOwn) return `Secret ${name} belongs to a claim: ${instead}`;
  if (isMeantFor(use, labels) || (labels[USE_LABEL] === undefined && policy === "any")) return undefined;
  return `Secret ${name} is not labelled ${USE_LABEL}=${use}: label it, or name one that is`;
}

/**
 * Why a workload cannot mount a ConfigMap or a volume claim, or have its variables: the same as for a Secret. A volume
 * claim can hold files of tenants, so it must have the label under each policy.
 */
export function sourceRefusal(options: {
  kind: "ConfigMap" | "PersistentVolumeClaim";
  object: KubernetesObject;
  policy: SecretPolicy;
}): string | undefined {
  const { kind, object, policy } = options;
  const { name, labels = {} } = object.metadata;
  if (labels[label.managed] === "true" || name === SNAPSHOTS_NAME)
    return `${kind} ${name} belongs to the service: name one of your own`;
  if (isMeantFor("workload", labels)) return undefined;
  if (kind === "ConfigMap" && labels[USE_LABEL] === undefined && policy === "any") return undefined;
  return `${kind} ${name} is not labelled ${USE_LABEL}=workload: label it, or name one that is`;
}

/** Whether the labels of an object say that it may be used so. */
export function isMeantFor(use: SecretUse, labels: Readonly<Record<string, string>> | undefined): boolean {
  return labels?.[USE_LABEL]?.split(".").includes(use) === true;
}
