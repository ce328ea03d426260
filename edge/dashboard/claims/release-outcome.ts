import type { ApiTypes } from "../../api/openapi/schemas.ts";

/** What a release does with a tenant's files. */
export interface ReleaseOutcome {
  readonly saves: boolean;
  readonly words: string;
  /** What becomes of the version that is the newest one now. */
  readonly present: string;
}

/**
 * Says what a release does with the files of a claim: by its pod alone, which is saved as was said when it was made.
 *
 * @param of.savedDirs of the claim's pod; undefined where there is no pod
 */
export function releaseOutcome(of: {
  claim: Pick<ApiTypes["ClaimDetail"], "tenantId" | "source" | "resumedFrom">;
  savedDirs: readonly string[] | undefined;
  present: Pick<ApiTypes["Snapshot"], "sha256"> | undefined;
}): ReleaseOutcome {
  const { claim, savedDirs, present } = of;
  const stays = "It stays as it is.";
  if (savedDirs === undefined) return { saves: false, words: "there is no pod.", present: stays };
  if (savedDirs.length === 0) {
    return { saves: false, words: `this pod keeps no files. The pod of ${claim.tenantId} goes.`, present: stays };
  }
  // A claim that an older operator made Active does not say of which version.
  const isContinued =
    claim.resumedFrom === undefined
      ? claim.source?.endsWith("+data") === true
      : present?.sha256 !== undefined && claim.resumedFrom === present.sha256;
  return {
    saves: true,
    words: `${savedDirs.join(", ")} of ${claim.tenantId} ${savedDirs.length > 1 ? "are" : "is"} saved as a new version, then the pod goes.`,
    present: isContinued
      ? "The session went on from it, so the new one takes its place."
      : "It stays as an older version; of those the newest three stay.",
  };
}
