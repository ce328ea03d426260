import { type Static, type TInteger, type TNumber, type TProperties, Type } from "@sinclair/typebox";
import { claimSpecSchema, claimStatusSchema } from "../../../crds/claim.ts";
import { poolSpecSchema, poolStatusSchema } from "../../../crds/pool.ts";
import { pattern } from "../../../crds/schema/patterns.ts";
import { type JsonSchema, plainSchema, stringEnum, stringMap } from "../../../crds/schema/schema.ts";
import { triggerSpecSchema } from "../../../crds/trigger.ts";
import { buildStatusSchema, workloadSpecSchema, workloadStatusSchema } from "../../../crds/workload.ts";
import { roles } from "../../access/actor.ts";
import { insideSchemas } from "./inside-schemas.ts";
import { type OpenApiSchema, requestSchema } from "./request-schemas.ts";
import { savedFileSchemas } from "./saved-file-schemas.ts";

export const tenantIdSchema: OpenApiSchema = { type: "string", pattern: pattern.tenantId, maxLength: 63 };
export const nameSchema: OpenApiSchema = { type: "string", pattern: pattern.subdomain, maxLength: 63 };

const { phase: workloadPhase, image: builtImage, build, images } = workloadStatusSchema.properties;
const { phase: poolPhase, ready, warming, desired, scaling } = poolStatusSchema.properties;
const { phase: claimPhase, source, endpoint } = claimStatusSchema.properties;
const { timeline, conditions, resumedFrom, restoredFrom, snapshot, files } = claimStatusSchema.properties;
const { properties: buildProperties } = buildStatusSchema;
const time = (description: string) => Type.String({ description, format: "date-time" });
const text = (description: string) => Type.String({ description });
const limitValue = Type.Integer({ description: "The limit.", minimum: 0 });
const whole = Type.Integer({ description: "What is used.", minimum: 0 });
const usedLimit = (description: string, used: TInteger | TNumber = whole) =>
  Type.Optional(Type.Object({ limit: limitValue, used }, { description }));
const limitAlone = (description: string) => Type.Optional(Type.Object({ limit: limitValue }, { description }));
const podPhase = stringEnum(["Pending", "Running", "Succeeded", "Failed", "Unknown"], {
  description: "Phase of the pod.",
});
const triggerPhase = Type.Optional(
  stringEnum(["Active", "Error"], { description: "Absent until the gateway has reconciled it." }),
);
/** The public part of an object, shown by `/ws`, which may require no key. */
const openObject = <Fields extends TProperties>(noun: string, fields: Fields) =>
  Type.Object(
    {
      name: text(`Name of the ${noun}.`),
      generation: Type.Integer({ description: "Increases with each change of the spec." }),
      createdAt: time("When it was created."),
      ...fields,
    },
    { description: `The part of a ${noun} that an event contains.` },
  );
const counts = (what: string) =>
  Type.Object(
    {
      total: Type.Integer({ description: `Number of ${what}.` }),
      byPhase: Type.Unsafe<Record<string, number>>({
        type: "object",
        additionalProperties: { type: "integer" },
        description: "Number in each phase that occurs.",
      }),
    },
    { description: `Number of ${what}.` },
  );
const done = (word: string) => stringEnum([word], { description: "The action." });
const createdAt = time("When it was created.");

const auditRecord = Type.Object(
  {
    time: time("When the record was made."),
    requestId: text("The request's `x-request-id`, which a client may choose."),
    stage: stringEnum(["ResponseStarted", "ResponseComplete"], {
      description: "`ResponseStarted`: a WebSocket was opened, or a streamed answer has begun.",
    }),
    actor: Type.Object(
      {
        kind: text("Such as `root` or `key`; `anonymous` where no key is required, `unknown` without a valid key."),
        id: Type.Optional(text("Id of the key, person or account.")),
      },
      { description: "Who made the request." },
    ),
    address: Type.Optional(text("IP address of the client.")),
    act: stringEnum(["change", "look"], { description: "Whether it can change something." }),
    method: text("Method of the request; `_OTHER` for one that no route has."),
    route: text("Pattern of the route; `*` for none."),
    object: stringMap({ maxLength: 513 }, { description: "What the request is about, by the kind of thing." }),
    status: Type.Integer({ description: "Status of the answer." }),
    outcome: stringEnum(["done", "refused", "failed", "aborted"], {
      description: "By the status. `aborted`: the client left before the answer.",
    }),
    source: Type.Optional(text("Where the pod of a claim came from.")),
    closeCode: Type.Optional(Type.Integer({ description: "How the server closed a WebSocket." })),
    ms: Type.Number({ minimum: 0, description: "Milliseconds since the request." }),
  },
  { description: "One request." },
);

const series = (description: string) =>
  Type.Array(Type.Integer({ minimum: 0, description: "In one step." }), {
    description: `${description} One number per step.`,
  });
const latency = (description: string) =>
  Type.Union([Type.Integer({ minimum: 1 }), Type.Null()], {
    description: `${description} Null if there is no measurement.`,
  });
const latencies = (description: string) =>
  Type.Array(latency(description), { description: "A number per step, or null." });
const seriesBasics = {
  since: time("When the first step began: an hour ago, or when the replica started."),
  replica: text("Name of the replica that answers; each has its own history."),
  stepSeconds: Type.Integer({ description: "Length of a step; the last step is incomplete.", minimum: 1 }),
};

const delivery = {
  id: text("The event's."),
  at: time("When it arrived."),
  result: stringEnum(
    ["answered", "denied", "refused", "failed", "aborted", "repeated", "unsigned", "rejected", "missed"],
    { description: "The result, with the values of tenancy_gateway_events_total." },
  ),
  tenantId: Type.Optional(text("The tenant, once it was known.")),
  status: Type.Optional(Type.Integer({ description: "The status sent to its source." })),
  ms: Type.Number({ description: "Milliseconds from arrival to response.", minimum: 0 }),
  source,
  instanceId: Type.Optional(text("Name of the pod that it was sent to.")),
  reason: Type.Optional(text("Why it was not answered; the trigger's Events have details.")),
  test: Type.Optional(Type.Boolean({ description: "True if a caller of the API sent it." })),
};

const claim = Type.Object(
  {
    tenantId: text("The tenant."),
    phase: claimPhase,
    instanceId: Type.Optional(text("Name of the pod, once there is one.")),
    endpoint,
    zone: claimStatusSchema.properties.zone,
    source,
    claimedAt: Type.Optional(time("When the pod was bound.")),
    expiresAt: Type.Optional(
      time("When the claim is released, even while it is in use; absent if it does not expire."),
    ),
    labels: claimSpecSchema.properties.labels,
    workloadRef: text("The workload."),
    reason: Type.Optional(text("One word for programs, if something is wrong.")),
    message: Type.Optional(text("A sentence for people.")),
  },
  { description: "The claim response object: a tenant's lease on an instance of a workload." },
);

const instance = {
  name: text("Name of the pod, the {id} of instance paths."),
  phase: podPhase,
  ready: Type.Boolean({ description: "Whether its readiness probe passes." }),
  restarts: Type.Integer({ description: "Number of restarts of its containers.", minimum: 0 }),
  reason: Type.Optional(
    text("What keeps it from working: Kubernetes' own reason, such as CrashLoopBackOff or Unschedulable."),
  ),
  tenantId: Type.Optional(text("The tenant; absent while it is warm in a pool.")),
  workloadRef: Type.Optional(text("The workload.")),
  ip: Type.Optional(text("Address of the pod, once it has one.")),
  labels: stringMap({ maxLength: 63 }, { description: "All labels of the pod." }),
  createdAt,
  lastActivity: Type.Optional(
    time("When it was last used; written at most once in a tenth of the idle timeout, or once a minute without one."),
  ),
  claimedAt: Type.Optional(time("When it was bound to its claim.")),
};
const listedClaim = {
  ...claim.properties,
  name: text("Name of the claim object."),
  uid: text("Uid of the claim object: a later claim of the same name has another one."),
  createdAt,
  resume: Type.Boolean({ description: "Whether it requests the saved files." }),
  resumeVersion: Type.Optional(text("The requested version.")),
};
const objectEvent = Type.Object(
  {
    about: stringEnum(["claim", "instance"], { description: "The object that it is about." }),
    type: text("Normal or Warning."),
    reason: text("One word for programs."),
    message: text("A sentence for people."),
    count: Type.Optional(Type.Integer({ description: "Number of occurrences." })),
    at: time("When it last happened."),
  },
  { description: "An Event stored by the cluster." },
);
const eventsProblem = Type.Optional(text("Why there are no `events`, if they cannot be read."));
const amounts = (description: string) => Type.Optional(stringMap({ maxLength: 63 }, { description }));
const container = Type.Object(
  {
    name: text("Name of the container."),
    image: text("Its image."),
    state: stringEnum(["waiting", "running", "terminated"], { description: "Its state." }),
    reason: Type.Optional(text("Why it waits or has terminated, in one word.")),
    message: Type.Optional(text("The same as a sentence.")),
    ready: Type.Boolean({ description: "Whether its readiness probe passes." }),
    restarts: Type.Integer({ description: "Number of its restarts." }),
    requests: amounts("Its resource requests."),
    limits: amounts("Its resource limits."),
  },
  { description: "A container of the pod." },
);

const keptAs = Type.Union([Type.Literal("history"), Type.Literal("replaced")], {
  description:
    "Why an older version is kept: `history` if a later session started from it, `replaced` if a session that did not start from it took its place.",
});

const archiveKind = Type.Literal("checkpoint", {
  description:
    "`checkpoint` for an older version that was saved while its session was running; absent for other versions.",
});

/** The name of a saved version. */
export const versionNameSchema: OpenApiSchema = {
  ...{ type: "string", pattern: pattern.labelName, maxLength: 63, not: { pattern: pattern.archiveVersion } },
};

const key = {
  id: text("Public; the part of the key between `tk_` and the next `_`."),
  name: text("What it is for."),
  role: stringEnum([...roles], { description: "What it may do." }),
  tenants: Type.Optional(
    Type.Array(text("An id, or the start of ids and a `*`."), {
      description: "The tenants that it reaches; absent if it reaches all.",
    }),
  ),
  workloads: Type.Optional(
    Type.Array(text("A name, or the start of names and a `*`."), {
      description: "The workloads that it reaches; absent if it reaches all.",
    }),
  ),
  requestsPerSecond: Type.Optional(
    Type.Integer({ minimum: 1, description: "How many requests a second it may make of each replica." }),
  ),
  createdAt,
  expiresAt: Type.Optional(time("When it ends; absent if it does not expire.")),
};

/** A tenant's class, and its limits with what is used of them. */
const tenantQuota = {
  class: Type.Optional(text("The class that the limits come from.")),
  limits: Type.Object(
    {
      activeClaims: usedLimit("Claims that have an instance, or get one."),
      vcpus: usedLimit(
        "vCPUs of their instances together.",
        Type.Number({ description: "What is used, in thousandths.", minimum: 0 }),
      ),
      memoryMb: usedLimit("Memory of their instances together, in MB."),
      startsPerMinute: limitAlone("Instances that the tenant gets in 60 seconds."),
      snapshotMb: usedLimit("MB of the tenant's saved files, with older versions."),
      requestsPerSecond: limitAlone(
        "Requests through each replica of the edge: to the front door, and of the tenant's keys to the API.",
      ),
      bytesPerSecond: limitAlone("Bytes of the bodies of these requests and of their answers."),
      terminals: limitAlone("WebSockets that are attached to processes, on each replica of the edge."),
    },
    { description: "The limits that hold." },
  ),
};

const archiveNames = Type.Array(text("A name."), {
  description: "The names that a person gave it: it stays as long as it has one. Absent without a name.",
});

const shared = {
  Error: Type.Object({ error: text("What was wrong, and what to do.") }, { description: "Body of every error." }),
  Health: Type.Object({ status: done("ok") }, { description: "The process is alive." }),
  Session: Type.Object(
    {
      asksForKey: Type.Boolean({ description: "Whether the server requires a key." }),
      active: Type.Boolean({ description: "Whether the caller has a session, or needs none." }),
      expiresAt: Type.Optional(time("When the session ends.")),
      role: Type.Optional(stringEnum([...roles], { description: "What the session may do; absent without one." })),
      tenants: Type.Optional(
        Type.Array(text("The id of a tenant, or the start of ids and a `*`."), {
          description: "The tenants that the session reaches; absent for all.",
        }),
      ),
      provider: Type.Optional(text("The host of the OpenID provider at which people can log in.")),
    },
    { description: "A browser's session, which replaces the key." },
  ),
  Key: Type.Object(key, { description: "A key of the API without its text." }),
  CreatedKey: Type.Object(
    { ...key, key: text("The key, for `Authorization: Bearer`; no other answer has it.") },
    { description: "A new key." },
  ),
  Usage: Type.Object(
    {
      tenantId: Type.Optional(text("The tenant, by `tenant`.")),
      workload: Type.Optional(text("The workload, by `workload`.")),
      day: Type.Optional(Type.String({ description: "The day of UTC, by `day`.", format: "date" })),
      sessions: Type.Integer({ description: "Sessions that ended.", minimum: 0 }),
      seconds: Type.Number({ description: "Time of all instances together.", minimum: 0 }),
      vcpuSeconds: Type.Number({ description: "CPU limits of the workloads, times seconds.", minimum: 0 }),
      mibSeconds: Type.Number({ description: "Memory limits in MiB, times seconds.", minimum: 0 }),
      snapshotByteHours: Type.Number({
        description: "Bytes of snapshots, with older versions, times hours.",
        minimum: 0,
      }),
      sources: Type.Unsafe<Record<string, number>>({
        type: "object",
        additionalProperties: { type: "integer" },
        description: "The sessions by how their instance was found.",
      }),
    },
    { description: "What sessions and snapshots used." },
  ),
  Stats: Type.Object(
    {
      ...{ instances: counts("instances"), claims: counts("claims") },
      snapshots: Type.Optional(
        Type.Object(
          {
            archives: Type.Integer({ description: "Number of snapshots; each older version counts.", minimum: 0 }),
            bytes: Type.Integer({ description: "Their total bytes.", minimum: 0 }),
          },
          { description: "Storage used by snapshots, up to a few minutes old; absent if unknown." },
        ),
      ),
      snapshotLimits: Type.Optional(
        Type.Object(
          {
            tenantBytes: Type.Optional(Type.Integer({ description: "Limit in bytes per tenant.", minimum: 0 })),
            workloadBytes: Type.Optional(
              Type.Integer({ description: "Limit in bytes of all tenants of a workload.", minimum: 0 }),
            ),
          },
          { description: "Storage limits of snapshots with older versions; absent if there are none." },
        ),
      ),
    },
    { description: "Instances and claims by phase, and the storage used by snapshots and its limits." },
  ),
  WorkloadSpec: workloadSpecSchema,
  Workload: Type.Object(
    {
      name: text("Name of the workload."),
      spec: workloadSpecSchema,
      status: Type.Object(
        {
          phase: workloadPhase,
          reason: Type.Optional(text("One word for programs, if something is wrong.")),
          message: Type.Optional(text("What to change.")),
          image: builtImage,
          build,
          images,
        },
        { description: "The operator's result." },
      ),
      createdAt,
    },
    { description: "A declarative description of a container." },
  ),
  PoolSpec: poolSpecSchema,
  Pool: Type.Object(
    {
      name: text("Name of the pool."),
      spec: poolSpecSchema,
      status: Type.Object(
        {
          ...{ phase: poolPhase, ready, warming, desired, scaling },
          reason: Type.Optional(text("One word for programs, if something is wrong.")),
          message: Type.Optional(text("A sentence for people.")),
        },
        { description: "The operator's result." },
      ),
      createdAt,
    },
    { description: "Pods of a workload that are started before a tenant claims them." },
  ),
  Build: Type.Object(
    {
      workload: text("Name of the workload."),
      ...buildProperties,
      context: Type.Optional(text("SHA-256 of the last uploaded build context.")),
      image: builtImage,
    },
    {
      description:
        "State of a workload's image build: the build for the current spec, context and rebuild request. `image` is what pods run until it has finished.",
    },
  ),
  Context: Type.Object(
    {
      sha256: text("SHA-256 of the upload in hexadecimal digits."),
      sizeBytes: Type.Integer({ description: "Size of the upload in bytes.", minimum: 0 }),
    },
    { description: "A stored build context." },
  ),
  Snapshot: Type.Object(
    {
      tenantId: text("The tenant."),
      workloadRef: text("The workload."),
      path: text("Path on the snapshots volume."),
      version: Type.Optional(text("Of an older version: its name for `resume.version` of a claim.")),
      sizeBytes: Type.Integer({ description: "Bytes of the archive.", minimum: 0 }),
      sha256: Type.Optional(
        text(
          "SHA-256 of the archive in hexadecimal digits; absent if the archive's metadata is lost, so that it cannot be restored.",
        ),
      ),
      createdAt: time("When it was saved."),
      kept: Type.Optional(keptAs),
      kind: Type.Optional(archiveKind),
      names: Type.Optional(archiveNames),
    },
    { description: "A snapshot of a tenant's overlay directories." },
  ),
  SnapshotVersion: Type.Object(
    {
      tenantId: text("The tenant."),
      workloadRef: text("The workload."),
      path: text("Path on the snapshots volume."),
      version: text("Its name for `resume.version` of a claim."),
      sizeBytes: Type.Integer({ description: "Bytes of the archive.", minimum: 0 }),
      sha256: text("SHA-256 of the archive in hexadecimal digits."),
      createdAt: time("When it was saved, or became the newest by a rollback or a copy."),
      newest: Type.Boolean({ description: "Whether a claim with `resume: true` restores it." }),
      kept: Type.Optional(keptAs),
      kind: Type.Optional(archiveKind),
      names: Type.Optional(archiveNames),
    },
    { description: "A version of a snapshot of a tenant's overlay directories." },
  ),
  ...savedFileSchemas,
  ...insideSchemas,
  Claim: claim,
  Link: Type.Object(
    {
      url: text("The address with its token: it admits everyone who has it."),
      expiresAt: time("When the link and the browser sessions made with it end."),
      tenantId: text("The tenant."),
      workloadRef: text("The workload."),
    },
    { description: "A signed address of a tenant's instance at the front door." },
  ),
  ListedClaim: Type.Object(listedClaim, { description: "A claim as shown in lists." }),
  ClaimDetail: Type.Object(
    {
      ...listedClaim,
      requestedAt: Type.Optional(time("Time of the last API request for it; absent if it was not made by the API.")),
      releasingSince: Type.Optional(time("When its release was requested, in whole seconds.")),
      ...{ timeline, conditions, resumedFrom, restoredFrom, snapshot, files },
      url: Type.Optional(
        text(
          "Its address at the front door, without a token; absent if the workload's `network.expose` is `none`, or no front door is configured.",
        ),
      ),
      expose: Type.Optional(
        stringEnum(["link", "key", "public"], {
          description: "With `url`: what admits a visitor, by the workload's `network.expose`.",
        }),
      ),
      waitsFor: Type.Optional(text("What it is waiting for, as a sentence.")),
      events: Type.Optional(Type.Array(objectEvent, { description: "Events of the claim and its pod, oldest first." })),
      eventsProblem,
    },
    { description: "A claim with the steps of its start and its Events." },
  ),
  ObjectEvent: objectEvent,
  Tenant: Type.Object(
    { tenantId: text("The tenant."), claims: Type.Array(claim, { description: "Its claims, by workload." }) },
    { description: "A tenant and its claims; empty for a tenant without claims." },
  ),
  QuotaLimits: tenantQuota.limits,
  TenantLimits: Type.Object(
    {
      tenantId: text("The tenant."),
      ...tenantQuota,
      problem: Type.Optional(
        text(
          "What is wrong with the present quotas, so that earlier ones hold; only for the roles admin and platform.",
        ),
      ),
    },
    { description: "A tenant's quota, and what it uses of it." },
  ),
  TenantSummary: Type.Object(
    {
      tenantId: text("The tenant."),
      saved: Type.Object(
        {
          workloads: Type.Integer({ description: "Workloads of which it has saved files.", minimum: 0 }),
          versions: Type.Integer({ description: "Versions of them, the newest included.", minimum: 0 }),
          bytes: Type.Integer({ description: "What they take together.", minimum: 0 }),
        },
        { description: "Its saved files." },
      ),
      ...tenantQuota,
    },
    { description: "A tenant's saved files and quota." },
  ),
  Instance: Type.Object(instance, { description: "A managed pod." }),
  InstanceDetail: Type.Object(
    {
      ...instance,
      node: Type.Optional(text("The node that it is on.")),
      containers: Type.Optional(Type.Array(container, { description: "Its containers, init containers first." })),
      savedDirs: Type.Optional(
        Type.Array(text("A directory."), {
          description:
            "The directories that a release saves, fixed when the pod was made; empty if the pod has ended or is being deleted.",
        }),
      ),
      events: Type.Optional(Type.Array(objectEvent, { description: "Events of the pod, oldest first." })),
      eventsProblem,
    },
    { description: "A managed pod with the fields of `detail=true`." },
  ),
  ClaimHistory: Type.Object(
    {
      ...seriesBasics,
      sources: Type.Array(
        Type.Object(
          {
            source: stringEnum(["pool", "pool+data", "cold", "cold+data"], { description: "How the pod was found." }),
            claims: series("Claims that became Active."),
            p50Ms: latencies("Median."),
            p99Ms: latencies("99th percentile."),
            hour: Type.Object(
              {
                claims: Type.Integer({ description: "Claims that became Active." }),
                p50Ms: latency("Median."),
                p99Ms: latency("99th percentile."),
              },
              { description: "The whole recorded time." },
            ),
          },
          { description: "The claims of one source." },
        ),
        { description: "By source of the pod." },
      ),
      errors: series("Claims that ended in `Error`."),
      reasons: Type.Array(
        Type.Object(
          { reason: text("The claim's reason, or Other."), count: Type.Integer({ description: "How many." }) },
          { description: "A reason." },
        ),
        { description: "Errors by reason, most frequent first.", maxItems: 9 },
      ),
    },
    {
      description:
        "Claims of the last hour as recorded by one replica. Milliseconds are from the request to the pod, accurate to about an eighth.",
    },
  ),
  PoolHistory: Type.Object(
    {
      ...seriesBasics,
      ready: series("Pods that could be claimed, at the step's end."),
      lowest: series("The fewest of them during the step; a burst lowers it only for a moment."),
      warming: series("Pods that were starting, at the step's end."),
      refilled: series("Pods that became ready."),
      hits: series("Pods that were given to a claim."),
      misses: series("Claims of the pool's workload that became Active with a cold pod."),
    },
    { description: "A pool in the last hour, as recorded by one replica." },
  ),
  ExecOutcome: Type.Object(
    {
      stdout: text("Standard output, at most 1 MiB."),
      stderr: text("Standard error, at most 1 MiB."),
      exitCode: Type.Integer({ description: "The command's own exit code." }),
      truncated: Type.Optional(Type.Boolean({ description: "True if more was printed than returned." })),
    },
    { description: "Result of a command." },
  ),
  Deliveries: Type.Object(
    {
      replica: text("Name of the replica that answers; each has its own history."),
      since: time("When it started."),
      deliveries: Type.Array(Type.Object(delivery, { description: "Result of an event." }), {
        description: "Newest first.",
        maxItems: 50,
      }),
    },
    { description: "Results of a trigger's last events on one replica." },
  ),
  AuditLog: Type.Object(
    {
      replica: text("Name of the replica that answers; each has its own records."),
      since: time("From then on the replica has every record."),
      omitted: Type.Integer({
        minimum: 0,
        description: "Requests without a valid key that were too many to be recorded, since the replica's start.",
      }),
      records: Type.Array(auditRecord, { description: "Newest first.", maxItems: 1000 }),
    },
    { description: "Who changed or looked at what, on one replica." },
  ),
  TestDelivery: Type.Object(
    {
      ...delivery,
      contentType: Type.Optional(text("Media type of the container's response.")),
      body: Type.Optional(text("The container's response as text, at most 64 KiB.")),
      truncated: Type.Optional(Type.Boolean({ description: "True if there was more." })),
      message: Type.Optional(
        text("The message that the source would have received, if the container did not respond."),
      ),
    },
    { description: "Result of a test event." },
  ),
  TriggerSpec: triggerSpecSchema,
  Trigger: Type.Object(
    {
      name: text("Name of the trigger."),
      spec: triggerSpecSchema,
      status: Type.Object(
        {
          phase: triggerPhase,
          detail: Type.Optional(text("The gateway's message.")),
        },
        { description: "The gateway's result." },
      ),
      createdAt,
    },
    { description: "Connects an event from outside to a claim." },
  ),
  OpenWorkload: openObject("workload", {
    phase: workloadPhase,
    reason: Type.Optional(text("One word for programs, if something is wrong.")),
  }),
  OpenPool: openObject("pool", {
    workloadRef: text("The workload."),
    size: Type.Integer({ description: "Number of warm pods that it aims for.", minimum: 0 }),
    ...{ phase: poolPhase, ready, warming, desired },
    reason: Type.Optional(text("One word for programs, if something is wrong.")),
  }),
  OpenTrigger: openObject("trigger", {
    type: triggerSpecSchema.properties.type,
    workloadRef: text("The workload."),
    phase: triggerPhase,
  }),
  Pong: Type.Object(
    {
      id: text("Id of the newest event, for `since`."),
      type: done("pong"),
      time: time("The server's clock."),
      fresh: Type.Boolean({ description: "Whether the server's cache of the cluster is fresh." }),
      versions: Type.Unsafe<Partial<Record<"claims" | "instances" | "workloads" | "pools" | "triggers", string>>>({
        type: "object",
        additionalProperties: { type: "string" },
        description:
          "By kind: the version up to which this connection has delivered changes. A list whose `x-tenancy-version` is at least this contains all of them, and later changes arrive on the connection.",
      }),
    },
    { description: "Response of `/ws` to the text `ping`." },
  ),
};

/** The types of the shared schemas, for the dashboard, which uses only the documented API. */
export type ApiTypes = { [Name in keyof typeof shared]: Static<(typeof shared)[Name]> };

/** Names of the shared schemas. */
export type SchemaName = keyof typeof shared;

/** The shared schemas as plain JSON Schema, without Kubernetes' own keywords. */
export const schemas = Object.fromEntries(
  Object.entries(shared).map(([name, schema]) => {
    const plain = plainSchema(schema);
    return [name, name.endsWith("Spec") ? requestSchema(plain, name) : portable(plain)];
  }),
) as Readonly<Record<SchemaName, OpenApiSchema>>;

const doneTo = {
  tenantId: text("The tenant."),
  workload: text("The workload."),
  instance: text("Name of the pod."),
  id: text("Id of the key."),
  expiresAt: time("When the claim expires."),
  files,
};

/** A body that names the action and its object. */
export function doneSchema(word: string, ...about: (keyof typeof doneTo)[]): JsonSchema {
  return plainSchema(
    Type.Object(
      { status: done(word), ...Object.fromEntries(about.map((name) => [name, doneTo[name]])) },
      { description: "The action and its object." },
    ),
  );
}

/** A body of `{name, spec}`, as `readSpecBody` reads it. */
export function specBodySchema(spec: SchemaName): OpenApiSchema {
  return {
    type: "object",
    additionalProperties: false,
    required: ["name", "spec"],
    properties: {
      name: { ...nameSchema, description: "A DNS-1123 name of at most 63 characters." },
      spec: { $ref: `#/components/schemas/${spec}` },
      status: { description: "Ignored, so that a response can be sent back." },
      createdAt: { description: "Ignored, so that a response can be sent back." },
    },
  };
}

function portable(schema: JsonSchema): JsonSchema {
  return JSON.parse(
    JSON.stringify(schema, (key, value: unknown) => {
      if (key.startsWith("x-kubernetes-")) return undefined;
      if (typeof value !== "object" || value === null || !("x-kubernetes-preserve-unknown-fields" in value))
        return value;
      return { ...value, additionalProperties: {} };
    }),
  ) as JsonSchema;
}
