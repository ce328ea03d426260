import type { KeptAs, MostKept } from "./snapshot-store.ts";

interface Version {
  readonly sha256: string;
  readonly kept: KeptAs;
}

/**
 * The older versions that stay after a commit, the latest first.
 *
 * @param older the older versions before the commit, the latest first
 * @param state.added the version that the commit adds; it stays whatever `most` is
 * @param state.next the SHA-256 of the committed archive. A version with this SHA-256 (after a rollback) stays and does
 *   not count for `most`: it takes no additional space, so no other version has to go
 */
export function keptVersions<T extends Version>(
  older: readonly T[],
  { added, next, most }: { added?: T | undefined; next: string | undefined; most: Pick<MostKept, KeptAs> },
): T[] {
  const left = { history: most.history, replaced: most.replaced };
  if (added !== undefined && added.sha256 !== next) left[added.kept] -= 1;
  const staying = older.filter(({ sha256, kept }) => {
    if (sha256 === added?.sha256) return false;
    if (sha256 === next) return true;
    left[kept] -= 1;
    return left[kept] >= 0;
  });
  return added === undefined ? staying : [added, ...staying];
}

/**
 * Why the newest archive is kept when it is replaced. If it also exists as an older version that is kept as `replaced`,
 * it stays `replaced`, since that replacement may have been unintended, however many sessions started from it.
 */
export function keptAs<T extends Version>(keep: KeptAs, older: readonly T[], sha256: string): KeptAs {
  return older.some((one) => one.sha256 === sha256 && one.kept === "replaced") ? "replaced" : keep;
}
