import { pattern } from "./patterns.ts";
import type { JsonSchema } from "./schema.ts";
import { patternHints } from "./schema-problems.ts";

/**
 * Patterns whose regular expression does not help a person. Those of values that go into a proxy's configuration or a
 * script, such as domains, stay patterns: old API servers also refuse values that do not match.
 */
const UNREADABLE: readonly string[] = [pattern.directory];

/**
 * The schema with CEL rules instead of long patterns, so that the errors of `kubectl apply` are readable. The API
 * server skips all rules if a pattern fails, so a schema has one or the other.
 *
 * Servers before 1.25 drop the rules. So use this only for a spec that the operator validates completely before using
 * it.
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
