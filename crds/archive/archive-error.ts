/**
 * The problem of an archive:
 * - `Corrupt`: not what was written: truncated, changed, or not an archive
 * - `Hostile`: contains entries that are not allowed, such as those that a save of overlay directories never makes
 * - `TooLarge`: exceeds a limit
 * - `Foreign`: belongs to another tenant or workload
 * - `NoVersion`: the version does not exist
 */
export type ArchiveErrorReason = "Corrupt" | "Hostile" | "TooLarge" | "Foreign" | "NoVersion";

/** An archive that cannot be restored or stored. */
export class ArchiveError extends Error {
  override readonly name = "ArchiveError";
  readonly reason: ArchiveErrorReason;

  constructor(reason: ArchiveErrorReason, message: string, options: { cause?: unknown } = {}) {
    super(message, options);
    this.reason = reason;
  }
}

/** A path in a message, cut where it is long. */
export function quote(path: string): string {
  const shown = Buffer.from(path.slice(0, 200), "latin1").toString("utf8");
  return JSON.stringify(shown).slice(1, -1);
}
