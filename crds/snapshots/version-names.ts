import { pattern } from "../schema/patterns.ts";
import type { SnapshotMetadata } from "./snapshot-metadata.ts";

/** The most names that the archives of a key have together. */
export const MOST_NAMES = 20;

/**
 * The result of naming an archive. `named`: it has the name, perhaps since before. `taken`: another archive of the key
 * has the name. `full`: the key has {@link MOST_NAMES} names. `gone`: there is no such archive.
 */
export type NameOutcome = "named" | "taken" | "full" | "gone";

type Named = Pick<SnapshotMetadata, "sha256" | "names">;

const NAME = new RegExp(pattern.labelName);
const VERSION = new RegExp(pattern.archiveVersion);

/** Rule of the name of a version. */
export const versionNameRule = {
  accepts: (name: string): boolean => NAME.test(name) && !VERSION.test(name),
  says: "a name has at most 63 letters, digits, dashes, dots or underscores, begins and ends with a letter or digit, and is not 16 or 64 hexadecimal digits like a version",
} as const;

/** Whether a person has named the archive: it then stays until it is deleted with all archives of its key. */
export function isNamed({ names = [] }: Pick<Named, "names">): boolean {
  return names.length > 0;
}

/** The archive with all names that archives with its SHA-256 have: the same content can be two versions. */
export function withNames<T extends Named>(archive: T, archives: readonly Named[]): T {
  const same = archives.filter(({ sha256 }) => sha256 === archive.sha256);
  const names = [...new Set([archive, ...same].flatMap(({ names = [] }) => names))];
  return names.length === 0 ? archive : { ...archive, names };
}

/** The archive that has the name. */
export function archiveNamed<T extends Pick<Named, "names">>(archives: readonly T[], name: string): T | undefined {
  return archives.find(({ names }) => names?.includes(name));
}

/**
 * What naming an archive results in.
 *
 * @param archives all archives of the key, the newest first
 */
export function nameOutcome(
  archives: readonly Named[],
  { sha256, name }: { readonly sha256: string; readonly name: string },
): NameOutcome {
  if (!archives.some((one) => one.sha256 === sha256)) return "gone";
  const owner = archiveNamed(archives, name);
  if (owner !== undefined) return owner.sha256 === sha256 ? "named" : "taken";
  return new Set(archives.flatMap(({ names = [] }) => names)).size < MOST_NAMES ? "named" : "full";
}

export function withName<T extends Named>(archive: T, name: string): T {
  return withNames(archive, [{ sha256: archive.sha256, names: [name] }]);
}

export function withoutName<T extends Named>({ names = [], ...archive }: T, name: string): Omit<T, "names"> & Named {
  const left = names.filter((one) => one !== name);
  return left.length === 0 ? archive : { ...archive, names: left };
}
