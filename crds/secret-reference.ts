import { type Static, Type } from "@sinclair/typebox";
import { pattern } from "./patterns.ts";

/** A key of a Secret in the service's own namespace: `{name, key}`. */
export function secretReference(description: string) {
  return Type.Object(
    {
      name: Type.String({ description: "Name of the Secret.", pattern: pattern.subdomain, maxLength: 253 }),
      key: Type.String({ description: "Key within the Secret.", pattern: pattern.dataKey, maxLength: 253 }),
    },
    { description },
  );
}

/** Static type of {@link secretReference}. */
export type SecretReference = Static<ReturnType<typeof secretReference>>;
