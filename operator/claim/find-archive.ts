import { ArchiveError } from "../../crds/archive/archive-error.ts";
import type { Claim } from "../../crds/claim.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import type { SnapshotMetadata } from "../../crds/snapshots/snapshot-metadata.ts";
import { SNAPSHOTS_NAME } from "../../crds/snapshots/store-folder.ts";
import { podState } from "../pod/pod-state.ts";
import { mayHaveArchives } from "../snapshots/has-store.ts";
import { isHelperRunning } from "../snapshots/helper-pod.ts";
import { type ClaimContext, lookupId } from "./context.ts";
import type { Outcome } from "./outcome.ts";

/** The archive to restore, if any; or, until that is known, the outcome of the reconcile. */
export type ArchiveAnswer =
  | { readonly known: true; readonly archive: SnapshotMetadata | undefined }
  | { readonly known: false; readonly result: Outcome };

/**
 * Finds the archive that a claim asks for. If the store cannot be read, the claim waits: an archive may exist.
 *
 * @param overlayDirs of the workload
 */
export async function findArchive(
  claim: Claim,
  overlayDirs: readonly string[],
  context: ClaimContext,
): Promise<ArchiveAnswer> {
  if (!asksForFiles(claim)) return { known: true, archive: undefined };
  const { tenantId, workloadRef, resumeVersion } = claim.spec;
  const version = claim.status?.sessionSnapshot ?? resumeVersion;
  // A workload that keeps no files now may have kept some before, of which its tenants are told.
  if (overlayDirs.length === 0 && version === undefined && !(await mayHaveArchives(context)))
    return { known: true, archive: undefined };
  const id = lookupId(claim);
  const look = context.archiveLookups.run(
    id,
    (signal) => context.snapshots.find({ tenantId, workloadRef }, { version, signal }),
    () => context.enqueueClaim(claim),
  );
  if (look.state === "running") return { known: false, result: undefined };
  if (look.state === "done") {
    // The claim's next pod needs a new lookup.
    context.archiveLookups.forget(id);
    const lost = look.value?.overlayDirs.find((directory) => !isWithin(directory, overlayDirs));
    if (lost === undefined) return { known: true, archive: look.value };
    const message = `the tenant's archive holds files of ${lost}, which workload "${workloadRef}" does not save: add it to spec.filesystem.overlayDirs, claim without resume, or delete the snapshot`;
    return failed(message);
  }
  if (look.error instanceof ArchiveError)
    return failed(`the tenant's archive cannot be restored: ${look.error.message}`);
  const message = whyWaiting(claim, look.error, context);
  const wait = { next: "wait", reason: "SnapshotsUnavailable", message } as const;
  return { known: false, result: { ...wait, requeueAfterMs: look.retryInMs } };

  function failed(message: string): ArchiveAnswer {
    context.archiveLookups.forget(id);
    return { known: false, result: { next: "fail", reason: "RestoreFailed", message } };
  }
}

/** Whether the claim's next pod gets saved files: the tenant's, or those of the session itself. */
export function asksForFiles({ spec, status }: Claim): boolean {
  return spec.resume === true || spec.resumeVersion !== undefined || status?.sessionSnapshot !== undefined;
}

function isWithin(directory: string, overlayDirs: readonly string[]): boolean {
  return overlayDirs.some((kept) => directory === kept || directory.startsWith(`${kept}/`));
}

/** Why the helper pod does not run: the first claim after an installation may come while it starts. */
function helperState(helper: Pod | undefined): string {
  if (helper === undefined)
    return `helper pod ${SNAPSHOTS_NAME}, which holds the snapshots volume, is about to be created`;
  const state = podState(helper);
  const why = "message" in state ? `: ${state.message}` : "";
  return `helper pod ${SNAPSHOTS_NAME}, which holds the snapshots volume, is not running yet${why}`;
}

function whyWaiting(claim: Claim, error: unknown, context: ClaimContext): string {
  const { log, informers, config } = context;
  const [helper] = informers.helperPods.store.values();
  const isVolume = config.snapshots.store.place.kind === "volume";
  const isRunning = !isVolume || (helper !== undefined && isHelperRunning(helper));
  const why = isRunning ? (error instanceof Error ? error.message : error) : helperState(helper);
  const message = `cannot check yet whether the tenant has saved files: ${why}`;
  if (claim.status?.message === message) return message;
  const fields = { claim: claim.metadata.name, error };
  if (isRunning) log.warn(fields, "cannot look for the tenant's archive");
  else log.info(fields, "claim waits for the snapshots helper pod");
  return message;
}
