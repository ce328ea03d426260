import type { Claim } from "../../crds/claim.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";
import { isOfSession } from "../../crds/snapshots/kept-versions.ts";
import type { SnapshotMetadata } from "../../crds/snapshots/snapshot-metadata.ts";
import { currentRevision } from "../pod/pod-identity.ts";

/**
 * Names the session of a claim: all its pods, until one is destroyed on request. Its files are then given up, and the
 * next pod begins another session.
 */
export function sessionOf({ metadata: { uid = "" }, status }: Claim): string {
  return status?.sessionStart === undefined ? uid : `${uid}.${status.sessionStart}`;
}

/** The files that a pod is given. */
export interface GivenFiles {
  /** SHA-256 of the archive that the session began with; none if it asked for one and there was none. */
  readonly resumedFrom?: string | undefined;
  /** SHA-256 of the checkpoint that it goes on from, after the loss of a pod. */
  readonly restoredFrom?: string | undefined;
}

/** @param archive that the next pod of the claim gets. A checkpoint of another session is a version like others */
export function givenFiles(claim: Claim, archive: SnapshotMetadata | undefined): GivenFiles {
  const { sha256, continues } = archive ?? {};
  const none = asksForFiles(claim) ? "none" : undefined;
  return archive !== undefined && isOfSession(sessionOf(claim), archive)
    ? { resumedFrom: continues ?? claim.status?.resumedFrom ?? none, restoredFrom: sha256 }
    : { resumedFrom: sha256 ?? none };
}

export function givenAnnotations({ resumedFrom, restoredFrom }: GivenFiles): Record<string, string> {
  return {
    ...(resumedFrom !== undefined && { [annotation.resumedFrom]: resumedFrom }),
    ...(restoredFrom !== undefined && { [annotation.restoredFrom]: restoredFrom }),
  };
}

/** What {@link givenAnnotations} wrote to a pod. */
export function filesGivenTo({ metadata: { annotations = {} } }: Pod): GivenFiles {
  return { resumedFrom: annotations[annotation.resumedFrom], restoredFrom: annotations[annotation.restoredFrom] };
}

/** Whether the claim's next pod gets saved files: the tenant's, or those of the session itself. */
export function asksForFiles({ spec, status }: Claim): boolean {
  return spec.resume === true || spec.resumeVersion !== undefined || status?.sessionSnapshot !== undefined;
}

/** Whether the session may have had a pod before the present one, of which there may be a checkpoint. */
export function mayHaveCheckpoint(claim: Claim): boolean {
  return currentRevision(claim) > (claim.status?.sessionStart ?? 0);
}
