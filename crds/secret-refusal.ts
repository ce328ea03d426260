import type { Secret } from "./kubernetes.ts";
import { API_GROUP, label } from "./labels.ts";
import { NAMES_SECRET, SNAPSHOTS_NAME } from "./snapshots/store-folder.ts";

/** What a Secret is named for: a header of a workload's requests, or a trigger's signatures and tokens. */
export type SecretUse = "workload" | "trigger";

/**
 * TENANCY_SECRETS: whether Secrets of the namespace can be named as they are, or only with the label `tenancy.dev/use`.
 */
export const secretPolicies = ["any", "labelled"] as const;
export type SecretPolicy = (typeof secretPolicies)[number];

/** On a Secret of the platform: what it may be named for, `workload`, `trigger` or `workload.trigger`. */
const USE_LABEL = `${API_GROUP}/use`;
/** Holds the key of the REST API, as `manifests/base` names it. */
const API_KEY_SECRET = "tenancy-api-key";
/** Holds the keys that sign links of the front door. */
export const LINK_KEYS_SECRET = "tenancy-proxy-keys";
/** Holds the credentials of the bucket with the tenants' files, as `manifests/components/object-storage` names it. */
const OBJECT_STORAGE_SECRET = "tenancy-object-storage";
/** As that one, for whoever may know no more of them than whose they are. */
const OBJECT_STORAGE_NAMES_SECRET = "tenancy-object-storage-names";
/** Of these only the last is a person's own; the others are credentials of the cluster, of servers and of releases. */
const BUILT_IN_TYPE = /^(?:[^/]+\.)?(?:kubernetes\.io|helm\.sh)\//;
const BASIC_AUTH = "kubernetes.io/basic-auth";

/**
 * Why a workload or a trigger cannot use a Secret, whoever may write these: they send its value to an address of their
 * own choice, so it must not be one that the service or the cluster lives by.
 *
 * @param options.secret undefined where there is none, of which only the name is judged
 * @returns a sentence that says what to do; undefined where it may be used
 */
export function secretRefusal(options: {
  name: string;
  secret: Pick<Secret, "metadata" | "type"> | undefined;
  use: SecretUse;
  policy: SecretPolicy;
}): string | undefined {
  const { name, secret, use, policy } = options;
  const instead = "name a Secret that holds nothing but this value";
  if (name === API_KEY_SECRET) return `Secret ${name} holds the key of the API: ${instead}`;
  if (name === LINK_KEYS_SECRET) return `Secret ${name} holds the keys of links: ${instead}`;
  if (name === SNAPSHOTS_NAME || name === OBJECT_STORAGE_SECRET)
    return `Secret ${name} opens the tenants' files: ${instead}`;
  if (name === NAMES_SECRET || name === OBJECT_STORAGE_NAMES_SECRET)
    return `Secret ${name} tells whose files are saved: ${instead}`;
  if (secret === undefined) return undefined;
  const { labels = {} } = secret.metadata;
  if (labels[label.managed] === "true")
    return `Secret ${name} is the service's own (${label.managed}=true): ${instead}`;
  const { type = "Opaque" } = secret;
  if (BUILT_IN_TYPE.test(type) && type !== BASIC_AUTH) return `Secret ${name} is of type ${type}: ${instead}`;
  const uses = labels[USE_LABEL];
  if (uses?.split(".").includes(use) || (uses === undefined && policy === "any")) return undefined;
  return `Secret ${name} is not labelled ${USE_LABEL}=${use}: label it, or name one that is`;
}
