import { ArchiveError } from "../../crds/archive/archive-error.ts";
import type { Claim } from "../../crds/claim.ts";
import { claims } from "../../crds/kinds.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation, label } from "../../crds/labels.ts";
import { TOOLS_CONTAINER } from "../snapshots/pods/pod-tools.ts";
import type { RestoreInto } from "../snapshots/snapshots.ts";
import type { ClaimContext } from "./context.ts";
import type { Outcome } from "./outcome.ts";

/** After so many pods in a row, a failure to restore counts as permanent. */
const MOST_FAILURES = 3;
const MOST_SHOWN = 3;

/** Whether the files are restored; until then, the outcome of the reconcile. */
export type RestoreAnswer = { readonly restored: true } | { readonly restored: false; readonly result: Outcome };

/** Whether files have to be restored into a pod before its tenant gets it. */
export function needsFiles({ metadata }: Pod): boolean {
  return metadata.annotations?.[annotation.source]?.endsWith("+data") === true;
}

/** Whether the pod's start waits for files: only the container that restores them runs. */
export function waitsForFiles(pod: Pod): boolean {
  const tools = pod.status?.initContainerStatuses?.find(({ name }) => name === TOOLS_CONTAINER);
  return needsFiles(pod) && tools?.state?.running !== undefined;
}

/**
 * Restores a tenant's files into a pod that is not in use yet.
 *
 * Files are restored into a pod once. If that fails, the pod is never given to its tenant. A pod that another operator
 * bound is also not given to the tenant: data which that operator sent may still arrive, even after the tenant has
 * written files of its own (docs/decisions/snapshots.md#a-pod-is-restored-into-once).
 */
export async function restoreFiles(
  { claim, pod, into }: { claim: Claim; pod: Pod; into: RestoreInto },
  context: ClaimContext,
): Promise<RestoreAnswer> {
  const { tenantId, workloadRef } = claim.spec;
  const { restores, refillPause, snapshots, metrics } = context;
  const id = pod.metadata.uid ?? "";
  const { [annotation.resumedFrom]: resumedFrom, [annotation.restoredFrom]: sha256 = resumedFrom } =
    pod.metadata.annotations ?? {};
  if (!context.ownPods.has(id)) {
    const message = `the operator that was restoring files into pod "${pod.metadata.name}" is gone`;
    return { restored: false, result: { next: "replace", why: { reason: "RestoreInterrupted", message } } };
  }
  const carried = pod.metadata.labels?.[label.tenant];
  if (carried !== tenantId) {
    const error = new Error(`pod "${pod.metadata.name}" carries the tenant "${carried}", not "${tenantId}"`);
    return { restored: false, result: startOver(claim, error, context) };
  }
  context.timelines.mark(claim, "FilesFrom");
  const work = restores.run(
    id,
    async (signal, onBytes) => {
      const ended = refillPause.restoring(workloadRef);
      try {
        const restored = await metrics.timeSnapshot({ operation: "restore", onBytes }, (counted) =>
          snapshots.restore({ tenantId, workloadRef }, pod, { into, sha256, signal, onBytes: counted }),
        );
        if (restored?.lost !== undefined) reportLost(claim, restored.lost, context);
        return restored;
      } finally {
        ended();
      }
    },
    () => context.enqueueClaim(claim),
    tenantId,
  );
  if (work.state === "running") {
    const since = Date.parse(pod.metadata.annotations?.[annotation.claimedAt] ?? "");
    const wait = { reason: "Restoring", message: "the tenant's files are being restored", since };
    return { restored: false, result: { next: "wait", ...wait } };
  }
  if (work.state === "done" && work.value !== undefined) {
    context.timelines.mark(claim, "FilesTo");
    return { restored: true };
  }
  restores.forget(id);
  // If the archive was deleted since the lookup, the next pod starts without files.
  const error = work.state === "failed" ? work.error : new Error("the archive was deleted");
  return { restored: false, result: startOver(claim, error, context) };
}

function reportLost(claim: Claim, lost: readonly string[], { events }: ClaimContext): void {
  const shown = lost.slice(0, MOST_SHOWN).map((name) => `"${name}"`);
  const more = lost.length > shown.length ? " and more" : "";
  events.record({
    ...{ resource: claims, object: claim, type: "Warning", reason: "FilesIncomplete" },
    message: `the snapshot has no content of ${shown.join(", ")}${more}, which an earlier version did not save; all other files are restored`,
  });
}

/**
 * Gives a claim another pod if its files could not be restored into the last one. Fails the claim after
 * {@link MOST_FAILURES} such pods.
 */
export function startOver(claim: Claim, error: unknown, context: ClaimContext): Outcome {
  const { uid = "", name } = claim.metadata;
  const message = error instanceof Error ? error.message : String(error);
  const failures = (context.restoreFailures.get(uid) ?? 0) + 1;
  context.log.warn({ claim: name, failures, error }, "files could not be restored");
  if (error instanceof ArchiveError || failures >= MOST_FAILURES) {
    context.restoreFailures.delete(uid);
    return {
      ...{ next: "fail", reason: "RestoreFailed" },
      message: `the tenant's files could not be restored: ${message}. The archive is kept: claim again, or claim without resume`,
    };
  }
  context.restoreFailures.set(uid, failures);
  const why = { reason: "RestoreInterrupted", message: `files could not be restored (${message})` };
  return { next: "replace", why };
}
