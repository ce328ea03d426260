import { triggerProblems } from "../../../crds/schema/validate-trigger.ts";
import type { Trigger } from "../../../crds/trigger.ts";
import { pathProblem } from "../webhook/webhook-paths.ts";

/**
 * Why a trigger cannot be served, as far as the triggers themselves tell, so that every process comes to the same; undefined where it can.
 *
 * @param rivals all webhook triggers of the path
 */
export function triggerProblem(trigger: Trigger, rivals: Iterable<Trigger>): string | undefined {
  const own = ownProblem(trigger);
  if (own !== undefined) return own;
  const path = trigger.spec.type === "webhook" ? trigger.spec.config.path : undefined;
  if (path === undefined) return undefined;
  for (const rival of rivals) {
    if (rival.metadata.uid === trigger.metadata.uid || rival.metadata.deletionTimestamp !== undefined) continue;
    if (!precedes(rival, trigger) || ownProblem(rival) !== undefined) continue;
    return `spec.config.path: ${path} belongs to the older trigger ${rival.metadata.name}; choose another path, or delete that trigger`;
  }
  return undefined;
}

function ownProblem({ spec }: Trigger): string | undefined {
  const problems = triggerProblems(spec);
  if (problems.length > 0) return problems.join("; ");
  if (spec.type !== "webhook" || spec.config.path === undefined) return undefined;
  const problem = pathProblem(spec.config.path);
  return problem === undefined ? undefined : `spec.config.path: ${spec.config.path} ${problem}`;
}

function precedes(a: Trigger, b: Trigger): boolean {
  const [created, other] = [a.metadata.creationTimestamp ?? "", b.metadata.creationTimestamp ?? ""];
  return created === other ? a.metadata.name < b.metadata.name : created < other;
}
