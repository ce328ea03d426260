import { type Static, Type } from "@sinclair/typebox";
import { pattern } from "./patterns.ts";
import { freeObject, setList } from "./schema.ts";
import { secretReference } from "./secret-reference.ts";

/** `spec.config` of a trigger: the fields of all adapters. */
export const triggerConfigSchema = Type.Object(
  {
    path: Type.Optional(
      Type.String({ description: "webhook: path that the gateway serves.", pattern: pattern.urlPath, maxLength: 1024 }),
    ),
    secretRef: Type.Optional(secretReference("webhook: Secret that signs the deliveries, X-Hub-Signature-256.")),
    botTokenSecretRef: Type.Optional(secretReference("messenger: Secret that holds the bot's token.")),
    updateTypes: Type.Optional(
      Type.Array(
        Type.String({ description: "Kind of update, such as message.", pattern: pattern.word, maxLength: 64 }),
        {
          description: "messenger: kinds of updates to ask for.",
          maxItems: 64,
          ...setList,
        },
      ),
    ),
    pollTimeoutSeconds: Type.Optional(
      Type.Integer({ description: "messenger: how long one poll waits, in seconds.", minimum: 0, maximum: 600 }),
    ),
    apiBaseUrl: Type.Optional(
      Type.String({ description: "messenger: another server of the bot API.", pattern: pattern.url, maxLength: 2048 }),
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
        description: "cron: how late a missed occurrence may still fire, in seconds; 60 when absent.",
        minimum: 0,
        maximum: 31536000,
      }),
    ),
    payload: Type.Optional(freeObject({ description: "cron: what the container gets." })),
  },
  { description: "Settings of the adapter; each field says which type it is for." },
);

/** Static type of {@link triggerConfigSchema}. */
export type TriggerConfig = Static<typeof triggerConfigSchema>;
