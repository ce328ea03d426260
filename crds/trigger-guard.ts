import { type Static, Type } from "@sinclair/typebox";
import { pattern } from "./patterns.ts";
import { rules, setList, stringEnum, stringMap } from "./schema.ts";

const guardConfigSchema = Type.Object(
  {
    tenantIds: Type.Optional(
      Type.Array(Type.String({ description: "Tenant id, in any case.", minLength: 1, maxLength: 253 }), {
        description: "allowlist: tenants that may pass.",
        maxItems: 10000,
        ...setList,
      }),
    ),
    url: Type.Optional(
      Type.String({
        description: "api: where to ask, with a POST of {tenantId, source}.",
        pattern: pattern.url,
        maxLength: 2048,
      }),
    ),
    headers: Type.Optional(
      stringMap(
        { pattern: pattern.headerValue, maxLength: 8192 },
        { description: "api: headers of the question.", maxProperties: 64 },
      ),
    ),
    denyMessage: Type.Optional(Type.String({ description: "What a denied caller reads.", maxLength: 4096 })),
  },
  { description: "Settings of the guard; each field says which type it is for." },
);

/** One of `spec.guards` of a trigger. */
export const triggerGuardSchema = Type.Object(
  {
    type: stringEnum(["allowlist", "api"], { description: "Kind of guard." }),
    config: guardConfigSchema,
  },
  {
    description: "One question that every event must pass.",
    ...rules(
      {
        rule: "self.type != 'allowlist' || has(self.config.tenantIds)",
        message: "an allowlist guard needs config.tenantIds",
      },
      { rule: "self.type != 'api' || has(self.config.url)", message: "an api guard needs config.url" },
    ),
  },
);

/** Static type of {@link triggerGuardSchema}. */
export type TriggerGuard = Static<typeof triggerGuardSchema>;
