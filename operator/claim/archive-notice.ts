import type { Claim } from "../../crds/claim.ts";
import { isConflict } from "../../crds/client/api-error.ts";
import { claims } from "../../crds/kinds.ts";
import { archiveDigits } from "../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../crds/snapshots/snapshot-metadata.ts";
import { hasStore } from "../snapshots/has-store.ts";
import { patchClaimStatus } from "./claim-status.ts";
import type { ArchiveNotice, ClaimContext } from "./context.ts";
import { asksForFiles } from "./session.ts";

const MOST_TRIES = 3;

/**
 * Looks, while a pod is being bound, whether a tenant who does not ask for files has some. Nothing waits for the
 * answer: one found before the claim is Active goes into that write, a later one gets a write of its own.
 */
export function findNotice(claim: Claim, overlayDirs: readonly string[], context: ClaimContext): void {
  const { archiveLookups, log, notices, snapshots } = context;
  const { uid = "" } = claim.metadata;
  const { tenantId, workloadRef } = claim.spec;
  if (asksForFiles(claim) || overlayDirs.length === 0 || !hasStore(context) || notices.has(uid)) return;
  const notice: ArchiveNotice = { message: undefined, isLate: false };
  notices.set(uid, notice);
  const id = `notice ${uid}`;
  archiveLookups.run(
    id,
    async (signal) => {
      try {
        const found = await snapshots.find({ tenantId, workloadRef }, { signal });
        if (found === undefined) return undefined;
        notice.message = `the tenant has files of ${found.createdAt}: this session starts without them, and its release keeps them as version ${archiveDigits(found.sha256)}`;
        if (notice.isLate) await reportLate(claim, notice.message, context);
      } catch (error) {
        // The release reports it too, in an Event.
        log.info({ tenantId, workloadRef, error }, "cannot look up whether the tenant has an archive");
      }
      return undefined;
    },
    () => archiveLookups.forget(id),
  );
}

/** Says that a session which has lost its pod goes on from a checkpoint, and what that costs. */
export function noteCheckpoint(
  claim: Claim,
  { createdAt }: SnapshotMetadata,
  { notices, serverNow }: ClaimContext,
): void {
  const age = Math.max(0, Math.round((serverNow() - Date.parse(createdAt)) / 1000));
  const message = `the session lost its pod and goes on with its files of ${createdAt}, which are ${age} s old: what was written since is lost`;
  notices.set(claim.metadata.uid ?? "", { message, eventReason: "CheckpointRestored", isLate: false });
}

/** The message for the write that makes a claim Active. */
export function noticeOf({ metadata: { uid = "" } }: Claim, { notices }: ClaimContext): string | undefined {
  return notices.get(uid)?.message;
}

/**
 * Call this when a claim has become Active. Writes the notice that was found during that write; one that is found later
 * is written then.
 *
 * @param written the message of that write
 */
export async function reportMissed(active: Claim, written: string | undefined, context: ClaimContext): Promise<void> {
  const { uid = "" } = active.metadata;
  const notice = context.notices.get(uid);
  context.notices.delete(uid);
  if (notice === undefined) return;
  notice.isLate = true;
  if (notice.message !== undefined && notice.message !== written) await reportLate(active, notice.message, context);
}

async function reportLate({ metadata }: Claim, message: string, context: ClaimContext): Promise<void> {
  const { cluster, informers } = context;
  const { name, namespace, uid } = metadata;
  for (let tries = 1; ; tries += 1) {
    const present = informers.claims.store.get({ namespace, name });
    if (present === undefined || present.metadata.uid !== uid) return;
    const { phase, message: said } = present.status ?? {};
    if (present.metadata.deletionTimestamp !== undefined || phase !== "Active" || said !== undefined) return;
    try {
      await patchClaimStatus(present, { phase, message }, context);
      return;
    } catch (error) {
      if (!isConflict(error) || tries === MOST_TRIES) throw error;
    }
    await cluster(claims).named(name).get({ refresh: true });
  }
}
