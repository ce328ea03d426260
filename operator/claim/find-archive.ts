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
import { asksForFiles, mayHaveCheckpoint, sessionOf } from "./session.ts";

/** The archive to restore, if any; or, until that is known, the outcome of the reconcile. */
export type ArchiveAnswer =
  | { readonly known: true; readonly archive: SnapshotMetadata | undefined }
  | { readonly known: false; readonly result: Outcome };

/**
 * Finds the archive that the claim's next pod gets: the checkpoint of its session, if that has lost a pod, else the one
 * that it asks for. If the store cannot be read, the claim waits: an archive may exist.
 *
 * @param overlayDirs of the workload
 */
export async function findArchive(
  claim: Claim,
  overlayDirs: readonly string[],
  context: ClaimContext,
): Promise<ArchiveAnswer> {
  const mayGoOn = overlayDirs.length > 0 && mayHaveCheckpoint(claim) && (await mayHaveArchives(context));
  if (!asksForFiles(claim) && !mayGoOn) return { known: true, archive: undefined };
  const { tenantId, workloadRef, resumeVersion } = claim.spec;
  const key = { tenantId, workloadRef };
  const version = claim.status?.sessionSnapshot ?? resumeVersion;
  // A workload that keeps no files now may have kept some before, of which its tenants are told.
  if (overlayDirs.length === 0 && version === undefined && !(await mayHaveArchives(context)))
    return { known: true, archive: undefined };
  const id = lookupId(claim);
  const look = context.archiveLookups.run(
    id,
    async (signal) => {
      const session = sessionOf(claim);
      const checkpoint = mayGoOn ? await context.snapshots.findCheckpoint(key, { session, signal }) : undefined;
      // Each save of a session replaces its checkpoint, which is therefore later than all that it was given.
      return checkpoint ?? (asksForFiles(claim) ? await context.snapshots.find(key, { version, signal }) : undefined);
    },
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
