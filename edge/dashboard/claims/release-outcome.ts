import type { ApiTypes } from "../../api/openapi/schemas.ts";

export interface ReleaseOutcome {
  readonly saves: boolean;
  readonly words: string;
  /** What happens to the version that is newest now. */
  readonly present: string;
}

/**
 * Describes what a release does with the files of a claim. Only the pod matters: what it saves was fixed when it was
 * made.
 *
 * @param of.savedDirs of the claim's pod; undefined if there is no pod
 */
export function releaseOutcome(of: {
  claim: Pick<ApiTypes["ClaimDetail"], "tenantId" | "source" | "resumedFrom" | "restoredFrom">;
  savedDirs: readonly string[] | undefined;
  present: Pick<ApiTypes["Snapshot"], "sha256"> | undefined;
}): ReleaseOutcome {
  const { claim, savedDirs, present } = of;
  const stays = "It stays unchanged.";
  if (savedDirs === undefined) return { saves: false, words: "there is no pod.", present: stays };
  if (savedDirs.length === 0) {
    return { saves: false, words: `this pod saves no files. The pod of ${claim.tenantId} is deleted.`, present: stays };
  }
  // Claims that an older operator made Active do not record the version.
  const isContinued =
    claim.resumedFrom === undefined
      ? claim.restoredFrom === undefined && claim.source?.endsWith("+data") === true
      : present?.sha256 !== undefined && claim.resumedFrom === present.sha256;
  return {
    saves: true,
    words:
      `${savedDirs.join(", ")} of ${claim.tenantId} ${savedDirs.length > 1 ? "are" : "is"} saved as a new ` +
      "version, then the pod is deleted.",
    present: isContinued
      ? "The session started from it, so the new version replaces it."
      : "It stays as an older version; the three newest older versions are kept.",
  };
}
