import * as v from "valibot";
import {
  bytesOf,
  environmentProblems,
  type ListenAddress,
  leaseSeconds,
  listenAddressOrOff,
  namespaceName,
  quantity,
  wholeNumber,
} from "../crds/environment.ts";
import { isImageReference } from "../crds/schema/image-reference.ts";
import { pattern } from "../crds/schema/patterns.ts";
import { type SecretPolicy, secretPolicies } from "../crds/secret-refusal.ts";
import { outgoingTypes } from "../crds/sink/outgoing-event.ts";
import { type SinkConfig, sinkConfig, sinkEnvironment, sinkSecrets } from "../crds/sink/sink-config.ts";
import { type StoreConfig, storeConfig, storeEnvironment } from "../crds/snapshots/store-config.ts";
import { type TracingConfig, tracingConfig } from "../crds/tracing/tracing-config.ts";
import { isAddressRange } from "./cluster/address-ranges.ts";

/** A number, which may have a fraction. @param says the end of an error that begins with the variable's name */
function number(says: string, accepts: (value: number) => boolean) {
  return v.pipe(v.string(), v.regex(/^[0-9]+([.][0-9]+)?$/, says), v.transform(Number), v.check(accepts, says));
}

const factor = number("must be a number greater than 0", (value) => value > 0);
const seconds = number("must be a number of seconds greater than 0", (value) => value > 0);

// This image has a statically linked busybox, unlike other busybox images.
const DEFAULT_TOOLS_IMAGE = "busybox:1.37-musl";

const DEFAULT_BUILDER_IMAGE = "moby/buildkit:v0.26.3-rootless";

/** The size of ten thousand parts of 5 MiB, rounded down. */
const MOST_OBJECT_BYTES = 48 * 1024 ** 3;

/** What the operator tells the sink. */
const OUTGOING = outgoingTypes.filter((type) => type !== "audit");

const addressRanges = v.pipe(
  v.string(),
  v.transform((list) => list.split(",").filter((range) => range !== "")),
  v.check((ranges) => ranges.every(isAddressRange), "must be ranges such as 10.1.0.0/16, separated by commas"),
);

const accountNames = v.pipe(
  v.string(),
  v.transform((list) => list.split(",").filter((name) => name !== "")),
  v.check(
    (names) => names.every((name) => new RegExp(pattern.subdomain).test(name)),
    "must be names of ServiceAccounts, separated by commas",
  ),
);

const secretName = v.pipe(v.string(), v.regex(new RegExp(pattern.subdomain), "must be the name of a Secret"));

const environment = v.object({
  TENANCY_NAMESPACE: v.optional(namespaceName, "tenancy"),
  TENANCY_CPU_OVERCOMMIT: v.optional(factor, "1"),
  TENANCY_MEMORY_OVERCOMMIT: v.optional(factor, "1"),
  TENANCY_START_TIMEOUT: v.optional(seconds, "300"),
  TENANCY_QUEUE_TIMEOUT: v.optional(
    number("must be a number of seconds, at least 0", (value) => value >= 0),
    "600",
  ),
  TENANCY_NODE_TIMEOUT: v.optional(seconds, "60"),
  TENANCY_WATCH_NODES: v.optional(v.picklist(["on", "off"], "must be on or off"), "off"),
  TENANCY_LEASE_SECONDS: v.optional(leaseSeconds, "10"),
  TENANCY_OPERATOR_LISTEN: v.optional(listenAddressOrOff, "127.0.0.1:9090"),
  TENANCY_TOOLS_IMAGE: v.optional(
    v.pipe(v.string(), v.check(isImageReference, "must be an image reference")),
    DEFAULT_TOOLS_IMAGE,
  ),
  TENANCY_PROXY_IMAGE: v.optional(v.pipe(v.string(), v.check(isImageReference, "must be an image reference"))),
  TENANCY_IMAGE_PULL_HINT: v.optional(v.string()),
  TENANCY_EGRESS_PRIVATE_RANGES: v.optional(addressRanges, ""),
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
  TENANCY_POD_SERVICE_ACCOUNTS: v.optional(accountNames, ""),
  TENANCY_SECRETS: v.optional(v.picklist(secretPolicies, "must be any or labelled"), "any"),
  ...storeEnvironment,
  TENANCY_SNAPSHOT_IMAGE: v.optional(v.pipe(v.string(), v.check(isImageReference, "must be an image reference"))),
  TENANCY_SNAPSHOT_PROGRAM: v.optional(
    v.pipe(v.string(), v.regex(new RegExp(pattern.subdomain), "must be the name of a ConfigMap")),
  ),
  TENANCY_POD_NAME: v.optional(v.pipe(v.string(), v.regex(new RegExp(pattern.subdomain), "must be the name of a pod"))),
  TENANCY_SNAPSHOT_SIZE: v.optional(quantity, "10Gi"),
  // Empty: volumes without a class. Unset: the cluster's own class.
  TENANCY_SNAPSHOT_STORAGE_CLASS: v.optional(
    v.pipe(v.string(), v.regex(/^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$/, "must be the name of a storage class, or empty")),
  ),
  TENANCY_SNAPSHOT_TTL: v.optional(number("must be a number of seconds, at least 60", (value) => value >= 60)),
  TENANCY_SNAPSHOT_CONCURRENCY: v.optional(wholeNumber(1, 1000), "4"),
  TENANCY_SNAPSHOT_TIMEOUT: v.optional(seconds, "3600"),
  TENANCY_RELEASE_RETRY_LIMIT: v.optional(seconds, "86400"),
  TENANCY_USAGE_TTL: v.optional(number("must be a number of days, at least 2", (value) => value >= 2)),
  TENANCY_USAGE: v.optional(v.picklist(["on", "off"], "must be on or off"), "on"),
  ...sinkEnvironment,
  TENANCY_REGISTRY: v.optional(
    v.pipe(
      v.string(),
      v.check((value) => isImageReference(`${value}/x:1`), "must be a registry such as registry.example.com/built"),
    ),
  ),
  TENANCY_BUILDER_IMAGE: v.optional(
    v.pipe(v.string(), v.check(isImageReference, "must be an image reference")),
    DEFAULT_BUILDER_IMAGE,
  ),
  TENANCY_BUILD_NAMESPACE: v.optional(namespaceName, "tenancy-builds"),
  TENANCY_REGISTRY_SECRET: v.optional(secretName),
  TENANCY_REGISTRY_PULL_SECRET: v.optional(secretName),
  TENANCY_BUILD_TIMEOUT: v.optional(wholeNumber(1, 86_400), "1800"),
  TENANCY_BUILD_CONCURRENCY: v.optional(wholeNumber(1, 100), "2"),
  TENANCY_BUILD_CPU: v.optional(wholeNumber(1, 1024), "2"),
  TENANCY_BUILD_MEMORY: v.optional(quantity, "2Gi"),
  TENANCY_BUILD_DISK: v.optional(quantity, "10Gi"),
  TENANCY_BUILD_CONTEXT_LIMIT: v.optional(quantity, "256Mi"),
  TENANCY_BUILD_PRIVATE_RANGES: v.optional(addressRanges, ""),
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
  /** How long claims wait for room in the namespace's quotas. */
  queueTimeoutMs: number;
  /** How long a node may not answer for a pod before the pod counts as lost, in milliseconds. */
  nodeTimeoutMs: number;
  /** Whether the zones of nodes are read from the nodes, which takes a right in the whole cluster. */
  watchNodes: boolean;
  /** How long the leader's lease holds without a renewal, in milliseconds. */
  leaseMs: number;
  /** The address of `/metrics`, `/healthz` and `/readyz`; undefined: not served. */
  listen: ListenAddress | undefined;
  /** An image with a static busybox at `/bin/busybox`, which saves and restores files. */
  toolsImage: string;
  /** Added to the error of each image that cannot be pulled. @default nothing */
  imagePullHint: string | undefined;
  egress: EgressConfig;
  /** The ServiceAccounts that workloads may name for their pods. */
  podServiceAccounts: readonly string[];
  /** Which Secrets workloads can name. */
  secretPolicy: SecretPolicy;
  snapshots: SnapshotConfig;
  /** Whether the usage of sessions is recorded in the store. */
  usage: boolean;
  /** Undefined: no events are sent. */
  sink: SinkConfig | undefined;
  /** How long records of usage are kept, in milliseconds. @default for ever */
  usageTtlMs: number | undefined;
  /** Undefined without a registry: workloads with a Dockerfile are refused. */
  builds: BuildConfig | undefined;
  /** Undefined: nothing is traced. */
  tracing: TracingConfig | undefined;
  logLevel: string;
}

/** The egress proxy of `restricted` workloads with an allowlist or credentials. */
export interface EgressConfig {
  /**
   * An image with haproxy, nft, ca-certificates and a busybox at `/bin/busybox`; undefined: such workloads are refused.
   */
  image: string | undefined;
  /** Private ranges that allowed names may resolve to, such as `10.1.0.0/16`. */
  openedRanges: readonly string[];
  /** PEM of authorities that the proxy and the workloads trust in addition to the public ones; empty: none. */
  extraAuthorities: string;
}

/** The program of the helper pod, which serves the snapshots volume. */
export interface HelperConfig {
  /** Undefined: the image of the operator's own pod. */
  image: string | undefined;
  /** A ConfigMap with the program, for an image with only Node; undefined: the image has the program. */
  program: string | undefined;
  /** The name of the operator's own pod; undefined outside of the cluster. */
  ownPod: string | undefined;
}

/** How tenants' files are archived. */
export interface SnapshotConfig {
  store: StoreConfig;
  helper: HelperConfig;
  /** Of the volume: a Kubernetes quantity. */
  size: string;
  /** The same in bytes. */
  sizeBytes: number;
  /** The limit of one archive. */
  maxArchiveBytes: number;
  /** Of the volume; undefined: the cluster's own; empty: none. */
  storageClass: string | undefined;
  /** Archives that are unused for this long are deleted, in milliseconds; undefined: never. */
  ttlMs: number | undefined;
  /** The number of concurrent saves, and of concurrent restores. */
  concurrency: number;
  /** How long one save or restore may take, in milliseconds. */
  timeoutMs: number;
  /** How long a failing release is tried again before a person has to act, in milliseconds. */
  retryLimitMs: number;
}

/** How images are built from `image.dockerfile`, and where they are stored. */
export interface BuildConfig {
  /** `host/prefix`; a workload's images are in the repository `host/prefix/<workload>`. */
  registry: string;
  /** Rootless BuildKit, as in `moby/buildkit:<version>-rootless`. */
  builderImage: string;
  /** The namespace of builds. Only builds use its Secrets. */
  namespace: string;
  /** A Secret there of type `kubernetes.io/dockerconfigjson`, to push; undefined: the registry needs no credentials. */
  pushSecret: string | undefined;
  /** Such a Secret in the namespace of the tenants' pods, to pull. */
  pullSecret: string | undefined;
  /** How long a build may take, in milliseconds. */
  timeoutMs: number;
  /** The number of concurrent builds. */
  concurrency: number;
  /** The limits of one build: CPUs, and two quantities. */
  cpu: number;
  memory: string;
  disk: string;
  /** The limit of one compressed build context, in bytes. */
  contextLimitBytes: number;
  /** Private ranges that builds may reach, such as `10.1.0.0/16`. */
  openedRanges: readonly string[];
}

/**
 * Reads the operator's configuration from environment variables.
 *
 * @throws Error that names each invalid variable and what it must be
 */
export function operatorConfig(env: Record<string, string | undefined>): OperatorConfig {
  const parsed = v.safeParse(environment, env);
  if (!parsed.success) {
    const problems = environmentProblems(parsed.issues, {
      env,
      hidden: ["TENANCY_EGRESS_AUTHORITIES", ...sinkSecrets],
    });
    throw new Error(`Cannot start the operator: ${problems.join("; ")}`);
  }
  const values = parsed.output;
  if (values.TENANCY_REGISTRY !== undefined && values.TENANCY_BUILD_NAMESPACE === values.TENANCY_NAMESPACE) {
    // A builder needs rights that no tenant's pod may have.
    throw new Error(
      "Cannot start the operator: TENANCY_BUILD_NAMESPACE must be another namespace than TENANCY_NAMESPACE",
    );
  }
  const store = storeConfig(values);
  const sizeBytes = bytesOf(values.TENANCY_SNAPSHOT_SIZE);
  const limit = values.TENANCY_SNAPSHOT_LIMIT === undefined ? undefined : bytesOf(values.TENANCY_SNAPSHOT_LIMIT);
  if (store.place.kind === "s3") {
    if ((limit ?? 0) > MOST_OBJECT_BYTES) {
      throw new Error("Cannot start the operator: TENANCY_SNAPSHOT_LIMIT must be at most 48Gi in object storage");
    }
    // The sweep deletes objects that are a day old and have no reference, and an upload has none.
    if (values.TENANCY_SNAPSHOT_TIMEOUT >= 86_400) {
      throw new Error("Cannot start the operator: TENANCY_SNAPSHOT_TIMEOUT must be less than a day in object storage");
    }
  }
  const mostBytes = store.place.kind === "s3" ? MOST_OBJECT_BYTES : Math.floor(sizeBytes / 4);
  return {
    namespace: values.TENANCY_NAMESPACE,
    cpuOvercommit: values.TENANCY_CPU_OVERCOMMIT,
    memoryOvercommit: values.TENANCY_MEMORY_OVERCOMMIT,
    startTimeoutMs: values.TENANCY_START_TIMEOUT * 1000,
    queueTimeoutMs: values.TENANCY_QUEUE_TIMEOUT * 1000,
    nodeTimeoutMs: values.TENANCY_NODE_TIMEOUT * 1000,
    watchNodes: values.TENANCY_WATCH_NODES === "on",
    leaseMs: values.TENANCY_LEASE_SECONDS * 1000,
    listen: values.TENANCY_OPERATOR_LISTEN,
    toolsImage: values.TENANCY_TOOLS_IMAGE,
    imagePullHint: values.TENANCY_IMAGE_PULL_HINT,
    egress: {
      image: values.TENANCY_PROXY_IMAGE,
      openedRanges: values.TENANCY_EGRESS_PRIVATE_RANGES,
      extraAuthorities: values.TENANCY_EGRESS_AUTHORITIES,
    },
    podServiceAccounts: values.TENANCY_POD_SERVICE_ACCOUNTS,
    secretPolicy: values.TENANCY_SECRETS,
    snapshots: {
      store,
      helper: {
        image: values.TENANCY_SNAPSHOT_IMAGE,
        program: values.TENANCY_SNAPSHOT_PROGRAM,
        ownPod: values.TENANCY_POD_NAME,
      },
      size: values.TENANCY_SNAPSHOT_SIZE,
      sizeBytes,
      maxArchiveBytes: limit ?? mostBytes,
      storageClass: values.TENANCY_SNAPSHOT_STORAGE_CLASS,
      ttlMs: values.TENANCY_SNAPSHOT_TTL === undefined ? undefined : values.TENANCY_SNAPSHOT_TTL * 1000,
      concurrency: values.TENANCY_SNAPSHOT_CONCURRENCY,
      timeoutMs: values.TENANCY_SNAPSHOT_TIMEOUT * 1000,
      retryLimitMs: values.TENANCY_RELEASE_RETRY_LIMIT * 1000,
    },
    usage: values.TENANCY_USAGE === "on",
    sink: sinkConfig(values, { program: "operator", types: OUTGOING, namespace: values.TENANCY_NAMESPACE }),
    usageTtlMs: values.TENANCY_USAGE_TTL === undefined ? undefined : values.TENANCY_USAGE_TTL * 86_400_000,
    builds:
      values.TENANCY_REGISTRY === undefined
        ? undefined
        : {
            registry: values.TENANCY_REGISTRY,
            builderImage: values.TENANCY_BUILDER_IMAGE,
            namespace: values.TENANCY_BUILD_NAMESPACE,
            pushSecret: values.TENANCY_REGISTRY_SECRET,
            pullSecret: values.TENANCY_REGISTRY_PULL_SECRET,
            timeoutMs: values.TENANCY_BUILD_TIMEOUT * 1000,
            concurrency: values.TENANCY_BUILD_CONCURRENCY,
            cpu: values.TENANCY_BUILD_CPU,
            memory: values.TENANCY_BUILD_MEMORY,
            disk: values.TENANCY_BUILD_DISK,
            contextLimitBytes: bytesOf(values.TENANCY_BUILD_CONTEXT_LIMIT),
            openedRanges: values.TENANCY_BUILD_PRIVATE_RANGES,
          },
    tracing: tracingConfig(env, { service: "tenancy-operator" }),
    logLevel: values.TENANCY_LOG_LEVEL,
  };
}
