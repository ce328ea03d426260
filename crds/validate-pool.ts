import { poolSpecSchema } from "./pool.ts";
import { plainSchema } from "./schema.ts";
import { type ProblemOptions, schemaProblems } from "./schema-problems.ts";

const schema = plainSchema(poolSpecSchema);

/** What is wrong with a pool's spec: sentences that name the field; empty when it is valid. */
export function poolProblems(spec: unknown, options: ProblemOptions = {}): string[] {
  return schemaProblems({ value: spec, schema, path: "spec" }, options);
}
