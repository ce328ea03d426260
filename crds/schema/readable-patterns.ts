import { pattern } from "./patterns.ts";
import type { JsonSchema } from "./schema.ts";
import { patternHints } from "./schema-problems.ts";

/**
 * Patterns whose regular expression does not help a person, and the looser pattern that stays beside the rule. It holds
 * what people write by mistake, such as the address in the place of a domain, and nothing that could end a line or a
 * string where the value goes into the configuration of a proxy or into a script: old API servers check it too.
 */
const UNREADABLE: Readonly<Record<string, string | undefined>> = {
  [pattern.labelKey]: undefined,
  [pattern.directory]: undefined,
  [pattern.absolutePath]: undefined,
  [pattern.oneLine]: undefined,
  [pattern.word]: undefined,
  [pattern.urlPath]: undefined,
  [pattern.url]: undefined,
  [pattern.domain]: "^[-A-Za-z0-9_.*:/]+$",
  [pattern.gitUrl]: "^[-A-Za-z0-9_.~!$&'()*+,;=:%/@]+$",
};

/**
 * The schema with CEL rules instead of long patterns, so that the errors of `kubectl apply` are readable. The API
 * server skips all rules if a pattern fails, so a value that a person may write fails only one of them.
 *
 * Servers before 1.25 drop the rules. So use this only for a spec that the operator or the gateway validates completely
 * before using it.
 */
export function readablePatterns(schema: JsonSchema): JsonSchema {
  return {
    ...withRule(schema),
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

function withRule(schema: JsonSchema): JsonSchema {
  const { pattern: expression, ...rest } = schema;
  if (expression === undefined || !(expression in UNREADABLE)) return schema;
  const loose = UNREADABLE[expression];
  const rule = { rule: `self.matches(r"${expression}")`, message: `must be ${patternHints[expression]}` };
  const others = schema["x-kubernetes-validations"] ?? [];
  return { ...rest, ...(loose !== undefined && { pattern: loose }), "x-kubernetes-validations": [rule, ...others] };
}
