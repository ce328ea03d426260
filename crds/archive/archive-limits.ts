/** What one tenant's archive may be. */
export interface ArchiveLimits {
  /** Bytes of the archive before its compression, headers included: this is what stops a decompression bomb. */
  readonly maxBytes: number;
  /** Also of the folders that its symlinks lie in. */
  readonly maxEntries: number;
  /** Bytes of one path, and of one link's target. */
  readonly maxPathBytes: number;
  /** Names in one path. @default no limit of its own: a tenant's folders are as deep as their path is long */
  readonly maxDepth?: number;
  /** Bytes of the names of links, and as many of directories, which are kept in memory until the end. */
  readonly maxRememberedBytes: number;
  /** Bytes of all files, as they are restored: without holes. @default `maxBytes` alone bounds them */
  readonly maxContentBytes?: number;
}

const GiB = 1024 ** 3;

/**
 * The limits for an overlay on a disk of `diskGb` GiB: what fits on the disk, with a header and the padding of a file
 * for each entry.
 *
 * There is no limit on the compression ratio: a sparse file of a tenant reaches the highest that the format has, 1030
 * to 1.
 */
export function archiveLimits({ diskGb }: { diskGb: number }): ArchiveLimits {
  const maxEntries = 1_000_000;
  return {
    maxBytes: diskGb * GiB + Math.min(maxEntries * 1024, (diskGb * GiB) / 4),
    maxEntries,
    maxContentBytes: diskGb * GiB,
    maxPathBytes: 4096,
    maxRememberedBytes: 64 * 1024 * 1024,
  };
}
