import { cut } from "../quote.ts";
import { pattern } from "./patterns.ts";
import type { JsonSchema } from "./schema.ts";

/** Options of the validation. */
export interface ProblemOptions {
  /** Whether unknown fields are ignored, as the API server does. @default false */
  allowUnknownFields?: boolean;
}

/**
 * The problems of a value under a structural schema: sentences that start with the field's path.
 *
 * The same checks as the API server's, with messages for people; `oneOf` and CEL rules are left to the caller.
 *
 * @param subject the value, its schema and the path that messages start with
 */
export function schemaProblems(
  subject: { value: unknown; schema: JsonSchema; path: string },
  options: ProblemOptions = {},
): string[] {
  const { value, schema, path } = subject;
  switch (schema.type) {
    case "object":
      return isObject(value) ? objectProblems({ value, schema, path }, options) : wrongType(value, "an object", path);
    case "array":
      return Array.isArray(value) ? arrayProblems({ value, schema, path }, options) : wrongType(value, "a list", path);
    case "string":
      return typeof value === "string" ? textProblems(value, schema, path) : wrongType(value, "text", path);
    case "integer":
      return Number.isSafeInteger(value)
        ? numberProblems(value as number, schema, path)
        : wrongType(value, "a whole number", path);
    case "boolean":
      return typeof value === "boolean" ? [] : wrongType(value, "true or false", path);
    default:
      return [];
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function wrongType(value: unknown, wanted: string, path: string): string[] {
  if (value === undefined) return [`${path}: is required`];
  return [`${path}: must be ${wanted}${value === null ? ", not null: leave it out instead" : ""}`];
}

function objectProblems(
  subject: { value: Record<string, unknown>; schema: JsonSchema; path: string },
  options: ProblemOptions,
): string[] {
  const { value, schema, path } = subject;
  const properties = schema.properties ?? {};
  const problems: string[] = [];
  for (const field of schema.required ?? []) {
    if (value[field] === undefined) problems.push(`${path}.${field}: is required`);
  }
  const fields = Object.keys(value).filter((field) => value[field] !== undefined);
  if (schema.maxProperties !== undefined && fields.length > schema.maxProperties) {
    problems.push(`${path}: must have at most ${schema.maxProperties} entries, not ${fields.length}`);
  }
  for (const field of fields) {
    // Some objects have keys of any length.
    const fieldPath = `${path}.${cut(field)}`;
    const fieldSchema = Object.hasOwn(properties, field) ? properties[field] : schema.additionalProperties;
    if (fieldSchema !== undefined) {
      problems.push(...schemaProblems({ value: value[field], schema: fieldSchema, path: fieldPath }, options));
    } else if (!options.allowUnknownFields && !schema["x-kubernetes-preserve-unknown-fields"]) {
      problems.push(`${fieldPath}: unknown field; known are ${Object.keys(properties).join(", ")}`);
    }
  }
  return problems;
}

function arrayProblems(
  subject: { value: readonly unknown[]; schema: JsonSchema; path: string },
  options: ProblemOptions,
): string[] {
  const { value, schema, path } = subject;
  if (schema.maxItems !== undefined && value.length > schema.maxItems) {
    return [`${path}: must have at most ${schema.maxItems} entries, not ${value.length}`];
  }
  if (schema.minItems !== undefined && value.length < schema.minItems) {
    return [`${path}: must have at least ${schema.minItems} ${schema.minItems === 1 ? "entry" : "entries"}`];
  }
  const seen = new Set<string>();
  return value.flatMap((item, index) => {
    const itemPath = `${path}[${index}]`;
    const problems = schemaProblems({ value: item, schema: schema.items ?? {}, path: itemPath }, options);
    const identity = identityOf(item, schema);
    if (identity !== undefined && seen.has(identity)) problems.push(`${itemPath}: occurs twice`);
    if (identity !== undefined) seen.add(identity);
    return problems;
  });
}

function identityOf(item: unknown, schema: JsonSchema): string | undefined {
  if (schema["x-kubernetes-list-type"] === "set") return JSON.stringify(item);
  const keys = schema["x-kubernetes-list-map-keys"];
  return keys !== undefined && isObject(item) ? JSON.stringify(keys.map((key) => item[key])) : undefined;
}

function textProblems(value: string, schema: JsonSchema, path: string): string[] {
  if (schema.enum !== undefined && !schema.enum.includes(value)) {
    return [`${path}: must be one of ${schema.enum.join(", ")}`];
  }
  // Counted in characters, as JSON Schema and the API server do: two UTF-16 units can be one character.
  const length = value.length > (schema.maxLength ?? value.length) ? [...value].length : value.length;
  if (schema.maxLength !== undefined && length > schema.maxLength) {
    return [`${path}: must have at most ${schema.maxLength} characters, not ${length}`];
  }
  if (schema.minLength !== undefined && value.length < schema.minLength) return [`${path}: must not be empty`];
  if (schema.pattern !== undefined && !new RegExp(schema.pattern).test(value)) {
    return [`${path}: must be ${patternHints[schema.pattern] ?? `text that matches ${schema.pattern}`}`];
  }
  return [];
}

function numberProblems(value: number, schema: JsonSchema, path: string): string[] {
  if (schema.minimum !== undefined && value < schema.minimum) {
    return [`${path}: must be at least ${schema.minimum}, not ${value}`];
  }
  if (schema.maximum !== undefined && value > schema.maximum) {
    return [`${path}: must be at most ${schema.maximum}, not ${value}`];
  }
  return [];
}

/** The texts that occur more than once: a rule that no schema can express. */
export function repeated(texts: readonly string[]): string[] {
  return [...new Set(texts.filter((text, index) => texts.indexOf(text) !== index))];
}

/** Descriptions of patterns, for sentences that start with "must be". */
export const patternHints: Readonly<Record<string, string>> = {
  [pattern.tenantId]: "a tenant id: letters, digits, '.', '_' and '-', with a letter or digit at both ends",
  [pattern.tenantIdPrefix]: "the start of a tenant id: letters, digits, '.', '_' and '-', with a letter or digit first",
  [pattern.labelName]:
    "the name of a label: at most 63 letters, digits, '.', '_' and '-', with a letter or digit at both ends",
  [pattern.labelValue]:
    "the value of a label: letters, digits, '.', '_' and '-', with a letter or digit at both ends, or empty",
  [pattern.zone]:
    "a zone, as in the nodes' label topology.kubernetes.io/zone: letters, digits, '.', '_' and '-', with a letter or digit at both ends",
  [pattern.labelKey]: "a label such as pool or example.com/pool: a name, or a domain, '/' and a name",
  [pattern.resourceName]: "the name of an extended resource: a domain, '/' and a name, such as nvidia.com/gpu",
  [pattern.time]: "a time such as 2026-11-26T09:30:00Z",
  [pattern.label]: "a name of lower-case letters, digits and '-', with a letter or digit at both ends",
  [pattern.subdomain]: "a name of lower-case letters, digits, '-' and '.', with a letter or digit at both ends",
  [pattern.fileName]: "the name of a file: letters, digits, '-', '_' and '.', of which one may be first",
  [pattern.variable]: "the name of a variable: letters, digits and underscores, and no digit first",
  [pattern.base64]: "base64, such as aGVsbG8=",
  [pattern.dataKey]: "a key of letters, digits, '.', '_' and '-'",
  [pattern.domain]: "a domain name such as example.com or *.example.com, without scheme, port and path",
  [pattern.headerName]: "the name of an HTTP header",
  [pattern.directory]: "an absolute path below / without '.', '..' and empty segments, ':' and control characters",
  [pattern.absolutePath]: "an absolute path without control characters",
  [pattern.urlPath]: "a path that starts with / and has no query, fragment, space or control character",
  [pattern.url]: "a URL that starts with http:// or https:// and has no space or control character",
  [pattern.oneLine]: "non-empty text on one line, without control characters",
  [pattern.cron]: "five fields, such as 0 9 * * 1-5",
  [pattern.word]: "non-empty text without spaces and control characters",
  [pattern.noNull]: "text without the NUL character",
  [pattern.gitUrl]: "the HTTPS address of a Git repository, without a user, such as https://git.example.com/team/app",
  [pattern.gitRef]: "a branch, a tag or a commit",
  [pattern.archive]: "the SHA-256 of a snapshot, its first 16 digits in lower case, or its name",
  [pattern.archiveVersion]: "the SHA-256 of a snapshot, or its first 16 digits, in lower case",
  [pattern.headerValue]: "text on one line, without the NUL character",
};
