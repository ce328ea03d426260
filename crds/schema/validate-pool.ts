import { parseCron } from "../cron-pattern.ts";
import { type PoolSpec, poolSpecSchema, poolWords } from "../pool.ts";
import { plainSchema } from "./schema.ts";
import { schemaProblems } from "./schema-problems.ts";
import { timezoneProblems } from "./validate-trigger.ts";

const schema = plainSchema(poolSpecSchema);

/**
 * The problems of a pool's spec: sentences that name the field and say what to change; empty if it is valid.
 *
 * The same rules as the CRD's schema and CEL, and those that neither can express.
 */
export function poolProblems(spec: unknown): string[] {
  const problems = schemaProblems({ value: spec, schema, path: "spec" });
  return problems.length > 0 ? problems : ruleProblems(spec as PoolSpec);
}

function ruleProblems({ size, maxSize, minSize, target, schedule, scaleDownAfterSeconds }: PoolSpec): string[] {
  if ((size === undefined) === (maxSize === undefined)) return [`spec: ${poolWords.size}`];
  const isScaling = [minSize, target, schedule, scaleDownAfterSeconds].some((field) => field !== undefined);
  if (maxSize === undefined) return isScaling ? [`spec: ${poolWords.scaling}`] : [];
  return [
    ...((minSize ?? 0) > maxSize ? [`spec.minSize: ${poolWords.minSize}`] : []),
    ...(target !== undefined && Object.keys(target).length !== 1 ? [`spec.target: ${poolWords.target}`] : []),
    ...(schedule ?? []).flatMap((entry, index) => {
      const path = `spec.schedule[${index}]`;
      if (entry.minSize > maxSize) return [`${path}.minSize: ${poolWords.minSize}`];
      const wrongZone = timezoneProblems(entry.timezone, `${path}.timezone`);
      return wrongZone.length > 0 ? wrongZone : cronProblems(entry.cron, `${path}.cron`);
    }),
  ];
}

function cronProblems(pattern: string, path: string): string[] {
  try {
    parseCron(pattern, "UTC");
    return [];
  } catch (error) {
    return [`${path}: ${(error as Error).message}`];
  }
}
