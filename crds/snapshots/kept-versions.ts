import type { KeptAs, MostKept } from "./snapshot-store.ts";

interface Version {
  readonly sha256: string;
  readonly kept: KeptAs;
}

/**
 * Which older versions stay after a commit, the latest first.
 *
 * @param older those before it, the latest first
 * @param state.added what it keeps, which stays whatever `most` says
 * @param state.next the SHA-256 of the archive that is committed. A version that is gone back to stays beside those that
 *   `most` counts: there is no archive more than before, so none has to go
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
 * The kind of an older version that becomes the newest again and is then replaced: `replaced` stays `replaced`, since
 * the replacement may have been unintended, however many sessions start from it.
 */
export function keptAs<T extends Version>(keep: KeptAs, older: readonly T[], sha256: string): KeptAs {
  return older.some((one) => one.sha256 === sha256 && one.kept === "replaced") ? "replaced" : keep;
}
