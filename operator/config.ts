import * as v from "valibot";
import {
  environmentProblems,
  type ListenAddress,
  leaseSeconds,
  listenAddressOrOff,
  namespaceName,
  wholeNumber,
} from "../crds/environment.ts";
import { isImageReference } from "../crds/schema/image-reference.ts";
import { type SecretPolicy, secretPolicies } from "../crds/secret-refusal.ts";
import { isAddressRange } from "./egress/address-ranges.ts";

/** With a fraction where one is wanted; `says` ends a sentence that the name of the variable begins. */
function number(says: string, accepts: (value: number) => boolean) {
  return v.pipe(v.string(), v.regex(/^[0-9]+([.][0-9]+)?$/, says), v.transform(Number), v.check(accepts, says));
}

const factor = number("must be a number greater than 0", (value) => value > 0);
const seconds = number("must be a number of seconds greater than 0", (value) => value > 0);

// Its busybox is linked statically, which not every busybox image's is.
const DEFAULT_TOOLS_IMAGE = "busybox:1.37-musl";

const quantity = v.pipe(
  v.string(),
  v.regex(/^[1-9][0-9]*(Ki|Mi|Gi|Ti|Pi|k|M|G|T|P)?$/, "must be a quantity such as 10Gi"),
);

const environment = v.object({
  TENANCY_NAMESPACE: v.optional(namespaceName, "tenancy"),
  TENANCY_CPU_OVERCOMMIT: v.optional(factor, "1"),
  TENANCY_MEMORY_OVERCOMMIT: v.optional(factor, "1"),
  TENANCY_START_TIMEOUT: v.optional(seconds, "300"),
  TENANCY_NODE_TIMEOUT: v.optional(seconds, "60"),
  TENANCY_LEASE_SECONDS: v.optional(leaseSeconds, "10"),
  TENANCY_OPERATOR_LISTEN: v.optional(listenAddressOrOff, "127.0.0.1:9090"),
  TENANCY_TOOLS_IMAGE: v.optional(
    v.pipe(v.string(), v.check(isImageReference, "must be an image reference")),
    DEFAULT_TOOLS_IMAGE,
  ),
  TENANCY_PROXY_IMAGE: v.optional(v.pipe(v.string(), v.check(isImageReference, "must be an image reference"))),
  TENANCY_IMAGE_PULL_HINT: v.optional(v.string()),
  TENANCY_EGRESS_PRIVATE_RANGES: v.optional(
    v.pipe(
      v.string(),
      v.transform((list) => list.split(",").filter((range) => range !== "")),
      v.check((ranges) => ranges.every(isAddressRange), "must be ranges such as 10.1.0.0/16, by commas"),
    ),
    "",
  ),
  // The certificates themselves, as PEM.
  TENANCY_EGRESS_AUTHORITIES: v.optional(
    v.pipe(
      v.string(),
      v.check(
        (pem) => /^\s*(-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----\s*)*$/.test(pem),
        "must be certificates in PEM",
      ),
    ),
    "",
  ),
  TENANCY_SECRETS: v.optional(v.picklist(secretPolicies, "must be any or labelled"), "any"),
  TENANCY_SNAPSHOT_SIZE: v.optional(quantity, "10Gi"),
  TENANCY_SNAPSHOT_LIMIT: v.optional(quantity),
  // Empty: volumes without a class. Unset: the cluster's own class.
  TENANCY_SNAPSHOT_STORAGE_CLASS: v.optional(
    v.pipe(v.string(), v.regex(/^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$/, "must be the name of a storage class, or empty")),
  ),
  TENANCY_SNAPSHOT_TTL: v.optional(number("must be a number of seconds, at least 60", (value) => value >= 60)),
  TENANCY_SNAPSHOT_CONCURRENCY: v.optional(wholeNumber(1, 1000), "4"),
  TENANCY_SNAPSHOT_TIMEOUT: v.optional(seconds, "3600"),
  TENANCY_RELEASE_RETRY_LIMIT: v.optional(seconds, "86400"),
  TENANCY_LOG_LEVEL: v.optional(
    v.picklist(["debug", "info", "warn", "error"], "must be debug, info, warn or error"),
    "info",
  ),
});

export interface OperatorConfig {
  /** The namespace of all resources. */
  namespace: string;
  /** Pod requests are limits divided by these. */
  cpuOvercommit: number;
  memoryOvercommit: number;
  /** How long a scheduled pod may take to become Ready before its claim fails, in milliseconds. */
  startTimeoutMs: number;
  /** How long a node may not answer for a pod before the pod counts as lost, in milliseconds. */
  nodeTimeoutMs: number;
  /** How long the leader's lease holds without a renewal, in milliseconds. */
  leaseMs: number;
  /** Where `/metrics`, `/healthz` and `/readyz` are served; undefined: nowhere. */
  listen: ListenAddress | undefined;
  /** An image with a static busybox at `/bin/busybox`, which saves and restores files. */
  toolsImage: string;
  /** Added to the message of each image that cannot be pulled. @default nothing */
  imagePullHint: string | undefined;
  egress: EgressConfig;
  /** Which Secrets `network.credentials` can name. */
  secretPolicy: SecretPolicy;
  snapshots: SnapshotConfig;
  logLevel: string;
}

/** What `restricted` workloads with an allowlist or credentials reach, and by which proxy. */
export interface EgressConfig {
  /**
   * An image with haproxy, nft, ca-certificates and a busybox at `/bin/busybox`; undefined: such workloads are refused.
   */
  image: string | undefined;
  /** Private ranges that allowed names may resolve to, such as `10.1.0.0/16`. */
  openedRanges: readonly string[];
  /** PEM of authorities that the proxy and the workloads trust beside the public ones; empty: none. */
  extraAuthorities: string;
}

/** How tenants' files are archived. */
export interface SnapshotConfig {
  /** Of the volume: a Kubernetes quantity. */
  size: string;
  /** The same in bytes. */
  sizeBytes: number;
  /** What one archive may take of it. */
  maxArchiveBytes: number;
  /** Of the volume; undefined: the cluster's own; empty: none. */
  storageClass: string | undefined;
  /** Archives older than this go, in milliseconds; undefined: never. */
  ttlMs: number | undefined;
  /** Archives that are saved at once, and that are restored at once. */
  concurrency: number;
  /** How long one save or restore may take, in milliseconds. */
  timeoutMs: number;
  /** How long a release that fails is tried again until it is a person's, in milliseconds. */
  retryLimitMs: number;
}

/**
 * Reads the operator's configuration from environment variables.
 *
 * @throws Error that names each variable that is wrong and what it must be
 */
export function operatorConfig(env: Record<string, string | undefined>): OperatorConfig {
  const parsed = v.safeParse(environment, env);
  if (!parsed.success) {
    const problems = environmentProblems(parsed.issues, { env, hidden: ["TENANCY_EGRESS_AUTHORITIES"] });
    throw new Error(`Cannot start the operator: ${problems.join("; ")}`);
  }
  const values = parsed.output;
  const sizeBytes = bytesOf(values.TENANCY_SNAPSHOT_SIZE);
  const limit = values.TENANCY_SNAPSHOT_LIMIT;
  return {
    namespace: values.TENANCY_NAMESPACE,
    cpuOvercommit: values.TENANCY_CPU_OVERCOMMIT,
    memoryOvercommit: values.TENANCY_MEMORY_OVERCOMMIT,
    startTimeoutMs: values.TENANCY_START_TIMEOUT * 1000,
    nodeTimeoutMs: values.TENANCY_NODE_TIMEOUT * 1000,
    leaseMs: values.TENANCY_LEASE_SECONDS * 1000,
    listen: values.TENANCY_OPERATOR_LISTEN,
    toolsImage: values.TENANCY_TOOLS_IMAGE,
    imagePullHint: values.TENANCY_IMAGE_PULL_HINT,
    egress: {
      image: values.TENANCY_PROXY_IMAGE,
      openedRanges: values.TENANCY_EGRESS_PRIVATE_RANGES,
      extraAuthorities: values.TENANCY_EGRESS_AUTHORITIES,
    },
    secretPolicy: values.TENANCY_SECRETS,
    snapshots: {
      size: values.TENANCY_SNAPSHOT_SIZE,
      sizeBytes,
      maxArchiveBytes: limit === undefined ? Math.floor(sizeBytes / 4) : bytesOf(limit),
      storageClass: values.TENANCY_SNAPSHOT_STORAGE_CLASS,
      ttlMs: values.TENANCY_SNAPSHOT_TTL === undefined ? undefined : values.TENANCY_SNAPSHOT_TTL * 1000,
      concurrency: values.TENANCY_SNAPSHOT_CONCURRENCY,
      timeoutMs: values.TENANCY_SNAPSHOT_TIMEOUT * 1000,
      retryLimitMs: values.TENANCY_RELEASE_RETRY_LIMIT * 1000,
    },
    logLevel: values.TENANCY_LOG_LEVEL,
  };
}

/**
 * The bytes of a Kubernetes quantity, https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/.
 */
function bytesOf(size: string): number {
  const [, digits, unit = ""] = /^(\d+)(.*)$/.exec(size) ?? [];
  const power = ["", "K", "M", "G", "T", "P"].indexOf(unit.slice(0, 1).toUpperCase());
  return Number(digits) * (unit.endsWith("i") ? 1024 : 1000) ** power;
}
