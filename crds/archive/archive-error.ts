/**
 * What is wrong with an archive:
 * - `Corrupt`: it is not what was written: cut off, changed, or no archive at all
 * - `Hostile`: it holds what may not be in it, such as what a save of overlay directories never makes
 * - `TooLarge`: it passes a limit
 * - `Foreign`: it is another tenant's or workload's
 * - `NoVersion`: there is no such version
 */
export type ArchiveErrorReason = "Corrupt" | "Hostile" | "TooLarge" | "Foreign" | "NoVersion";

/** An archive that is not restored, and one that is not kept. */
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
