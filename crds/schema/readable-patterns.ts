import { pattern } from "./patterns.ts";
import type { JsonSchema } from "./schema.ts";
import { patternHints } from "./schema-problems.ts";

/**
 * Patterns whose regular expression tells a person nothing. Those of what goes into a proxy's configuration or a
 * script, such as domains, stay patterns: on an old server too, the API server refuses what does not match.
 */
const UNREADABLE: readonly string[] = [pattern.directory];

/**
 * The schema with rules in CEL in the place of long patterns, so that `kubectl apply` says in words what
 * is wrong. The API server skips all rules where a pattern fails, so it has one or the other.
 *
 * Servers before 1.25 drop the rules. So this is for a spec alone that the operator checks as a whole before it uses it.
 */
export function readablePatterns(schema: JsonSchema): JsonSchema {
  const { pattern: expression, ...rest } = schema;
  const hint = expression !== undefined && UNREADABLE.includes(expression) ? patternHints[expression] : undefined;
  const rule = { rule: `self.matches(r'${expression}')`, message: `must be ${hint}` };
  return {
    ...(hint === undefined ? schema : { ...rest, "x-kubernetes-validations": [rule] }),
    ...(schema.items !== undefined && { items: readablePatterns(schema.items) }),
    ...(schema.additionalProperties !== undefined && {
      additionalProperties: readablePatterns(schema.additionalProperties),
    }),
    ...(schema.properties !== undefined && {
      properties: Object.fromEntries(
        Object.entries(schema.properties).map(([name, property]) => [name, readablePatterns(property)]),
      ),
    }),
  };
}
