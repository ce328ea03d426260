export type TarEntryType = "file" | "directory" | "symlink" | "hardlink";

/** An entry of an archive. Paths are bytes, one a character (latin1), since a file's name need not be UTF-8. */
export interface TarEntry {
  readonly type: TarEntryType;
  /** Relative to `/`, without a slash at the end. */
  readonly path: string;
  /** Permissions with the setuid, setgid and sticky bits. */
  readonly mode: number;
  readonly uid: number;
  readonly gid: number;
  /** Seconds since the epoch. */
  readonly mtime: number;
  /** Bytes of a file's content; 0 for all else. */
  readonly size: number;
  /** What a link points at; `""` for all else. */
  readonly target: string;
}
