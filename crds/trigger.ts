import { type Static, Type } from "@sinclair/typebox";
import { conditionsSchema } from "./condition.ts";
import type { KubernetesObject } from "./kubernetes.ts";
import { pattern } from "./patterns.ts";
import { freeObject, rules, stringEnum } from "./schema.ts";
import { secretReference } from "./secret-reference.ts";
import { triggerConfigSchema } from "./trigger-config.ts";
import { triggerGuardSchema } from "./trigger-guard.ts";

const tenantSchema = Type.Object(
  {
    from: Type.Optional(
      Type.String({
        description: "Dotted path of the field of the event that holds the tenant id.",
        pattern: pattern.oneLine,
        maxLength: 256,
      }),
    ),
    prefix: Type.Optional(
      Type.String({ description: "Put before the value of from.", pattern: pattern.tenantIdPrefix, maxLength: 62 }),
    ),
    static: Type.Optional(
      Type.String({ description: "Fixed tenant id, instead of from.", pattern: pattern.tenantId, maxLength: 63 }),
    ),
  },
  {
    description: "How an event finds its tenant: exactly one of from and static.",
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
      Type.Integer({ description: "Seconds for the whole exchange; 300 when absent.", minimum: 1, maximum: 86400 }),
    ),
    tokenSecretRef: Type.Optional(secretReference("driver-b: Secret that holds the token for connect.")),
  },
  { description: "Settings of the driver." },
);

/** `spec` of a trigger. */
export const triggerSpecSchema = Type.Object(
  {
    type: stringEnum(["webhook", "messenger", "cron"], { description: "Adapter that receives the events." }),
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
    config: triggerConfigSchema,
    guards: Type.Optional(
      Type.Array(triggerGuardSchema, { description: "Questions that every event must pass, in order.", maxItems: 32 }),
    ),
  },
  {
    description: "Connects an event from outside to a claim.",
    ...rules(
      {
        rule: "self.type != 'webhook' || has(self.config.path)",
        message: "spec.config.path: a webhook trigger needs it",
      },
      {
        rule: "self.type != 'messenger' || has(self.config.botTokenSecretRef)",
        message: "spec.config.botTokenSecretRef: a messenger trigger needs it",
      },
      {
        rule: "self.type != 'messenger' || !has(self.tenant.from) || self.tenant.from in ['chatId', 'userId', 'usernameOrId']",
        message: "spec.tenant.from: must be one of chatId, userId, usernameOrId for a messenger trigger",
      },
      {
        rule: "self.type != 'cron' || has(self.config.schedule)",
        message: "spec.config.schedule: a cron trigger needs it",
      },
      {
        rule: "self.type != 'cron' || has(self.tenant.static)",
        message: "spec.tenant.static: a cron trigger needs it",
      },
    ),
  },
);

/** `status` of a trigger. */
export const triggerStatusSchema = Type.Object(
  {
    phase: Type.Optional(
      stringEnum(["Active", "Error"], {
        description: "Whether the gateway serves the trigger; absent until it looked.",
      }),
    ),
    detail: Type.Optional(Type.String({ description: "A sentence for people.", maxLength: 32768 })),
    observedGeneration: Type.Optional(Type.Integer({ description: "Generation of the spec that this is about." })),
    state: Type.Optional(freeObject({ description: "What the adapter must remember across restarts." })),
    conditions: Type.Optional(conditionsSchema),
  },
  { description: "What the gateway found." },
);

/** Static type of {@link triggerSpecSchema}. */
export type TriggerSpec = Static<typeof triggerSpecSchema>;

/** Static type of {@link triggerStatusSchema}. */
export type TriggerStatus = Static<typeof triggerStatusSchema>;

/** A TenancyTrigger. */
export interface Trigger extends KubernetesObject {
  spec: TriggerSpec;
  status?: TriggerStatus;
}
