import { hasInputs, startsTooEarly } from "../../../crds/claims/claim-inputs.ts";
import { isTransient } from "../../../crds/client/api-error.ts";
import type { Store } from "../../../crds/client/watch/store.ts";
import { takesClaimInputs } from "../../../crds/defaults.ts";
import { triggerProblems } from "../../../crds/schema/validate-trigger.ts";
import type { Trigger } from "../../../crds/trigger.ts";
import type { Workload } from "../../../crds/workload.ts";
import { pathProblem } from "../webhook/webhook-paths.ts";
import { SecretError } from "./secret-reader.ts";

/**
 * Why a trigger cannot be served; undefined if it can. Depends only on the triggers, so that every process decides
 * alike.
 *
 * @param others all webhook triggers of the path
 */
export function triggerProblem(trigger: Trigger, others: Iterable<Trigger>): string | undefined {
  const own = ownProblem(trigger);
  if (own !== undefined) return own;
  const path = trigger.spec.type === "webhook" ? trigger.spec.config.path : undefined;
  if (path === undefined) return undefined;
  for (const other of others) {
    if (other.metadata.uid === trigger.metadata.uid || other.metadata.deletionTimestamp !== undefined) continue;
    if (!precedes(other, trigger) || ownProblem(other) !== undefined) continue;
    return `spec.config.path: ${path} belongs to the older trigger ${other.metadata.name}; choose another path, or delete that trigger`;
  }
  return undefined;
}

/** Why a trigger is not Active. */
export interface TriggerProblem {
  /** One word for programs. */
  readonly reason: "TriggerError" | "WorkloadNotFound" | "WorkloadTerminating" | "WorkloadStartsTooEarly";
  readonly message: string;
  /** Whether it may end by itself, for example if the workload is applied after its trigger. */
  readonly mayPass: boolean;
}

/**
 * Finds problems of a trigger's workload. The trigger is served nevertheless: its events find the workload as soon as
 * it exists.
 *
 * @returns `onSynced`, to be called when the cache of workloads is synced: before that no workload counts as missing
 */
export function createWorkloadProblems(options: {
  namespace: string;
  workloads: Pick<Store<Workload, never>, "get">;
}): { find(trigger: Trigger): TriggerProblem | undefined; onSynced(): void } {
  const { namespace, workloads } = options;
  let isSynced = false;
  return {
    onSynced() {
      isSynced = true;
    },
    find({ spec: { workloadRef, claim } }) {
      const workload = workloads.get({ namespace, name: workloadRef });
      if (workload === undefined && isSynced) {
        const message = `spec.workloadRef: workload "${workloadRef}" does not exist in namespace "${namespace}", the only namespace that is served: create it there, or name another workload`;
        return { reason: "WorkloadNotFound", message, mayPass: true };
      }
      if (workload === undefined) return undefined;
      if (workload.metadata.deletionTimestamp !== undefined) {
        const message = `spec.workloadRef: workload "${workloadRef}" is being deleted: name another workload`;
        return { reason: "WorkloadTerminating", message, mayPass: true };
      }
      if (!hasInputs(claim?.inputs) || takesClaimInputs(workload.spec)) return undefined;
      const message = `spec.claim.inputs: ${startsTooEarly(workloadRef)}`;
      return { reason: "WorkloadStartsTooEarly", message, mayPass: true };
    },
  };
}

/** Whether a failure may end by itself: its Secret is applied later, or the API server cannot be reached now. */
export function mayPass(error: unknown): boolean {
  if (error instanceof SecretError) return error.isAbsent;
  return isTransient(error);
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
