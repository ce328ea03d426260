import { type ClaimSpec, claimSpecSchema } from "../claim.ts";
import { CLAIM_LABEL_PREFIX } from "../labels.ts";
import { quote } from "../quote.ts";
import { pattern } from "../schema/patterns.ts";
import { plainSchema } from "../schema/schema.ts";
import { patternHints, schemaProblems } from "../schema/schema-problems.ts";
import { differingKeys } from "./differing-keys.ts";

const schema = plainSchema(claimSpecSchema.properties.labels);
const NAME = new RegExp(pattern.labelName);

/**
 * What is wrong with a claim's labels: sentences that start with the field's path, and never contain a value. The same
 * rules as the CRD's, on any API server.
 */
export function labelProblems(labels: unknown, path: string): string[] {
  const problems = schemaProblems({ value: labels, schema, path });
  if (problems.length > 0) return problems;
  const wrong = Object.keys(labels as object).filter((key) => !NAME.test(key));
  return wrong.map((key) => `${path}: ${quote(key)} must be ${patternHints[pattern.labelName]}`);
}

/** The labels of a claim's pods; none if they are not valid, so that no pod is refused for them. */
export function podLabelsOf({ labels }: ClaimSpec): Record<string, string> {
  if (labels === undefined || labelProblems(labels, "").length > 0) return {};
  return Object.fromEntries(Object.entries(labels).map(([key, value]) => [CLAIM_LABEL_PREFIX + key, value]));
}

/** The keys of labels that only one of the two has, or that have another value in the other. */
export function differingLabels(a: ClaimSpec["labels"], b: ClaimSpec["labels"]): string[] {
  return differingKeys(new Map(Object.entries(a ?? {})), new Map(Object.entries(b ?? {})));
}
