import { type Static, Type } from "@sinclair/typebox";
import { claimHookSchema } from "./claims/claim-hook.ts";
import type { KubernetesObject } from "./kubernetes.ts";
import { networkSchema } from "./network.ts";
import { podAnnotationsSchema, podLabelsSchema } from "./pod-metadata.ts";
import { schedulingSchema } from "./scheduling.ts";
import { conditionsSchema, notObserved } from "./schema/condition.ts";
import { pattern } from "./schema/patterns.ts";
import { commandWords, mapList, mapOf, rules, setList, stringEnum, stringMap } from "./schema/schema.ts";
import { patternHints } from "./schema/schema-problems.ts";
import { envFromSchema, savedVolumesRule, volumesSchema } from "./volumes.ts";

const gitSchema = Type.Object(
  {
    url: Type.String({
      description: "HTTPS address of the repository, without credentials.",
      pattern: pattern.gitUrl,
      maxLength: 2048,
    }),
    ref: Type.Optional(
      Type.String({
        description:
          "Branch, tag or commit. A name is resolved when the image is built, and is not watched: set the annotation tenancy.dev/rebuild to build again.",
        pattern: pattern.gitRef,
        maxLength: 256,
        default: "HEAD",
      }),
    ),
    path: Type.Optional(
      Type.String({
        description: "Folder in the repository.",
        pattern: pattern.oneLine,
        maxLength: 1024,
        default: ".",
      }),
    ),
    secretRef: Type.Optional(
      Type.Object(
        { name: Type.String({ description: "Its name.", pattern: pattern.subdomain, maxLength: 253 }) },
        {
          description:
            "Secret in the namespace of builds: the key token contains the token, the key host the only host that receives it.",
        },
      ),
    ),
  },
  { description: "A folder of a Git repository." },
);

const buildContextSchema = Type.Object(
  {
    configMapRef: Type.Optional(
      Type.Object(
        { name: Type.String({ description: "Its name.", pattern: pattern.subdomain, maxLength: 253 }) },
        { description: "ConfigMap in the workload's namespace; each key is a file of the context." },
      ),
    ),
    git: Type.Optional(gitSchema),
  },
  {
    description:
      "Source of the build's files: exactly one of configMapRef and git; by default the archive uploaded with PUT /api/v1/workloads/{name}/context.",
    oneOf: [{ required: ["configMapRef"] }, { required: ["git"] }],
    ...rules({ rule: "has(self.configMapRef) != has(self.git)", message: "give exactly one of configMapRef and git" }),
  },
);

export const PULL_SECRETS_OF_REF =
  "pullSecrets are only for ref: nodes pull an image that is built with TENANCY_REGISTRY_PULL_SECRET of the operator";

const imageSchema = Type.Object(
  {
    ref: Type.Optional(Type.String({ description: "Image in a registry.", pattern: pattern.word, maxLength: 512 })),
    dockerfile: Type.Optional(
      Type.String({
        description: "Path of a build file in the build context; the image is built from it in the cluster.",
        pattern: pattern.oneLine,
        maxLength: 1024,
      }),
    ),
    context: Type.Optional(buildContextSchema),
    args: Type.Optional(
      stringMap(
        { pattern: pattern.noNull, maxLength: 4096 },
        { description: "Build arguments; never for secrets, since an image shows them.", maxProperties: 64 },
      ),
    ),
    pullPolicy: Type.Optional(
      stringEnum(["Always", "IfNotPresent", "Never"], {
        description:
          "When nodes pull the image. When absent: Always for the tag latest, IfNotPresent for other tags and for digests.",
      }),
    ),
    prePull: Type.Optional(
      Type.Boolean({
        description:
          "Whether nodes that may run the workload's pods pull the image before a pod needs it, a few nodes at a time; status.images says which have it. Without effect under pullPolicy Never. The operator needs TENANCY_WATCH_NODES (docs/how-to/pull-images-ahead.md). When absent, they do not.",
      }),
    ),
    pullSecrets: Type.Optional(
      Type.Array(
        Type.Object(
          { name: Type.String({ description: "Its name.", pattern: pattern.subdomain, maxLength: 253 }) },
          { description: "A Secret of the type kubernetes.io/dockerconfigjson." },
        ),
        {
          description:
            "Secrets in the workload's namespace with the logins of registries, for ref. The pods then do not use those of the ServiceAccount default.",
          maxItems: 8,
          ...mapList("name"),
        },
      ),
    ),
  },
  {
    description: "The container's image: exactly one of ref and dockerfile.",
    oneOf: [{ required: ["ref"] }, { required: ["dockerfile"] }],
    ...rules(
      { rule: "has(self.ref) != has(self.dockerfile)", message: "give exactly one of ref and dockerfile" },
      {
        rule: "has(self.dockerfile) || !has(self.context) && !has(self.args)",
        message: "context and args are only for an image that is built: set dockerfile, or remove them",
      },
      {
        rule: "has(self.ref) || !has(self.pullSecrets)",
        message: PULL_SECRETS_OF_REF,
      },
    ),
  },
);

/** What is said of resources that contradict each other. */
export const resourceWords = {
  cpus: "give one of vcpus and milliCpus: remove the other (by a merge patch: set it to null)",
  requestedCpus: "requests.milliCpus must not be higher than the limit, 1000 for each of vcpus, or milliCpus",
  requestedMemory: "requests.memoryMb must not be higher than the limit, memoryMb",
  extended: `each name must be ${patternHints[pattern.resourceName]}, and no domain of kubernetes.io`,
} as const;

const requestsSchema = Type.Object(
  {
    milliCpus: Type.Optional(Type.Integer({ description: "CPU in thousandths.", minimum: 1, maximum: 1024000 })),
    memoryMb: Type.Optional(Type.Integer({ description: "Memory in MB.", minimum: 1, maximum: 16777216 })),
  },
  {
    description:
      "What a node must have free for an instance, where that is less than its limit. When absent, it is the limit, divided by the operator's overcommit.",
  },
);

const resourcesSchema = Type.Object(
  {
    vcpus: Type.Optional(
      Type.Integer({ description: "CPU count; 1 without vcpus and milliCpus.", minimum: 1, maximum: 1024 }),
    ),
    milliCpus: Type.Optional(
      Type.Integer({
        description: "CPU in thousandths, in place of vcpus: 250 is a quarter of a CPU.",
        minimum: 1,
        maximum: 1024000,
      }),
    ),
    memoryMb: Type.Optional(
      Type.Integer({ description: "Memory in MB.", minimum: 1, maximum: 16777216, default: 512 }),
    ),
    diskGb: Type.Optional(
      Type.Integer({
        description: "Disk in GB (ephemeral-storage), for the overlay directories, logs and all else that is written.",
        minimum: 1,
        maximum: 65536,
        default: 1,
      }),
    ),
    requests: Type.Optional(requestsSchema),
    extended: Type.Optional(
      mapOf(Type.Integer({ description: "How many.", minimum: 1, maximum: 1000000 }), {
        description: "Extended resources of nodes by name, such as nvidia.com/gpu; each as request and limit.",
        maxProperties: 16,
        ...rules({
          rule: `self.all(name, name.matches(r'${pattern.resourceName}') && !name.contains('kubernetes.io/'))`,
          message: resourceWords.extended,
        }),
      }),
    ),
  },
  {
    description: "Resources of each instance, as limits and, without requests, as requests.",
    default: {},
    ...rules(
      { rule: "!has(self.vcpus) || !has(self.milliCpus)", message: resourceWords.cpus },
      {
        rule: "!has(self.requests) || !has(self.requests.milliCpus) || self.requests.milliCpus <= (has(self.milliCpus) ? self.milliCpus : has(self.vcpus) ? self.vcpus * 1000 : 1000)",
        message: resourceWords.requestedCpus,
      },
      {
        rule: "!has(self.requests) || !has(self.requests.memoryMb) || self.requests.memoryMb <= (has(self.memoryMb) ? self.memoryMb : 512)",
        message: resourceWords.requestedMemory,
      },
    ),
  },
);

const idleSchema = Type.Object(
  {
    timeoutSeconds: Type.Optional(
      Type.Integer({
        description: "Seconds without activity until the claim is released; never by default.",
        minimum: 1,
        maximum: 31536000,
      }),
    ),
    action: Type.Optional(
      stringEnum(["hibernate", "destroy"], {
        description:
          "What happens to the tenant's data when the claim is released as idle: hibernate saves it, destroy discards this session's. A requested release always saves it.",
        default: "hibernate",
      }),
    ),
    countBackgroundProcesses: Type.Optional(
      Type.Boolean({
        description:
          "Whether the instance counts as used while a process runs that the API started in its background. The pod is asked when its idle time is over.",
        default: false,
      }),
    ),
  },
  { description: "When an idle claim is released, and what happens to its data." },
);

const preSaveSchema = Type.Object(
  {
    command: commandWords("Command that runs in the workload's container as its user."),
    timeoutSeconds: Type.Optional(
      Type.Integer({
        description: "Seconds until it is killed and counts as failed.",
        minimum: 1,
        maximum: 600,
        default: 30,
      }),
    ),
    onError: Type.Optional(
      stringEnum(["Fail", "Continue"], {
        description:
          "What its failure does: Fail results in ReleaseFailed, and everything is retried; Continue saves the files anyway.",
        default: "Fail",
      }),
    ),
  },
  { description: "Lets the program write its in-memory data before each attempt to save the files." },
);

const filesystemSchema = Type.Object(
  {
    overlayDirs: Type.Optional(
      Type.Array(
        Type.String({ description: "Absolute path of a directory.", pattern: pattern.directory, maxLength: 1024 }),
        {
          description: "Directories that a release saves for each tenant; none inside another.",
          maxItems: 32,
          ...setList,
          ...rules({
            rule: "self.all(outer, self.all(inner, inner == outer || !(inner.endsWith('/') ? inner : inner + '/').startsWith(outer.endsWith('/') ? outer : outer + '/')))",
            message: "no directory may lie inside another, which already saves it: remove the inner one",
          }),
        },
      ),
    ),
    preSave: Type.Optional(preSaveSchema),
    saveWhileRunning: Type.Optional(
      Type.Boolean({
        description:
          "Saves the files while the program runs, instead of stopping it first. The container runtime then starts the program, and a deleted pod is not saved.",
        default: false,
      }),
    ),
    checkpointSeconds: Type.Optional(
      Type.Integer({
        description:
          "Seconds between checkpoints: the files of a session that goes on are saved so that it has them after the loss of its pod. 0 for none.",
        minimum: 0,
        maximum: 86400,
        default: 300,
        ...rules({ rule: "self == 0 || self >= 30", message: "must be 0 for no checkpoints, or at least 30" }),
      }),
    ),
    saveGraceSeconds: Type.Optional(
      Type.Integer({
        description:
          "Seconds that a pod waits for its files to be saved when somebody else deletes or evicts it, or drains its node.",
        minimum: 10,
        maximum: 3600,
        default: 120,
      }),
    ),
  },
  {
    description: "The part of the filesystem that outlives an instance.",
    ...rules({
      rule: "!has(self.preSave) || has(self.overlayDirs) && size(self.overlayDirs) > 0",
      message: "preSave requires overlayDirs: without them nothing is saved",
    }),
  },
);

/** The fields that say what a healthy container does. */
export const healthChecks = ["httpGet", "tcpSocket", "exec"] as const;

export const healthWords = {
  checks: "give at most one of httpGet, tcpSocket and exec",
  running:
    "httpGet, tcpSocket and exec take effect only with readyWhen Healthy, not Running: set that, or remove the check",
} as const;

const healthSchema = Type.Object(
  {
    readyWhen: Type.Optional(
      stringEnum(["Healthy", "Running"], {
        description:
          "When an instance is ready: Healthy when its program is, Running as soon as it runs. Running suits sandboxes, whose programs answer later or not at all. A program that starts before its claim and has no probe has to run for 2 s all the same.",
        default: "Healthy",
      }),
    ),
    intervalSeconds: Type.Optional(
      Type.Integer({ description: "Seconds between probes.", minimum: 1, maximum: 3600, default: 10 }),
    ),
    unhealthyThreshold: Type.Optional(
      Type.Integer({
        description: "Consecutive failures until the container is unhealthy.",
        minimum: 1,
        maximum: 1000,
        default: 3,
      }),
    ),
    httpGet: Type.Optional(
      Type.Object(
        {
          path: Type.Optional(
            Type.String({ description: "Path of the probe.", pattern: pattern.word, maxLength: 2048, default: "/" }),
          ),
          port: Type.Optional(
            Type.Integer({
              description: "Port of the probe; the endpoint's port when absent.",
              minimum: 1,
              maximum: 65535,
            }),
          ),
        },
        { description: "A GET request to which a healthy container responds with 200 to 399." },
      ),
    ),
    tcpSocket: Type.Optional(
      Type.Object(
        { port: Type.Integer({ description: "The port.", minimum: 1, maximum: 65535 }) },
        { description: "A port on which a healthy container accepts connections, where it is not the first port." },
      ),
    ),
    exec: Type.Optional(
      Type.Object(
        {
          command: commandWords(
            "The command. It runs as the container's user, with its environment but not that of the claim.",
          ),
        },
        { description: "A command in the container that ends with 0, within 4 s, if the container is healthy." },
      ),
    ),
  },
  {
    description:
      "How to determine that the container is healthy. Without it, an instance is ready when its first port accepts connections, or, without ports, when its program has run for 2 s.",
    ...rules(
      {
        rule: `[${healthChecks.map((check) => `has(self.${check})`).join(", ")}].filter(given, given).size() <= 1`,
        message: healthWords.checks,
      },
      {
        rule: `!has(self.readyWhen) || self.readyWhen == 'Healthy' || ${healthChecks.map((check) => `!has(self.${check})`).join(" && ")}`,
        message: healthWords.running,
      },
    ),
  },
);

const entrypointSchema = Type.Object(
  {
    cmd: Type.Optional(
      Type.String({
        description: "Command instead of the image's own.",
        pattern: pattern.noNull,
        minLength: 1,
        maxLength: 4096,
      }),
    ),
    args: Type.Optional(
      Type.Array(Type.String({ description: "One argument.", pattern: pattern.noNull, maxLength: 131072 }), {
        description: "Arguments instead of the image's own.",
        maxItems: 256,
      }),
    ),
    env: Type.Optional(
      stringMap(
        { pattern: pattern.noNull, maxLength: 131072 },
        {
          description: "Environment variables; never for secrets, which belong in network.credentials.",
          maxProperties: 256,
        },
      ),
    ),
    envFrom: Type.Optional(envFromSchema),
    workdir: Type.Optional(
      Type.String({ description: "Absolute working directory.", pattern: pattern.absolutePath, maxLength: 1024 }),
    ),
    start: Type.Optional(
      stringEnum(["Warm", "OnClaim"], {
        description:
          "When the program of a warm pod starts: before a claim takes the pod, or when a claim has taken it and its files are restored. OnClaim needs cmd, or an image whose own command the operator can read.",
        default: "Warm",
      }),
    ),
    onClaim: Type.Optional(claimHookSchema),
    startTimeoutSeconds: Type.Optional(
      Type.Integer({
        description:
          "Seconds from when a node takes a pod until it must be ready, or the claim fails; TENANCY_START_TIMEOUT of the operator when absent. For programs that load for long.",
        minimum: 1,
        maximum: 86400,
      }),
    ),
    stopGraceSeconds: Type.Optional(
      Type.Integer({
        description: "Seconds between SIGTERM and SIGKILL when the program is stopped before its files are saved.",
        minimum: 1,
        maximum: 600,
        default: 20,
      }),
    ),
  },
  {
    description: "Program of the container.",
    ...rules({
      rule: "!has(self.onClaim) || !has(self.start) || self.start == 'Warm'",
      message: "onClaim takes effect only with start Warm, not OnClaim: remove one of them",
    }),
  },
);

export const workloadSpecSchema = Type.Object(
  {
    version: Type.Optional(
      Type.String({ description: "Version of the workload, for people.", pattern: pattern.oneLine, maxLength: 128 }),
    ),
    image: imageSchema,
    resources: Type.Optional(resourcesSchema),
    network: Type.Optional(networkSchema),
    idle: Type.Optional(idleSchema),
    filesystem: Type.Optional(filesystemSchema),
    volumes: Type.Optional(volumesSchema),
    health: Type.Optional(healthSchema),
    entrypoint: Type.Optional(entrypointSchema),
    service: Type.Optional(
      Type.Boolean({
        description:
          "Whether each claim gets a Service named after it, which leads to its pod while it is Active. The Service has a cluster IP and is not headless: pod IPs are reused by other tenants and must not be cached; the Service's own IP is not reused.",
        default: false,
      }),
    ),
    tools: Type.Optional(
      Type.Boolean({
        description:
          "Whether pods get the tools for processes and files by the API although nothing else needs them; they add an init container, which delays a cold start by about a second. Pods with filesystem.overlayDirs, entrypoint.onClaim or entrypoint.start OnClaim always have them.",
        default: false,
      }),
    ),
    runtimeClassName: Type.Optional(
      Type.String({
        description: "RuntimeClass of the pods, for stronger isolation such as gVisor or Kata.",
        pattern: pattern.subdomain,
        maxLength: 253,
      }),
    ),
    scheduling: Type.Optional(schedulingSchema),
    podLabels: Type.Optional(podLabelsSchema),
    podAnnotations: Type.Optional(podAnnotationsSchema),
    serviceAccountName: Type.Optional(
      Type.String({
        description:
          "ServiceAccount of the pods, one of TENANCY_POD_SERVICE_ACCOUNTS of the operator. Its token is mounted: the program of every tenant may do what the account may. When absent, pods have no token.",
        pattern: pattern.subdomain,
        maxLength: 253,
      }),
    ),
  },
  {
    description: "A declarative description of a container.",
    ...rules(savedVolumesRule, {
      rule: "!has(self.entrypoint) || !has(self.entrypoint.start) || self.entrypoint.start != 'OnClaim' || !has(self.filesystem) || !has(self.filesystem.saveWhileRunning) || !self.filesystem.saveWhileRunning",
      message:
        "spec.filesystem.saveWhileRunning: takes effect only with entrypoint.start Warm, not OnClaim: remove one of them",
    }),
  },
);

export const buildStatusSchema = Type.Object(
  {
    key: Type.Optional(
      Type.String({
        description: "SHA-256 of all inputs of the image; absent while there is no context.",
        maxLength: 64,
      }),
    ),
    request: Type.Optional(
      Type.String({
        description: "Identifies the request: a digest of the spec's image and of the annotations on builds.",
        maxLength: 64,
      }),
    ),
    state: stringEnum(["Pending", "Building", "Built", "Failed"], {
      description: "State of the build; Pending waits for a slot (TENANCY_BUILD_CONCURRENCY), or for a retry.",
    }),
    reason: Type.Optional(
      Type.String({ description: "Why it failed or waits: one word for programs.", maxLength: 256 }),
    ),
    message: Type.Optional(Type.String({ description: "The same in sentences for people.", maxLength: 32768 })),
    requestedAt: Type.Optional(Type.String({ description: "When it was requested.", format: "date-time" })),
    startedAt: Type.Optional(Type.String({ description: "When the build began.", format: "date-time" })),
    finishedAt: Type.Optional(Type.String({ description: "When it ended.", format: "date-time" })),
    digest: Type.Optional(Type.String({ description: "Digest of the image.", maxLength: 128 })),
    steps: Type.Optional(Type.Integer({ description: "Steps of the build file.", minimum: 0 })),
    cached: Type.Optional(Type.Integer({ description: "Number of cached steps.", minimum: 0 })),
    commit: Type.Optional(Type.String({ description: "Git commit that was built.", maxLength: 64 })),
    tries: Type.Optional(
      Type.Integer({
        description: "How many attempts failed for a cause that may pass; each is followed by another.",
        minimum: 0,
      }),
    ),
  },
  { description: "The build of the spec's image: in progress, or the last one." },
);

const imageWords = (description: string) =>
  Type.Array(Type.String({ description: "One word of it.", maxLength: 65536 }), { description, maxItems: 256 });

const entrypointStatusSchema = Type.Object(
  {
    image: Type.String({ description: "The image that it was read from, as pods name it.", maxLength: 1024 }),
    digest: Type.String({
      description: "Digest of that image at that time: of its index if it has one, else of its manifest.",
      maxLength: 128,
    }),
    command: imageWords("ENTRYPOINT of the image; empty if it has none."),
    args: imageWords("CMD of the image; empty if it has none."),
    observedGeneration: Type.Integer({
      description: "Generation of the spec for which it was read. A change of the spec reads a tag again.",
    }),
  },
  {
    description:
      "The image's own program, read from its registry: only for a workload with filesystem.overlayDirs and without entrypoint.cmd.",
  },
);

const nodeName = (description: string) => Type.String({ description, maxLength: 253 });

const imagesStatusSchema = Type.Object(
  {
    image: Type.String({ description: "The image, as pods name it.", maxLength: 1024 }),
    nodes: Type.Integer({ description: "Number of nodes that may run the workload's pods.", minimum: 0 }),
    pulled: Type.Integer({ description: "Number of these nodes that have the image.", minimum: 0 }),
    pulledOn: Type.Array(nodeName("Name of a node."), { description: "The first of them, by name.", maxItems: 20 }),
    failed: Type.Array(
      Type.Object(
        {
          node: nodeName("Name of the node."),
          message: Type.String({ description: "Why, in the kubelet's words.", maxLength: 512 }),
        },
        { description: "A node that could not pull the image. It is tried again." },
      ),
      { description: "Nodes where the last try failed, the first by name.", maxItems: 10 },
    ),
    message: Type.Optional(Type.String({ description: "Why no image is pulled, if none is.", maxLength: 512 })),
  },
  { description: "Which nodes have the image: only for a workload with image.prePull." },
);

export const workloadStatusSchema = Type.Object(
  {
    phase: stringEnum(["Creating", "Building", "Ready", "Error", "Terminating"], {
      description: "Phase of the workload.",
      default: "Creating",
    }),
    reason: Type.Optional(Type.String({ description: "One word for programs.", maxLength: 256 })),
    message: Type.Optional(Type.String({ description: "A sentence for people.", maxLength: 32768 })),
    observedGeneration: Type.Optional(
      Type.Integer({ description: "Generation of the spec that this status describes." }),
    ),
    templateHash: Type.Optional(Type.String({ description: "Hash of the pod template.", maxLength: 128 })),
    runsAsRoot: Type.Optional(
      Type.Boolean({
        description: "Whether the image was found to run as root, so that pods are made without runAsNonRoot.",
      }),
    ),
    image: Type.Optional(
      Type.String({
        description: "The image that was built last and that pods run, with its digest.",
        maxLength: 1024,
      }),
    ),
    build: Type.Optional(buildStatusSchema),
    entrypoint: Type.Optional(entrypointStatusSchema),
    images: Type.Optional(imagesStatusSchema),
    conditions: Type.Optional(conditionsSchema),
  },
  { description: "The operator's result.", default: { phase: "Creating", conditions: notObserved } },
);

export type WorkloadSpec = Static<typeof workloadSpecSchema>;

export type WorkloadStatus = Static<typeof workloadStatusSchema>;

/** The state of a workload's image build. */
export type BuildStatus = NonNullable<WorkloadStatus["build"]>;

/** The program that a workload's image names. */
export type EntrypointStatus = NonNullable<WorkloadStatus["entrypoint"]>;

/** A TenancyWorkload. */
export interface Workload extends KubernetesObject {
  spec: WorkloadSpec;
  status?: WorkloadStatus;
}

/** The image of the workload's pods; undefined for an image that is not built yet. */
export function imageOf({ spec, status }: Workload): string | undefined {
  return spec.image.dockerfile === undefined ? spec.image.ref : status?.image;
}
