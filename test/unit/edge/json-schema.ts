/** A schema as it stands in a document. */
export type Schema = { readonly [word: string]: unknown } | boolean;

const annotations = new Set(["description", "default", "format", "$schema", "title"]);

/**
 * Whether a value is valid by JSON Schema 2020-12 (https://json-schema.org/draft/2020-12/json-schema-validation), as
 * written there and without anything of the product's; `#/components/schemas/` references are looked up.
 *
 * @throws Error on a word that it does not know: nothing of a schema is passed over
 */
export function isValid(value: unknown, schema: Schema, components: Readonly<Record<string, Schema>>): boolean {
  if (typeof schema === "boolean") return schema;
  const valid = (one: unknown, by: unknown) => isValid(one, by as Schema, components);
  const list = (words: unknown) => words as readonly unknown[];
  const object =
    typeof value === "object" && value !== null && !Array.isArray(value) ? Object.entries(value) : undefined;
  const array = Array.isArray(value) ? value : undefined;
  const text = typeof value === "string" ? value : undefined;
  const number = typeof value === "number" ? value : undefined;
  const length = text === undefined ? 0 : [...text].length;
  const checks: Record<string, (word: unknown) => boolean> = {
    $ref: (name) => valid(value, components[String(name).replace("#/components/schemas/", "")] ?? fail(String(name))),
    type: (name) => typesOf(value).includes(String(name)),
    enum: (words) => list(words).some((word) => isSame(word, value)),
    const: (word) => isSame(word, value),
    not: (by) => !valid(value, by),
    allOf: (all) => list(all).every((by) => valid(value, by)),
    anyOf: (all) => list(all).some((by) => valid(value, by)),
    oneOf: (all) => list(all).filter((by) => valid(value, by)).length === 1,
    pattern: (source) => text === undefined || new RegExp(String(source), "u").test(text),
    minLength: (least) => text === undefined || length >= Number(least),
    maxLength: (most) => text === undefined || length <= Number(most),
    minimum: (least) => number === undefined || number >= Number(least),
    maximum: (most) => number === undefined || number <= Number(most),
    minItems: (least) => array === undefined || array.length >= Number(least),
    maxItems: (most) => array === undefined || array.length <= Number(most),
    uniqueItems: () => !array?.some((one, index) => array.slice(0, index).some((other) => isSame(one, other))),
    prefixItems: (each) => list(each).every((by, index) => array?.[index] === undefined || valid(array[index], by)),
    items: (by) => !array?.slice(list(schema.prefixItems ?? []).length).some((item) => !valid(item, by)),
    required: (names) =>
      object === undefined || list(names).every((name) => Object.hasOwn(value as object, String(name))),
    properties: (by) =>
      !object?.some(([name, field]) => Object.hasOwn(by as object, name) && !valid(field, (by as never)[name])),
    additionalProperties: (by) =>
      !object?.some(([name, field]) => !Object.hasOwn((schema.properties ?? {}) as object, name) && !valid(field, by)),
    propertyNames: (by) => !object?.some(([name]) => !valid(name, by)),
    maxProperties: (most) => object === undefined || object.length <= Number(most),
  };
  return Object.entries(schema).every(([word, by]) => annotations.has(word) || (checks[word] ?? fail(word))(by));
}

function fail(word: string): never {
  throw new Error(`Cannot judge by ${word}`);
}

function typesOf(value: unknown): string[] {
  if (value === null) return ["null"];
  if (Array.isArray(value)) return ["array"];
  if (typeof value === "number") return Number.isInteger(value) ? ["number", "integer"] : ["number"];
  return [typeof value];
}

function isSame(a: unknown, b: unknown): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
