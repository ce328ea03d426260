import * as v from "valibot";
import { textOf } from "../../api/inside/byte-text.ts";
import { entrySchema } from "../../api/inside/file-entry.ts";

const mode = entrySchema.entries.mode;

/** An entry with the details that the program in the pod adds where they are asked for. */
export const detailedEntry = v.object({
  ...entrySchema.entries,
  owner: v.string(),
  group: v.string(),
  leadsTo: v.optional(v.object({ path: v.string(), type: entrySchema.entries.type, mode })),
});
type DetailedEntry = v.InferOutput<typeof detailedEntry>;

const types = {
  file: "FILE_TYPE_FILE",
  directory: "FILE_TYPE_DIRECTORY",
  symlink: "FILE_TYPE_SYMLINK",
  other: "FILE_TYPE_UNSPECIFIED",
} as const;

/**
 * An `EntryInfo` as the envd of E2B has it: type and mode of a link are those of what it leads to.
 *
 * https://github.com/e2b-dev/infra/blob/main/packages/envd/spec/filesystem/filesystem.proto
 *
 * @param path the entry's, bytes as characters
 */
export function entryInfo(entry: DetailedEntry, path = entry.path): object {
  const { type, leadsTo, owner, group } = entry;
  const isLink = type === "symlink";
  const bits = Number.parseInt(isLink ? (leadsTo?.mode ?? "0") : entry.mode, 8);
  return {
    name: nameOf(path),
    type: types[isLink ? (leadsTo?.type ?? "other") : type],
    path: textOf(path),
    size: String(entry.size),
    mode: bits & 0o777,
    permissions: permissionsOf(entry),
    ...{ owner, group },
    modifiedTime: entry.modifiedAt,
    ...(isLink && { symlinkTarget: textOf(leadsTo?.path ?? path) }),
  };
}

/** The last part of a path, whose characters are bytes. */
export function nameOf(path: string): string {
  return path === "/" ? path : textOf(path.slice(path.lastIndexOf("/") + 1));
}

const marks = { file: "-", directory: "d", symlink: "L", other: "-" } as const;

/** As Go's `fs.FileMode` writes them: https://pkg.go.dev/io/fs#FileMode.String */
function permissionsOf({ type, mode }: DetailedEntry): string {
  const bits = Number.parseInt(mode, 8);
  const letters = [..."rwxrwxrwx"].map((letter, index) => (bits & (0o400 >> index) ? letter : "-")).join("");
  const special = `${bits & 0o4000 ? "u" : ""}${bits & 0o2000 ? "g" : ""}${bits & 0o1000 ? "t" : ""}`;
  const first = type === "file" || type === "other" ? special || marks[type] : `${marks[type]}${special}`;
  return `${first}${letters}`;
}
