import { type Static, Type } from "@sinclair/typebox";
import type { KubernetesObject } from "./kubernetes.ts";
import { networkSchema } from "./network.ts";
import { conditionsSchema, notObserved } from "./schema/condition.ts";
import { pattern } from "./schema/patterns.ts";
import { rules, setList, stringEnum, stringMap } from "./schema/schema.ts";

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
          "Branch, tag or commit. A name is looked up when the image is built, and is not watched: the annotation tenancy.dev/rebuild starts a new build.",
        pattern: pattern.gitRef,
        maxLength: 256,
        default: "HEAD",
      }),
    ),
    path: Type.Optional(
      Type.String({
        description: "Folder within the repository.",
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
            "Secret in the namespace of builds: its key token opens the repository, its key host names the host that it is for.",
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
        { description: "ConfigMap in the workload's namespace, each key a file of the context." },
      ),
    ),
    git: Type.Optional(gitSchema),
  },
  {
    description:
      "Where the files of the build are from: exactly one of configMapRef and git. Without it, the archive that was uploaded by PUT /api/v1/workloads/{name}/context.",
    oneOf: [{ required: ["configMapRef"] }, { required: ["git"] }],
    ...rules({ rule: "has(self.configMapRef) != has(self.git)", message: "give exactly one of configMapRef and git" }),
  },
);

const imageSchema = Type.Object(
  {
    ref: Type.Optional(Type.String({ description: "Image in a registry.", pattern: pattern.word, maxLength: 512 })),
    dockerfile: Type.Optional(
      Type.String({
        description: "Path of a build file inside the build context; the image is built from it in the cluster.",
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
  },
  {
    description: "The container's image: exactly one of ref and dockerfile.",
    oneOf: [{ required: ["ref"] }, { required: ["dockerfile"] }],
    ...rules(
      { rule: "has(self.ref) != has(self.dockerfile)", message: "give exactly one of ref and dockerfile" },
      {
        rule: "has(self.dockerfile) || !has(self.context) && !has(self.args)",
        message: "context and args are for an image that is built: give dockerfile, or leave them out",
      },
    ),
  },
);

const resourcesSchema = Type.Object(
  {
    vcpus: Type.Optional(Type.Integer({ description: "CPU count.", minimum: 1, maximum: 1024, default: 1 })),
    memoryMb: Type.Optional(
      Type.Integer({ description: "Memory in MB.", minimum: 1, maximum: 16777216, default: 512 }),
    ),
    diskGb: Type.Optional(Type.Integer({ description: "Disk in GB.", minimum: 1, maximum: 65536, default: 1 })),
  },
  { description: "What each instance gets; requests and limits alike.", default: {} },
);

const idleSchema = Type.Object(
  {
    timeoutSeconds: Type.Optional(
      Type.Integer({
        description: "Seconds without activity until the claim is released; without it, never.",
        minimum: 1,
        maximum: 31536000,
      }),
    ),
    action: Type.Optional(
      stringEnum(["hibernate", "destroy"], {
        description:
          "How an idle release treats the tenant's files: hibernate saves them, destroy discards those of this session. A requested release always saves them.",
        default: "hibernate",
      }),
    ),
  },
  { description: "When a claim is released by itself, and what becomes of its data then." },
);

const preSaveSchema = Type.Object(
  {
    command: Type.Array(
      Type.String({
        description: "The program, then its arguments; no shell.",
        pattern: pattern.noNull,
        maxLength: 1024,
      }),
      {
        description: "Command, run in the workload's container as its user.",
        minItems: 1,
        maxItems: 32,
        ...rules({ rule: "size(self) == 0 || self[0] != ''", message: "must start with the name of a program" }),
      },
    ),
    timeoutSeconds: Type.Optional(
      Type.Integer({ description: "Seconds until it is ended and has failed.", minimum: 1, maximum: 600, default: 30 }),
    ),
    onError: Type.Optional(
      stringEnum(["Fail", "Continue"], {
        description:
          "What its failure does: Fail ends in ReleaseFailed, and all is tried again; Continue saves the files as they are.",
        default: "Fail",
      }),
    ),
  },
  { description: "Lets the program write its memory to files, before each attempt to save them." },
);

const filesystemSchema = Type.Object(
  {
    overlayDirs: Type.Optional(
      Type.Array(
        Type.String({ description: "Absolute path of a directory.", pattern: pattern.directory, maxLength: 1024 }),
        {
          description: "Directories that are saved for each tenant on release; none inside another.",
          maxItems: 32,
          ...setList,
          ...rules({
            rule: "self.all(outer, self.all(inner, inner == outer || !(inner.endsWith('/') ? inner : inner + '/').startsWith(outer.endsWith('/') ? outer : outer + '/')))",
            message: "no directory may lie inside another, which saves it already: leave the inner one out",
          }),
        },
      ),
    ),
    preSave: Type.Optional(preSaveSchema),
  },
  {
    description: "What of the filesystem outlives an instance.",
    ...rules({
      rule: "!has(self.preSave) || has(self.overlayDirs) && size(self.overlayDirs) > 0",
      message: "preSave needs overlayDirs: without them nothing is saved",
    }),
  },
);

const healthSchema = Type.Object(
  {
    intervalSeconds: Type.Optional(
      Type.Integer({ description: "Seconds between probes.", minimum: 1, maximum: 3600, default: 10 }),
    ),
    unhealthyThreshold: Type.Optional(
      Type.Integer({ description: "Failures in a row until unhealthy.", minimum: 1, maximum: 1000, default: 3 }),
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
        { description: "A GET that a healthy container answers with 200 to 399." },
      ),
    ),
  },
  {
    description:
      "How to tell that the container is healthy. Without it, an instance is ready when its first port takes connections, and without ports when its program has run for 2 s.",
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
    workdir: Type.Optional(
      Type.String({ description: "Absolute working directory.", pattern: pattern.absolutePath, maxLength: 1024 }),
    ),
  },
  { description: "What the container runs." },
);

/** `spec` of a workload. */
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
    health: Type.Optional(healthSchema),
    entrypoint: Type.Optional(entrypointSchema),
    service: Type.Optional(
      Type.Boolean({
        description:
          "Whether each claim gets a Service with its name, which leads to its pod while it is Active. The Service has a cluster IP, which a resolver may cache; pod IPs are reused by other tenants.",
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
  },
  { description: "A declarative description of a container." },
);

/** `status.build` of a workload. */
export const buildStatusSchema = Type.Object(
  {
    key: Type.Optional(
      Type.String({
        description: "SHA-256 of all that the image is made of; absent while there is no context.",
        maxLength: 64,
      }),
    ),
    request: Type.Optional(
      Type.String({
        description: "What this is about: a digest of the spec's image and of the annotations on builds.",
        maxLength: 64,
      }),
    ),
    state: stringEnum(["Pending", "Building", "Built", "Failed"], {
      description: "Pending waits for its turn (TENANCY_BUILD_CONCURRENCY), or for its next try.",
    }),
    reason: Type.Optional(
      Type.String({ description: "Why it failed or waits: one word for programs.", maxLength: 256 }),
    ),
    message: Type.Optional(Type.String({ description: "The same in sentences for people.", maxLength: 32768 })),
    requestedAt: Type.Optional(Type.String({ description: "When it was asked for.", format: "date-time" })),
    startedAt: Type.Optional(Type.String({ description: "When the build began.", format: "date-time" })),
    finishedAt: Type.Optional(Type.String({ description: "When it ended.", format: "date-time" })),
    digest: Type.Optional(Type.String({ description: "Digest of the image.", maxLength: 128 })),
    steps: Type.Optional(Type.Integer({ description: "Steps of the build file.", minimum: 0 })),
    cached: Type.Optional(Type.Integer({ description: "How many of them were in the cache.", minimum: 0 })),
    commit: Type.Optional(Type.String({ description: "Git commit that was built.", maxLength: 64 })),
    tries: Type.Optional(
      Type.Integer({
        description: "How many attempts failed for a cause that may pass; each is followed by another.",
        minimum: 0,
      }),
    ),
  },
  { description: "The build of the spec's image: the one under way, or the last one." },
);

/** `status` of a workload. */
export const workloadStatusSchema = Type.Object(
  {
    phase: stringEnum(["Creating", "Building", "Ready", "Error", "Terminating"], {
      description: "Where the workload stands.",
      default: "Creating",
    }),
    reason: Type.Optional(Type.String({ description: "One word for programs.", maxLength: 256 })),
    message: Type.Optional(Type.String({ description: "A sentence for people.", maxLength: 32768 })),
    observedGeneration: Type.Optional(Type.Integer({ description: "Generation of the spec that this is about." })),
    templateHash: Type.Optional(Type.String({ description: "Hash of the pod template.", maxLength: 128 })),
    runsAsRoot: Type.Optional(
      Type.Boolean({
        description: "Whether the image turned out to run as root, so that pods are made without runAsNonRoot.",
      }),
    ),
    image: Type.Optional(
      Type.String({ description: "The image that was built last and that pods run, by its digest.", maxLength: 1024 }),
    ),
    build: Type.Optional(buildStatusSchema),
    conditions: Type.Optional(conditionsSchema),
  },
  { description: "What the operator found.", default: { phase: "Creating", conditions: notObserved } },
);

/** Static type of {@link workloadSpecSchema}, before defaults. */
export type WorkloadSpec = Static<typeof workloadSpecSchema>;

/** Static type of {@link workloadStatusSchema}. */
export type WorkloadStatus = Static<typeof workloadStatusSchema>;

/** How the build of a workload's image stands. */
export type BuildStatus = NonNullable<WorkloadStatus["build"]>;

/** A TenancyWorkload. */
export interface Workload extends KubernetesObject {
  spec: WorkloadSpec;
  status?: WorkloadStatus;
}

/** What the workload's pods run; undefined for an image that is not built yet. */
export function imageOf({ spec, status }: Workload): string | undefined {
  return spec.image.dockerfile === undefined ? spec.image.ref : status?.image;
}
