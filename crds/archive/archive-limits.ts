/** The limits of one tenant's archive. */
export interface ArchiveLimits {
  /** Bytes of the archive before its compression, including headers. This limit stops a decompression bomb. */
  readonly maxBytes: number;
  /** Entries; also the folders that symlinks lie in. */
  readonly maxEntries: number;
  /** Bytes of one path, and of one link's target. */
  readonly maxPathBytes: number;
  /** Names in one path. @default only the length of the path limits its depth */
  readonly maxDepth?: number;
  /** Bytes of the names of links, and as many again of directories. These names are kept in memory until the end. */
  readonly maxRememberedBytes: number;
  /** Bytes of all files as they are restored, without holes. @default only `maxBytes` limits them */
  readonly maxContentBytes?: number;
}

const GiB = 1024 ** 3;

/**
 * The limits for an overlay on a disk of `diskGb` GiB: as much as fits on the disk, plus a header and padding for each
 * entry.
 *
 * There is no limit on the compression ratio, since a tenant's sparse file can reach the maximum of the format, 1030 to
 * 1.
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
