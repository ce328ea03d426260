import { pattern } from "../../../crds/schema/patterns.ts";
import type { JsonSchema } from "../../../crds/schema/schema.ts";

/** A field of a spec, and what it can be at its limits. */
export interface Field {
  /** Such as `network.allowlist`. */
  readonly path: string;
  readonly isRequired: boolean;
  readonly values: readonly unknown[];
}

/** The fields of a schema that are no objects with fields of their own. */
export function fieldsOf(schema: JsonSchema, prefix = ""): Field[] {
  const { properties, required = [] } = schema;
  return Object.entries(properties ?? {}).flatMap(([name, field]): Field[] => {
    const path = `${prefix}${name}`;
    if (field.properties !== undefined) return fieldsOf(field, `${path}.`);
    return [{ path, isRequired: required.includes(name), values: valuesOf(field) }];
  });
}

/** Each word of an enum; the least and the most of a number, a text, a list or a map; a list of one long item. */
function valuesOf(schema: JsonSchema): unknown[] {
  const { type, minimum = 0, maximum = minimum } = schema;
  if (schema.enum !== undefined) return [...schema.enum];
  if (type === "boolean") return [true, false];
  if (type === "integer") return [minimum, maximum];
  if (type === "string") return [sample(schema, 0, false), sample(schema, 0, true)];
  const { items, minItems = 0, maxItems = 1, additionalProperties, maxProperties = 1 } = schema;
  const rows = (value: JsonSchema, count: number, isLong: boolean): unknown[] =>
    Array.from({ length: count }, (_, index) => sample(value, index, isLong));
  if (items !== undefined) return [rows(items, minItems, false), rows(items, 1, true), rows(items, maxItems, false)];
  if (additionalProperties === undefined) return [];
  const mapOf = (count: number, isLong: boolean): object =>
    Object.fromEntries(rows(additionalProperties, count, isLong).map((value, index) => [`KEY_${index}`, value]));
  return [{}, mapOf(1, true), mapOf(maxProperties, false)];
}

/** How a text of a pattern begins, and what it can go on with. */
const TEXTS: Readonly<Record<string, readonly [begin: string, more: string]>> = {
  [pattern.subdomain]: ["a", "a"],
  [pattern.dataKey]: ["k", "k"],
  [pattern.headerName]: ["h", "h"],
  [pattern.domain]: ["d", ".example"],
  [pattern.directory]: ["/d", "/d"],
  [pattern.absolutePath]: ["/w", "w"],
  [pattern.gitUrl]: ["https://example.com/g", "g"],
};

/** A value of a list; those of other indexes are others. */
function sample(schema: JsonSchema, index: number, isLong: boolean): unknown {
  const { type, properties, items, minimum = 0, maximum = minimum } = schema;
  if (schema.enum !== undefined) return schema.enum[index % schema.enum.length];
  if (type === "integer") return isLong ? maximum - index : minimum + index;
  if (type === "boolean") return isLong;
  if (items !== undefined) return [sample(items, index, isLong)];
  if (properties !== undefined)
    return Object.fromEntries(Object.entries(properties).map(([name, field]) => [name, sample(field, index, isLong)]));
  const [begin, more] = TEXTS[schema.pattern ?? ""] ?? ["x", "x"];
  const text = `${begin}${index}${more}`;
  const most = schema.maxLength ?? text.length;
  return isLong ? `${text}${more.repeat(Math.floor((most - text.length) / more.length))}` : text;
}

/** A copy of a spec with another value of a field, or without it. */
export function withField(spec: object, path: string, value: unknown): object {
  const [name = "", ...rest] = path.split(".");
  const { [name]: present, ...others } = spec as Record<string, unknown>;
  if (rest.length === 0) return value === undefined ? others : { ...others, [name]: value };
  return { ...others, [name]: withField((present as object | undefined) ?? {}, rest.join("."), value) };
}
