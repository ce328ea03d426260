import * as v from "valibot";
import { JsonBoundError, parseForeignJson } from "../../crds/foreign-json.ts";
import { quote } from "../../crds/quote.ts";
import { HttpError } from "./http-error.ts";
import { jsonSyntaxError } from "./json-syntax-error.ts";
import { readBytes } from "./read-bytes.ts";

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json *(?:;|$)/i;

/**
 * Reads a request's body as a JSON object that matches a schema; unknown keys are refused, so that a misspelt one is
 * noticed.
 *
 * @param options.limit bytes @default 1 MiB
 * @param options.mayBeEmpty whether no body counts as `{}`. @default false
 * @throws HttpError 400 that names each place, such as `body.workload: must be a string, got number`; 413 over the
 * limit, and if it has too many values
 */
export async function readJson<const Entries extends v.ObjectEntries>(
  request: Request,
  schema: v.StrictObjectSchema<Entries, undefined>,
  options: { limit?: number; mayBeEmpty?: boolean } = {},
): Promise<v.InferOutput<v.StrictObjectSchema<Entries, undefined>>> {
  const type = request.headers.get("content-type");
  if (type !== null && !JSON_TYPE.test(type)) {
    throw new HttpError(400, `content-type: must be application/json, got ${quote(type)}`);
  }
  const body = await readObject(request, options);
  const known = Object.keys(schema.entries);
  const unknown = Object.keys(body).filter((key) => !known.includes(key));
  if (unknown.length > 0) {
    const names = unknown.slice(0, 5).map(quote).join(", ");
    throw new HttpError(
      400,
      `body: unknown ${unknown.length === 1 ? "key" : "keys"} ${names}; known are ${known.join(", ")}`,
    );
  }
  const checked = v.safeParse(schema, body);
  if (!checked.success) throw new HttpError(400, [...new Set(checked.issues.map(problem))].join("; "));
  return checked.output;
}

/**
 * Reads a request's body as a JSON object.
 *
 * @param options.limit bytes @default 1 MiB
 * @param options.mayBeEmpty whether no body counts as `{}`. @default false
 * @throws HttpError 400 if it is something else; 413 over the limit, and if it has too many values
 */
export async function readObject(
  request: Request,
  options: { limit?: number; mayBeEmpty?: boolean } = {},
): Promise<object> {
  const text = await readBody(request, options);
  if (text === "" && options.mayBeEmpty === true) return {};
  let value: unknown;
  try {
    value = parseForeignJson(text);
  } catch (cause) {
    if (cause instanceof JsonBoundError) throw new HttpError(cause.status, `body: ${cause.message}`, { cause });
    if (text.trim() === "") throw new HttpError(400, "body: must be a JSON object, got nothing");
    throw new HttpError(400, `body: is not JSON: ${jsonSyntaxError(text)}`, { cause });
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new HttpError(400, `body: must be a JSON object, got ${typeName(value)}`);
  }
  return value;
}

function problem(issue: v.BaseIssue<unknown>): string {
  const place = ["body", ...(issue.path ?? []).map((item) => String(item.key))].join(".");
  if (issue.kind !== "schema") return `${place}: ${issue.message}`;
  if (issue.input === undefined) return `${place}: is required`;
  return `${place}: must be ${issue.expected === "Object" ? "an object" : `a ${issue.expected}`}, got ${typeName(issue.input)}`;
}

const utf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * Reads a request's body as UTF-8 text.
 *
 * @throws HttpError as {@link readBytes} does, and 400 if the body is not UTF-8
 */
async function readBody(request: Request, options: { limit?: number }): Promise<string> {
  const bytes = await readBytes(request, options);
  try {
    return utf8.decode(bytes);
  } catch (cause) {
    throw new HttpError(400, "body: is not UTF-8 text", { cause });
  }
}

/** JSON's name for the type of a value: `null`, `array`, `object`, `string`, `number` or `boolean`. */
function typeName(value: unknown): string {
  if (value === null) return "null";
  return Array.isArray(value) ? "array" : typeof value;
}

const MAX_SHOWN = 20;

// `status` and `createdAt` are part of the GET response: a caller that sends it back may leave them in.
const schema = v.strictObject({
  name: v.optional(v.string()),
  spec: v.custom<object>((value) => value !== undefined, "is required"),
  status: v.optional(v.unknown()),
  createdAt: v.optional(v.unknown()),
});

/**
 * Reads `{name, spec}` and checks the spec.
 *
 * @param problemsOf lists the problems of a spec; empty if it is a valid `Spec`
 * @throws HttpError 400 that lists every problem of the spec
 */
export async function readSpecBody<Spec>(
  request: Request,
  problemsOf: (spec: unknown) => readonly string[],
): Promise<{ name: string | undefined; spec: Spec }> {
  const { name, spec } = await readJson(request, schema);
  const problems = problemsOf(spec);
  if (problems.length > 0) throw new HttpError(400, listed(problems.map((problem) => `body.${problem}`)));
  return { name, spec: spec as Spec };
}

/** One sentence of the first problems, and how many more there are. */
export function listed(problems: readonly string[]): string {
  const shown = problems.slice(0, MAX_SHOWN);
  const hidden = problems.length - shown.length;
  return [...shown, ...(hidden > 0 ? [`and ${hidden} more`] : [])].join("; ");
}
