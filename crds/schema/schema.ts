import { type Static, type TSchema, type TUnsafe, Type } from "@sinclair/typebox";
import { pattern } from "./patterns.ts";

/** Keywords of a structural schema in addition to JSON Schema's (Kubernetes, "CustomResourceDefinition schema"). */
export interface SchemaOptions {
  description: string;
  default?: unknown;
  maxProperties?: number;
}

/** An enumeration of strings; TypeBox's own union prints `anyOf`, which a structural schema forbids. */
export function stringEnum<const Word extends string>(words: readonly Word[], options: SchemaOptions): TUnsafe<Word> {
  return Type.Unsafe<Word>({ type: "string", enum: [...words], ...options });
}

/** An object with any keys and string values; TypeBox's own record prints `patternProperties`. */
export function stringMap(value: { pattern?: string; maxLength: number }, options: SchemaOptions) {
  return Type.Unsafe<Record<string, string>>({
    type: "object",
    additionalProperties: { type: "string", ...value },
    ...options,
  });
}

/** An object with any keys and values of one schema. */
export function mapOf<Value extends TSchema>(value: Value, options: SchemaOptions) {
  const additionalProperties = plainSchema(value);
  return Type.Unsafe<Record<string, Static<Value>>>({ type: "object", additionalProperties, ...options });
}

/** An object whose fields the API server stores without validation. */
export function freeObject(options: SchemaOptions): TUnsafe<Record<string, unknown>> {
  return Type.Unsafe<Record<string, unknown>>({
    type: "object",
    "x-kubernetes-preserve-unknown-fields": true,
    ...options,
  });
}

/** A CEL rule that newer API servers enforce and older ones drop; `message` says what to change. */
export interface Rule {
  rule: string;
  message: string;
}

/** The keyword for rules in a CRD. Only `rule` and `message`: later fields break servers of 1.25 to 1.28. */
export function rules(...list: readonly Rule[]): { "x-kubernetes-validations": readonly Rule[] } {
  return { "x-kubernetes-validations": list };
}

/** A list without duplicate entries. */
export const setList = { "x-kubernetes-list-type": "set" } as const;

/** A list without two entries that have the same keys. */
export function mapList(...keys: readonly string[]) {
  return { "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys } as const;
}

/** A plain JSON Schema of a TypeBox schema, without TypeBox's own symbols. */
export function plainSchema(schema: TSchema): JsonSchema {
  return JSON.parse(JSON.stringify(schema)) as JsonSchema;
}

/** The part of JSON Schema that our structural schemas use. */
export interface JsonSchema {
  type?: "object" | "array" | "string" | "integer" | "number" | "boolean";
  description?: string;
  default?: unknown;
  enum?: readonly string[];
  format?: string;
  pattern?: string;
  minLength?: number;
  maxLength?: number;
  minimum?: number;
  maximum?: number;
  minItems?: number;
  maxItems?: number;
  maxProperties?: number;
  required?: readonly string[];
  properties?: Readonly<Record<string, JsonSchema>>;
  additionalProperties?: JsonSchema;
  items?: JsonSchema;
  oneOf?: readonly JsonSchema[];
  "x-kubernetes-preserve-unknown-fields"?: boolean;
  "x-kubernetes-list-type"?: "set" | "map" | "atomic";
  "x-kubernetes-list-map-keys"?: readonly string[];
  "x-kubernetes-validations"?: readonly Rule[];
}

/** A program and its arguments. */
export function commandWords(description: string) {
  return Type.Array(
    Type.String({
      description: "The program, then its arguments; no shell.",
      pattern: pattern.noNull,
      maxLength: 1024,
    }),
    {
      description,
      minItems: 1,
      maxItems: 32,
      ...rules({ rule: "size(self) == 0 || self[0] != ''", message: "must start with the name of a program" }),
    },
  );
}

/** A key of a Secret in the service's own namespace: `{name, key}`. */
export function secretReference(description: string) {
  return dataReference("Secret", description);
}

/** A key of a Secret or ConfigMap in the service's own namespace: `{name, key}`. */
export function dataReference(kind: "Secret" | "ConfigMap", description: string) {
  return Type.Object(
    {
      name: Type.String({ description: `Name of the ${kind}.`, pattern: pattern.subdomain, maxLength: 253 }),
      key: Type.String({ description: `Key within the ${kind}.`, pattern: pattern.dataKey, maxLength: 253 }),
    },
    { description },
  );
}

export type SecretReference = Static<ReturnType<typeof secretReference>>;
