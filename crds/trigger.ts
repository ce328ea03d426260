import { type Static, Type } from "@sinclair/typebox";
import { claimSpecSchema } from "./claim.ts";
import type { KubernetesObject } from "./kubernetes.ts";
import { conditionsSchema, notObserved } from "./schema/condition.ts";
import { pattern } from "./schema/patterns.ts";
import { freeObject, mapOf, rules, secretReference, setList, stringEnum, stringMap } from "./schema/schema.ts";

/** `spec.config` of a trigger: the fields of all types. */
const triggerConfigSchema = Type.Object(
  {
    path: Type.Optional(
      Type.String({ description: "webhook: path that the gateway serves.", pattern: pattern.urlPath, maxLength: 1024 }),
    ),
    secretRef: Type.Optional(secretReference("webhook: Secret with the key of the signature in X-Hub-Signature-256.")),
    botTokenSecretRef: Type.Optional(secretReference("messenger: Secret with the bot's token.")),
    updateTypes: Type.Optional(
      Type.Array(
        Type.String({ description: "Kind of update, such as message.", pattern: pattern.word, maxLength: 64 }),
        {
          description: "messenger: kinds of updates to request.",
          maxItems: 64,
          ...setList,
        },
      ),
    ),
    pollTimeoutSeconds: Type.Optional(
      Type.Integer({ description: "messenger: how long one poll waits, in seconds.", minimum: 0, maximum: 600 }),
    ),
    apiBaseUrl: Type.Optional(
      Type.String({
        description: "messenger: URL of another server of the bot API.",
        pattern: pattern.url,
        maxLength: 2048,
      }),
    ),
    schedule: Type.Optional(
      Type.String({ description: "cron: five fields, such as 0 9 * * 1-5.", pattern: pattern.oneLine, maxLength: 256 }),
    ),
    timezone: Type.Optional(
      Type.String({
        description: "cron: IANA name, such as Europe/Berlin; UTC when absent.",
        pattern: pattern.word,
        maxLength: 64,
      }),
    ),
    catchUpSeconds: Type.Optional(
      Type.Integer({
        description: "cron: maximum delay of a missed occurrence, in seconds; 60 when absent.",
        minimum: 0,
        maximum: 31536000,
      }),
    ),
    payload: Type.Optional(freeObject({ description: "cron: data for the container." })),
  },
  { description: "Settings of the trigger's type; each field names its type." },
);

export type TriggerConfig = Static<typeof triggerConfigSchema>;

const guardConfigSchema = Type.Object(
  {
    tenantIds: Type.Optional(
      Type.Array(Type.String({ description: "Tenant id, in any case.", minLength: 1, maxLength: 253 }), {
        description: "allowlist: allowed tenants.",
        maxItems: 10000,
        ...setList,
      }),
    ),
    url: Type.Optional(
      Type.String({
        description: "api: URL that receives a POST of {tenantId, source}.",
        pattern: pattern.url,
        maxLength: 2048,
      }),
    ),
    headers: Type.Optional(
      stringMap(
        { pattern: pattern.headerValue, maxLength: 8192 },
        { description: "api: headers of the request.", maxProperties: 64 },
      ),
    ),
    headerSecretRefs: Type.Optional(
      mapOf(secretReference("Secret with the header's value."), {
        description: "api: headers of the request whose values are in Secrets.",
        maxProperties: 64,
      }),
    ),
    denyMessage: Type.Optional(Type.String({ description: "Message for a denied caller.", maxLength: 4096 })),
  },
  { description: "Settings of the guard; each field names its type." },
);

/** An entry of `spec.guards` of a trigger. */
const triggerGuardSchema = Type.Object(
  {
    type: stringEnum(["allowlist", "api"], { description: "Kind of guard." }),
    config: guardConfigSchema,
  },
  {
    description: "A check that every event must pass.",
    ...rules(
      {
        rule: "self.type != 'allowlist' || has(self.config.tenantIds)",
        message: "an allowlist guard needs config.tenantIds",
      },
      { rule: "self.type != 'api' || has(self.config.url)", message: "an api guard needs config.url" },
    ),
  },
);

export type TriggerGuard = Static<typeof triggerGuardSchema>;

const tenantSchema = Type.Object(
  {
    from: Type.Optional(
      Type.String({
        description: "Dotted path of the event's field with the tenant id.",
        pattern: pattern.oneLine,
        maxLength: 256,
      }),
    ),
    prefix: Type.Optional(
      Type.String({ description: "Prefix of the value of from.", pattern: pattern.tenantIdPrefix, maxLength: 62 }),
    ),
    static: Type.Optional(
      Type.String({ description: "Fixed tenant id, instead of from.", pattern: pattern.tenantId, maxLength: 63 }),
    ),
  },
  {
    description: "How to find the tenant of an event: exactly one of from and static.",
    oneOf: [{ required: ["from"] }, { required: ["static"] }],
    ...rules({ rule: "has(self.from) != has(self.static)", message: "give exactly one of from and static" }),
  },
);

const driverOptionsSchema = Type.Object(
  {
    path: Type.Optional(
      Type.String({
        description: "Path of the request to the container; / when absent.",
        pattern: pattern.word,
        maxLength: 2048,
      }),
    ),
    timeoutSeconds: Type.Optional(
      Type.Integer({ description: "Seconds for the whole round trip; 300 when absent.", minimum: 1, maximum: 86400 }),
    ),
    tokenSecretRef: Type.Optional(secretReference("driver-b: Secret with the token for connect.")),
  },
  { description: "Settings of the driver." },
);

const signingSchema = Type.Object(
  {
    secretRef: secretReference(
      "Secret with whsec_ and base64 of 24 to 64 bytes, or two of them with a comma between them.",
    ),
  },
  { description: "Signs each request to the container as a Standard Webhook; only without a driver." },
);

const triggerClaimSchema = Type.Object(
  {
    inputs: claimSpecSchema.properties.inputs,
    labels: claimSpecSchema.properties.labels,
    expiresInSeconds: Type.Optional(
      Type.Integer({
        description:
          "Seconds after an event until the claim is released, even while it is in use. A claim with a later expiry, or with none, keeps it.",
        minimum: 1,
        maximum: 31536000,
      }),
    ),
  },
  {
    description:
      "Settings of the claims that events create. An event for a tenant who has a claim on the workload joins that one, whatever its inputs and labels.",
  },
);

/** Settings of the claims that events create. */
export type TriggerClaim = Static<typeof triggerClaimSchema>;

export const triggerSpecSchema = Type.Object(
  {
    type: stringEnum(["webhook", "messenger", "cron"], { description: "Type of event source." }),
    workloadRef: Type.String({
      description: "Name of the workload to claim.",
      pattern: pattern.subdomain,
      maxLength: 63,
    }),
    tenant: tenantSchema,
    driver: Type.Optional(
      stringEnum(["driver-a", "driver-b"], { description: "Protocol to the container; plain HTTP when absent." }),
    ),
    driverOptions: Type.Optional(driverOptionsSchema),
    signing: Type.Optional(signingSchema),
    config: triggerConfigSchema,
    claim: Type.Optional(triggerClaimSchema),
    guards: Type.Optional(
      Type.Array(triggerGuardSchema, { description: "Checks that every event must pass, in order.", maxItems: 32 }),
    ),
  },
  {
    description: "Connects an external event to a claim.",
    ...rules(
      {
        rule: "self.type != 'webhook' || has(self.config.path)",
        message: "spec.config.path: required for a webhook trigger",
      },
      {
        rule: "self.type != 'messenger' || has(self.config.botTokenSecretRef)",
        message: "spec.config.botTokenSecretRef: required for a messenger trigger",
      },
      {
        rule: "self.type != 'messenger' || !has(self.tenant.from) || self.tenant.from in ['chatId', 'userId', 'usernameOrId']",
        message: "spec.tenant.from: must be one of chatId, userId, usernameOrId for a messenger trigger",
      },
      {
        rule: "self.type != 'cron' || has(self.config.schedule)",
        message: "spec.config.schedule: required for a cron trigger",
      },
      {
        rule: "self.type != 'cron' || has(self.tenant.static)",
        message: "spec.tenant.static: required for a cron trigger",
      },
      {
        rule: "!has(self.signing) || !has(self.driver)",
        message: "spec.signing: only for plain HTTP; remove it, or spec.driver",
      },
    ),
  },
);

export const triggerStatusSchema = Type.Object(
  {
    phase: Type.Optional(
      stringEnum(["Active", "Error"], {
        description: "Whether the gateway serves the trigger; absent until it has reconciled it.",
      }),
    ),
    detail: Type.Optional(Type.String({ description: "A sentence for people.", maxLength: 32768 })),
    observedGeneration: Type.Optional(
      Type.Integer({ description: "Generation of the spec that this status describes." }),
    ),
    state: Type.Optional(freeObject({ description: "State that the adapter stores across restarts." })),
    conditions: Type.Optional(conditionsSchema),
  },
  { description: "The gateway's result.", default: { conditions: notObserved } },
);

export type TriggerSpec = Static<typeof triggerSpecSchema>;

export type TriggerStatus = Static<typeof triggerStatusSchema>;

/** A TenancyTrigger. */
export interface Trigger extends KubernetesObject {
  spec: TriggerSpec;
  status?: TriggerStatus;
}
