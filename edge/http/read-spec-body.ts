import * as v from "valibot";
import { HttpError } from "./http-error.ts";
import { readJson } from "./read-json.ts";

const MAX_SHOWN = 20;

// `status` and `createdAt` are what GET shows beside the spec: whoever sends back what was read may leave them in.
const schema = v.strictObject({
  name: v.optional(v.string()),
  spec: v.custom<object>((value) => value !== undefined, "is required"),
  status: v.optional(v.unknown()),
  createdAt: v.optional(v.unknown()),
});

/**
 * Reads `{name, spec}` and checks the spec.
 *
 * @param problemsOf what is wrong with a spec, in words; nothing where it fits `Spec`
 * @throws HttpError 400 that lists every problem of the spec
 */
export async function readSpecBody<Spec>(
  request: Request,
  problemsOf: (spec: unknown) => readonly string[],
): Promise<{ name: string | undefined; spec: Spec }> {
  const { name, spec } = await readJson(request, schema);
  const problems = problemsOf(spec);
  if (problems.length > 0) throw new HttpError(400, listed(problems));
  return { name, spec: spec as Spec };
}

function listed(problems: readonly string[]): string {
  const shown = problems.slice(0, MAX_SHOWN).map((problem) => `body.${problem}`);
  const hidden = problems.length - shown.length;
  return [...shown, ...(hidden > 0 ? [`and ${hidden} more`] : [])].join("; ");
}
