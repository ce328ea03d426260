import type { Claim } from "../../crds/claim.ts";
import { withDefaults } from "../../crds/defaults.ts";
import { archiveDigits } from "../../crds/snapshots/store-scripts.ts";
import type { Workload } from "../../crds/workload.ts";
import type { OperatorContext } from "../context.ts";
import { patchClaimStatus } from "./claim-status.ts";
import { asksForFiles } from "./find-archive.ts";

/** What is said on a claim whose tenant has files that the session is not given. */
export interface ArchiveNotice {
  message: string | undefined;
  /** Whether the claim is Active by now, so that it takes a write of its own. */
  isLate: boolean;
}

/**
 * Looks, while a pod is being bound, whether a tenant who does not ask for files has some. Nothing waits for it: what is found before the
 * claim is Active is told with that, and what is found later by a write after it.
 */
export function lookForNotice(claim: Claim, workload: Workload, context: OperatorContext): void {
  const { archiveLooks, informers, log, notices, snapshots } = context;
  const { uid = "" } = claim.metadata;
  const { tenantId, workloadRef } = claim.spec;
  const keepsFiles = withDefaults(workload.spec).filesystem.overlayDirs.length > 0;
  if (asksForFiles(claim) || !keepsFiles || informers.helperPods.store.size === 0 || notices.has(uid)) return;
  const notice: ArchiveNotice = { message: undefined, isLate: false };
  notices.set(uid, notice);
  const id = `notice ${uid}`;
  archiveLooks.run(
    id,
    async (signal) => {
      try {
        const found = await snapshots.find({ tenantId, workloadRef }, { brings: false, signal });
        if (found === undefined) return undefined;
        notice.message = `the tenant has files of ${found.createdAt}: this session starts without them, and its release keeps them as version ${archiveDigits(found.sha256)}`;
        if (notice.isLate) await tellLate(claim, notice.message, context);
      } catch (error) {
        // The release says it again, in an Event.
        log.info({ tenantId, workloadRef, error }, "whether a tenant has files that it did not ask for is not known");
      }
      return undefined;
    },
    () => archiveLooks.forget(id),
  );
}

/** What to say on a claim that becomes Active now. */
export function takeNotice({ metadata: { uid = "" } }: Claim, { notices }: OperatorContext): string | undefined {
  const notice = notices.get(uid);
  notices.delete(uid);
  if (notice !== undefined) notice.isLate = true;
  return notice?.message;
}

async function tellLate({ metadata }: Claim, message: string, context: OperatorContext): Promise<void> {
  const present = context.informers.claims.store.get(`${metadata.namespace}/${metadata.name}`);
  if (present === undefined || present.metadata.uid !== metadata.uid) return;
  const { phase, message: said } = present.status ?? {};
  if (present.metadata.deletionTimestamp !== undefined || phase !== "Active" || said !== undefined) return;
  await patchClaimStatus(present, { phase, message }, context);
}
