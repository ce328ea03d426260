import type { Claim } from "../../crds/claim.ts";
import { systemClock } from "../../crds/client/clock.ts";
import { sleep } from "../../crds/client/sleep.ts";
import { claims } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";
import { SNAPSHOTS_NAME } from "../../crds/snapshots/snapshots-names.ts";
import type { OperatorContext } from "../context.ts";
import { podState } from "../pod/pod-state.ts";
import type { ReconcileResult } from "../queue.ts";
import { isHelperRunning } from "../snapshots/is-helper-running.ts";
import { podFiles } from "../snapshots/pod-files.ts";
import { isCurrent, readClaimPods } from "./claim-pods.ts";
import { patchClaimStatus } from "./claim-status.ts";
import { isDiscardedForIdleness } from "./release-when-idle.ts";

const HELPER_START_LIMIT_MS = 20_000;

/**
 * The pod whose files a release has to save before it may go: the one that the tenant was given, and no other, since what is in any
 * other is not the tenant's, or not all of it.
 */
export async function podToSave(
  claim: Claim,
  pods: readonly Pod[],
  context: OperatorContext,
): Promise<Pod | undefined> {
  const { status, metadata } = claim;
  const pod = pods.find(({ metadata: { name } }) => name === status?.instanceId);
  if (pod?.metadata.annotations?.[annotation.overlayDirs] === undefined || status?.snapshot !== undefined)
    return undefined;
  const isDiscarded = metadata.annotations?.[annotation.discard] === "true" || (await isLeftIdle(claim, pod, context));
  if (isDiscarded) {
    context.saves.forget(pod.metadata.uid ?? "");
    if (pod.metadata.deletionTimestamp === undefined) {
      context.events.record({
        ...{ resource: claims, object: claim, type: "Normal", reason: "Discarded" },
        message: `the files in pod "${pod.metadata.name}" are given up: the archive of the last release stays as it is`,
      });
    }
    return undefined;
  }
  const state = podState(pod);
  if (state.state !== "lost") return pod;
  // To a claim that is behind, files that are safe look lost.
  if (!(await isCurrent(claim, context))) return undefined;
  context.events.record({
    ...{ resource: claims, object: claim, type: "Warning", reason: "NotSaved" },
    message: `${state.message} before its files were saved: the archive of the last release stays as it is`,
  });
  return undefined;
}

/** Whether nobody has used the pod since the claim was marked for idleness: asked of the API server, since a late use may not show yet. */
async function isLeftIdle(claim: Claim, pod: Pod, context: OperatorContext): Promise<boolean> {
  if (!isDiscardedForIdleness(claim, pod)) return false;
  if (pod.metadata.deletionTimestamp !== undefined) return true;
  return (await readClaimPods(claim, context)).every((present) => isDiscardedForIdleness(claim, present));
}

/**
 * Saves the files of a claim that is being released, in the background; says what the reconcile ends with until they are safe.
 *
 * The archive of before stays until the new one is whole. A save that fails leaves the claim in `ReleaseFailed` with its pod, and is
 * tried again for as long as nobody gives the files up (design.md, section 4, "Invariants").
 */
export async function saveFiles(
  claim: Claim,
  pod: Pod,
  context: OperatorContext,
): Promise<{ saved: Claim } | { saved: undefined; result: ReconcileResult }> {
  const { tenantId, workloadRef } = claim.spec;
  const { saves, snapshots, metrics } = context;
  const isFenced = () => !context.isLeading();
  const work = saves.run(
    pod.metadata.uid ?? "",
    async (signal) => {
      await untilHelperRuns(context, signal);
      await runPreSave(claim, pod, { context, signal });
      return metrics.timeSnapshot("save", () => snapshots.save({ tenantId, workloadRef }, pod, { signal, isFenced }));
    },
    () => context.wakeClaim(claim),
    tenantId,
  );
  if (work.state === "running") return { saved: undefined, result: undefined };
  if (work.state === "done") {
    const { sha256, sizeBytes, createdAt } = work.value;
    const snapshot = { sha256, sizeBytes, createdAt };
    return {
      saved: await patchClaimStatus(claim, { phase: "Releasing", reason: null, message: null, snapshot }, context),
    };
  }
  await tellFailure(claim, work.error, context);
  return { saved: undefined, result: { requeueAfterMs: work.retryInMs } };
}

/** Has the program write out what it holds; a failure ends the save, unless the workload says that it goes on. */
async function runPreSave(
  claim: Claim,
  pod: Pod,
  { context, signal }: { context: OperatorContext; signal: AbortSignal },
): Promise<void> {
  try {
    await context.snapshots.runPreSave(pod, signal);
  } catch (error) {
    if (signal.aborted || podFiles(pod).preSave?.onError !== "Continue") throw error;
    const message = `${error instanceof Error ? error.message : error}; the files are saved as they are`;
    context.events.record({ resource: claims, object: claim, type: "Warning", reason: "PreSaveFailed", message });
  }
}

/** The helper pod starts with the first workload that keeps files, and a tenant of it may be released before it has. */
async function untilHelperRuns({ informers, config }: OperatorContext, signal: AbortSignal): Promise<void> {
  const end = Date.now() + HELPER_START_LIMIT_MS;
  const isRunning = () => {
    const helper = informers.helperPods.store.get(`${config.namespace}/${SNAPSHOTS_NAME}`);
    return helper !== undefined && isHelperRunning(helper);
  };
  // One that does not come is the save's own error to tell.
  while (!isRunning() && Date.now() < end) await sleep(50, { clock: systemClock, signal });
}

async function tellFailure(claim: Claim, error: unknown, context: OperatorContext): Promise<void> {
  const message = `the files could not be saved: ${error instanceof Error ? error.message : error}. The pod is kept and the save tried again; to give the files up, annotate the claim with ${annotation.discard}=true`;
  if (claim.status?.phase === "ReleaseFailed" && claim.status.message === message) return;
  context.log.warn({ claim: claim.metadata.name, error }, "files could not be saved");
  const failed = await patchClaimStatus(claim, { phase: "ReleaseFailed", reason: "SaveFailed", message }, context);
  context.events.record({ resource: claims, object: failed, type: "Warning", reason: "ReleaseFailed", message });
}
