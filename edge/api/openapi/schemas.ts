import { type Static, type TProperties, Type } from "@sinclair/typebox";
import { claimStatusSchema } from "../../../crds/claim.ts";
import { poolSpecSchema, poolStatusSchema } from "../../../crds/pool.ts";
import { pattern } from "../../../crds/schema/patterns.ts";
import { type JsonSchema, plainSchema, stringEnum, stringMap } from "../../../crds/schema/schema.ts";
import { triggerSpecSchema } from "../../../crds/trigger.ts";
import { buildStatusSchema, workloadSpecSchema, workloadStatusSchema } from "../../../crds/workload.ts";
import { type OpenApiSchema, requestSchema } from "./request-schemas.ts";

/** The schema of a tenant's id. */
export const tenantIdSchema: OpenApiSchema = { type: "string", pattern: pattern.tenantId, maxLength: 63 };
/** The schema of the name of a workload, a pool or a trigger. */
export const nameSchema: OpenApiSchema = { type: "string", pattern: pattern.subdomain, maxLength: 63 };

const { phase: workloadPhase, image: builtImage, build } = workloadStatusSchema.properties;
const { phase: poolPhase, ready, warming, desired } = poolStatusSchema.properties;
const { phase: claimPhase, source, endpoint } = claimStatusSchema.properties;
const { timeline, conditions, resumedFrom, snapshot, files } = claimStatusSchema.properties;
const { properties: buildProperties } = buildStatusSchema;
const time = (description: string) => Type.String({ description, format: "date-time" });
const text = (description: string) => Type.String({ description });
const podPhase = stringEnum(["Pending", "Running", "Succeeded", "Failed", "Unknown"], {
  description: "Phase of the pod.",
});
const triggerPhase = Type.Optional(
  stringEnum(["Active", "Error"], { description: "Absent until the gateway has looked at it." }),
);
/** What `/ws`, which may ask for no key, shows of an object that a person made. */
const openObject = <Fields extends TProperties>(noun: string, fields: Fields) =>
  Type.Object(
    {
      name: text(`Name of the ${noun}.`),
      generation: Type.Integer({ description: "Grows with each change of the spec." }),
      createdAt: time("When it was created."),
      ...fields,
    },
    { description: `What an event shows of a ${noun}.` },
  );
const counts = (what: string) =>
  Type.Object(
    {
      total: Type.Integer({ description: `Number of ${what}.` }),
      byPhase: Type.Unsafe<Record<string, number>>({
        type: "object",
        additionalProperties: { type: "integer" },
        description: "Number in each phase that has any.",
      }),
    },
    { description: `How many ${what} there are.` },
  );
const done = (word: string) => stringEnum([word], { description: "What was done." });
const createdAt = time("When it was created.");

const series = (description: string) =>
  Type.Array(Type.Integer({ minimum: 0, description: "In one step." }), {
    description: `${description} A number a step.`,
  });
const latency = (description: string) =>
  Type.Union([Type.Integer({ minimum: 1 }), Type.Null()], {
    description: `${description} Null where none was measured.`,
  });
const latencies = (description: string) =>
  Type.Array(latency(description), { description: "A number a step, or null." });
const seriesBasics = {
  since: time("When the first step began: an hour ago, or when the replica started."),
  replica: text("A word for the replica that answers; each remembers by itself."),
  stepSeconds: Type.Integer({ description: "Length of a step, the last of which is not over.", minimum: 1 }),
};

const delivery = {
  id: text("The event's."),
  at: time("When it arrived."),
  result: stringEnum(
    ["answered", "denied", "refused", "failed", "aborted", "repeated", "unsigned", "rejected", "missed"],
    { description: "What became of it, as tenancy_gateway_events_total counts it." },
  ),
  tenantId: Type.Optional(text("The tenant, once it was known.")),
  status: Type.Optional(Type.Integer({ description: "The status that its source was answered with." })),
  ms: Type.Number({ description: "Milliseconds from its arrival to its answer.", minimum: 0 }),
  source,
  instanceId: Type.Optional(text("Name of the pod that it was sent to.")),
  reason: Type.Optional(text("Why it was not answered; the trigger's Events tell more.")),
  test: Type.Optional(Type.Boolean({ description: "True where a caller of the API sent it." })),
};

const claim = Type.Object(
  {
    tenantId: text("The tenant."),
    phase: claimPhase,
    instanceId: Type.Optional(text("Name of the pod, once there is one.")),
    endpoint,
    source,
    claimedAt: Type.Optional(time("When the pod was bound.")),
    workloadRef: text("The workload."),
    reason: Type.Optional(text("One word for programs, where something is wrong.")),
    message: Type.Optional(text("A sentence for people.")),
  },
  { description: "The claim response object: a tenant's lease on an instance of a workload." },
);

const instance = {
  name: text("Name of the pod, the {id} of instance paths."),
  phase: podPhase,
  ready: Type.Boolean({ description: "Whether its program answers, by its probe." }),
  restarts: Type.Integer({ description: "How often its containers were started again.", minimum: 0 }),
  reason: Type.Optional(
    text("What keeps it from its work, in Kubernetes' own word, such as CrashLoopBackOff or Unschedulable."),
  ),
  tenantId: Type.Optional(text("The tenant; absent while it is warm in a pool.")),
  workloadRef: Type.Optional(text("The workload.")),
  ip: Type.Optional(text("Address of the pod, once it has one.")),
  labels: stringMap({ maxLength: 63 }, { description: "All labels of the pod." }),
  createdAt,
  lastActivity: Type.Optional(
    time("When it was last used; written at most once in a tenth of the idle time, or once a minute without one."),
  ),
  claimedAt: Type.Optional(time("When it was bound to its claim.")),
};
const listedClaim = {
  ...claim.properties,
  name: text("Name of the claim object."),
  uid: text("Of the claim object: another claim of the same name has another one."),
  createdAt,
  resume: Type.Boolean({ description: "Whether it asks for what was saved." }),
  resumeVersion: Type.Optional(text("Which version it asks for.")),
};
const objectEvent = Type.Object(
  {
    about: stringEnum(["claim", "instance"], { description: "What it is about." }),
    type: text("Normal, or Warning."),
    reason: text("One word for programs."),
    message: text("A sentence for people."),
    count: Type.Optional(Type.Integer({ description: "How often it happened." })),
    at: time("When it happened last."),
  },
  { description: "An Event that the cluster keeps." },
);
const eventsProblem = Type.Optional(text("Why there are no `events`, where they cannot be read."));
const amounts = (description: string) => Type.Optional(stringMap({ maxLength: 63 }, { description }));
const container = Type.Object(
  {
    name: text("Name of the container."),
    image: text("Its image."),
    state: stringEnum(["waiting", "running", "terminated"], { description: "What it does." }),
    reason: Type.Optional(text("Why it waits or has ended, in one word.")),
    message: Type.Optional(text("The same in a sentence.")),
    ready: Type.Boolean({ description: "Whether its probe says that it is ready." }),
    restarts: Type.Integer({ description: "How often it was started again." }),
    requests: amounts("What is kept for it, by resource."),
    limits: amounts("What it may use, by resource."),
  },
  { description: "A container of the pod." },
);

const keptAs = Type.Union([Type.Literal("history"), Type.Literal("replaced")], {
  description: "Why an older version stays: its session went on from it, or one that did not has taken its place.",
});

const shared = {
  Error: Type.Object({ error: text("What was wrong, and what to do.") }, { description: "Every error's body." }),
  Health: Type.Object({ status: done("ok") }, { description: "The process is alive." }),
  Session: Type.Object(
    {
      asksForKey: Type.Boolean({ description: "Whether the server asks for a key." }),
      active: Type.Boolean({ description: "Whether the caller needs to give none (any more)." }),
      expiresAt: Type.Optional(time("When the session ends.")),
    },
    { description: "A browser's session, which stands for the key." },
  ),
  Stats: Type.Object(
    {
      ...{ instances: counts("instances"), claims: counts("claims") },
      snapshots: Type.Optional(
        Type.Object(
          {
            archives: Type.Integer({ description: "Snapshots, of which each older version is one.", minimum: 0 }),
            bytes: Type.Integer({ description: "Bytes of them.", minimum: 0 }),
          },
          { description: "What snapshots take, of some minutes ago; absent where that is not known." },
        ),
      ),
      snapshotLimits: Type.Optional(
        Type.Object(
          {
            tenantBytes: Type.Optional(Type.Integer({ description: "Bytes of one tenant's.", minimum: 0 })),
            workloadBytes: Type.Optional(
              Type.Integer({ description: "Bytes of all tenants' of a workload.", minimum: 0 }),
            ),
          },
          { description: "What snapshots may take, with older versions; absent where nothing limits them." },
        ),
      ),
    },
    { description: "Instances and claims by phase, and what snapshots take and may take." },
  ),
  WorkloadSpec: workloadSpecSchema,
  Workload: Type.Object(
    {
      name: text("Name of the workload."),
      spec: workloadSpecSchema,
      status: Type.Object(
        {
          phase: workloadPhase,
          reason: Type.Optional(text("One word for programs, where something is wrong.")),
          message: Type.Optional(text("What to change.")),
          image: builtImage,
          build,
        },
        { description: "What the operator found." },
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
          ...{ phase: poolPhase, ready, warming, desired },
          reason: Type.Optional(text("One word for programs, where something is wrong.")),
          message: Type.Optional(text("A sentence for people.")),
        },
        { description: "What the operator found." },
      ),
      createdAt,
    },
    { description: "Pods of a workload that are started before anybody claims them." },
  ),
  Build: Type.Object(
    {
      workload: text("Name of the workload."),
      ...buildProperties,
      context: Type.Optional(text("SHA-256 of the build context that was uploaded last.")),
      image: builtImage,
    },
    {
      description:
        "How it stands with the image of a workload that is built: the build that its spec, its context and its last request ask for. `image` is what pods run meanwhile.",
    },
  ),
  Context: Type.Object(
    {
      sha256: text("Of what was uploaded, in hexadecimal digits."),
      sizeBytes: Type.Integer({ description: "Bytes of it.", minimum: 0 }),
    },
    { description: "A build context that is kept." },
  ),
  Snapshot: Type.Object(
    {
      tenantId: text("The tenant."),
      workloadRef: text("The workload."),
      path: text("Path on the snapshots volume."),
      version: Type.Optional(text("Of one that is not the newest: what `resume.version` of a claim names it by.")),
      sizeBytes: Type.Integer({ description: "Bytes of the archive.", minimum: 0 }),
      sha256: Type.Optional(
        text(
          "SHA-256 of the archive in hexadecimal digits; absent where what was recorded beside the archive is lost, which cannot be restored then.",
        ),
      ),
      createdAt: time("When it was saved."),
      kept: Type.Optional(keptAs),
    },
    { description: "What was saved of a tenant's overlay directories." },
  ),
  SnapshotVersion: Type.Object(
    {
      tenantId: text("The tenant."),
      workloadRef: text("The workload."),
      path: text("Path on the snapshots volume."),
      version: text("What `resume.version` of a claim names it by."),
      sizeBytes: Type.Integer({ description: "Bytes of the archive.", minimum: 0 }),
      sha256: text("SHA-256 of the archive in hexadecimal digits."),
      createdAt: time("When it was saved, or was made the newest by a rollback or a copy."),
      newest: Type.Boolean({ description: "Whether it is what a claim with `resume: true` is given." }),
      kept: Type.Optional(keptAs),
    },
    { description: "A version of what was saved of a tenant's overlay directories." },
  ),
  Claim: claim,
  Link: Type.Object(
    {
      url: text("The address, with its token: whoever has it comes in."),
      expiresAt: time("When it ends, and what a browser got for it."),
      tenantId: text("The tenant."),
      workloadRef: text("The workload."),
    },
    { description: "A signed address of a tenant's instance at the front door." },
  ),
  ListedClaim: Type.Object(listedClaim, { description: "A claim as lists show it." }),
  ClaimDetail: Type.Object(
    {
      ...listedClaim,
      requestedAt: Type.Optional(time("When the API was asked for it last; absent where it was made without the API.")),
      releasingSince: Type.Optional(time("When its release was asked for, in whole seconds.")),
      ...{ timeline, conditions, resumedFrom, snapshot, files },
      url: Type.Optional(
        text(
          "Its address at the front door, with no token; absent where the workload's `network.expose` is `none`, or the server has no front door.",
        ),
      ),
      waitsFor: Type.Optional(text("What it waits for, in a sentence.")),
      events: Type.Optional(Type.Array(objectEvent, { description: "Of the claim and its pod, the oldest first." })),
      eventsProblem,
    },
    { description: "A claim with how its start went and what happened to it." },
  ),
  ObjectEvent: objectEvent,
  Tenant: Type.Object(
    { tenantId: text("The tenant."), claims: Type.Array(claim, { description: "Its claims, by workload." }) },
    { description: "A tenant and what it holds; one that holds nothing has no claims." },
  ),
  Instance: Type.Object(instance, { description: "A managed pod." }),
  InstanceDetail: Type.Object(
    {
      ...instance,
      node: Type.Optional(text("The node that it is on.")),
      containers: Type.Optional(Type.Array(container, { description: "Its containers; those of its start first." })),
      savedDirs: Type.Optional(
        Type.Array(text("A directory."), {
          description:
            "What a release saves of it, as was said when it was made; none where it has ended or is being deleted.",
        }),
      ),
      events: Type.Optional(Type.Array(objectEvent, { description: "Of the pod, the oldest first." })),
      eventsProblem,
    },
    { description: "A managed pod, and what `detail=true` adds." },
  ),
  ClaimHistory: Type.Object(
    {
      ...seriesBasics,
      sources: Type.Array(
        Type.Object(
          {
            source: stringEnum(["pool", "pool+data", "cold", "cold+data"], { description: "How the pod was found." }),
            claims: series("Claims that became Active."),
            p50Ms: latencies("Half of them took no longer."),
            p99Ms: latencies("99 in 100 took no longer."),
            hour: Type.Object(
              {
                claims: Type.Integer({ description: "Claims that became Active." }),
                p50Ms: latency("Half of them took no longer."),
                p99Ms: latency("99 in 100 took no longer."),
              },
              { description: "All that is kept together." },
            ),
          },
          { description: "The claims of one source." },
        ),
        { description: "By how the pod was found." },
      ),
      errors: series("Claims that ended in `Error`."),
      reasons: Type.Array(
        Type.Object(
          { reason: text("The claim's reason, or Other."), count: Type.Integer({ description: "How many." }) },
          { description: "A reason." },
        ),
        { description: "Of the errors, the most frequent first.", maxItems: 9 },
      ),
    },
    {
      description:
        "Claims of the last hour, as one replica saw them. Milliseconds are from the request to the pod, right to about an eighth.",
    },
  ),
  PoolHistory: Type.Object(
    {
      ...seriesBasics,
      ready: series("Pods that could be claimed, at the step's end."),
      lowest: series("The fewest of them in the step, which a burst takes for a moment only."),
      warming: series("Pods that were starting, at the step's end."),
      refilled: series("Pods that became ready."),
      hits: series("Pods that were given to a claim."),
      misses: series("Claims of the pool's workload that became Active with a cold pod."),
    },
    { description: "A pool in the last hour, as one replica saw it." },
  ),
  ExecOutcome: Type.Object(
    {
      stdout: text("What the command printed, at most 1 MiB."),
      stderr: text("What it printed as errors, at most 1 MiB."),
      exitCode: Type.Integer({ description: "The command's own exit code." }),
      truncated: Type.Optional(Type.Boolean({ description: "True where more was printed than is shown." })),
    },
    { description: "What a command did." },
  ),
  Deliveries: Type.Object(
    {
      replica: text("A word for the replica that answers; each remembers by itself."),
      since: time("When it started."),
      deliveries: Type.Array(Type.Object(delivery, { description: "What became of an event." }), {
        description: "The newest first.",
        maxItems: 50,
      }),
    },
    { description: "What became of a trigger's last events on one replica." },
  ),
  TestDelivery: Type.Object(
    {
      ...delivery,
      contentType: Type.Optional(text("Media type of the container's answer.")),
      body: Type.Optional(text("The container's answer as text, at most 64 KiB.")),
      truncated: Type.Optional(Type.Boolean({ description: "True where there was more." })),
      message: Type.Optional(text("What its source would have been told, where the container did not answer.")),
    },
    { description: "What became of an event that a caller of the API sent." },
  ),
  TriggerSpec: triggerSpecSchema,
  Trigger: Type.Object(
    {
      name: text("Name of the trigger."),
      spec: triggerSpecSchema,
      status: Type.Object(
        {
          phase: triggerPhase,
          detail: Type.Optional(text("What the gateway says.")),
        },
        { description: "What the gateway found." },
      ),
      createdAt,
    },
    { description: "Connects an event from outside to a claim." },
  ),
  OpenWorkload: openObject("workload", {
    phase: workloadPhase,
    reason: Type.Optional(text("One word for programs, where something is wrong.")),
  }),
  OpenPool: openObject("pool", {
    workloadRef: text("The workload."),
    size: poolSpecSchema.properties.size,
    ...{ phase: poolPhase, ready, warming, desired },
    reason: Type.Optional(text("One word for programs, where something is wrong.")),
  }),
  OpenTrigger: openObject("trigger", {
    type: triggerSpecSchema.properties.type,
    workloadRef: text("The workload."),
    phase: triggerPhase,
  }),
  Pong: Type.Object(
    {
      id: text("The newest event's: where `since` goes on from."),
      type: done("pong"),
      time: time("The server's clock."),
      fresh: Type.Boolean({ description: "Whether the server sees the cluster as it is." }),
      versions: Type.Unsafe<Partial<Record<"claims" | "instances" | "workloads" | "pools" | "triggers", string>>>({
        type: "object",
        additionalProperties: { type: "string" },
        description:
          "By kind, up to where this connection's past reaches. A list whose `x-tenancy-version` is as large or larger has all of it, and what comes later is on the connection.",
      }),
    },
    { description: "The answer of `/ws` to the text `ping`." },
  ),
};

/** What the shared schemas describe, for the dashboard, which knows of the edge what its document says. */
export type ApiTypes = { [Name in keyof typeof shared]: Static<(typeof shared)[Name]> };

/** Names of the schemas that operations share. */
export type SchemaName = keyof typeof shared;

/** The shared schemas as plain JSON Schema, without the words that only the API server knows. */
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
  files,
};

/** A body that says what was done, and to what. */
export function doneSchema(word: string, ...about: (keyof typeof doneTo)[]): JsonSchema {
  return plainSchema(
    Type.Object(
      { status: done(word), ...Object.fromEntries(about.map((name) => [name, doneTo[name]])) },
      { description: "What was done." },
    ),
  );
}

/** A body of `{name, spec}`, as `readSpecBody` takes it. */
export function specBodySchema(spec: SchemaName): OpenApiSchema {
  return {
    type: "object",
    additionalProperties: false,
    required: ["name", "spec"],
    properties: {
      name: { ...nameSchema, description: "A DNS-1123 name of at most 63 characters." },
      spec: { $ref: `#/components/schemas/${spec}` },
      status: { description: "Passed over, so that what was read can be sent back." },
      createdAt: { description: "Passed over, so that what was read can be sent back." },
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
