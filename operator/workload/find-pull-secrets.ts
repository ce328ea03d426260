import type { ConditionNow } from "../../crds/schema/condition.ts";
import type { Workload } from "../../crds/workload.ts";
import { pullSecretProblems, readPullSecrets } from "../registry/pull-secrets.ts";
import type { WorkloadContext } from "./context.ts";

export interface PullSecretsOutcome {
  readonly condition: ConditionNow;
  /** When to look again, in milliseconds. */
  readonly requeueAfterMs: number;
}

export const PULL_SECRETS_CONDITION = "PullSecretsFound";
const MISSING_AGAIN_MS = 30_000;
const FOUND_AGAIN_MS = 10 * 60_000;

/**
 * Looks for the Secrets that a workload's pods pull with; undefined if it names none. Nodes pull without one that is
 * missing, and may have the image already, so the workload is ready all the same.
 */
export async function findPullSecrets(
  { spec }: Workload,
  { cluster }: Pick<WorkloadContext, "cluster">,
): Promise<PullSecretsOutcome | undefined> {
  const named = spec.image.pullSecrets?.map(({ name }) => name) ?? [];
  if (named.length === 0) return undefined;
  const problems = pullSecretProblems(await readPullSecrets(cluster, { named }));
  if (problems.length === 0) {
    const message = "The Secrets of spec.image.pullSecrets exist";
    const condition: ConditionNow = { type: PULL_SECRETS_CONDITION, status: "True", reason: "SecretsFound", message };
    return { condition, requeueAfterMs: FOUND_AGAIN_MS };
  }
  const message = `spec.image.pullSecrets: ${problems.join("; ")}`;
  return {
    condition: { type: PULL_SECRETS_CONDITION, status: "False", reason: "PullSecretUnusable", message },
    requeueAfterMs: MISSING_AGAIN_MS,
  };
}
