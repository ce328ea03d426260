import { ArchiveError } from "./archive-error.ts";

/** The fields of a pax header that are used. They describe the entry after it. */
export interface PaxHeader {
  readonly path?: string | undefined;
  readonly target?: string | undefined;
  readonly size?: number | undefined;
}

/** Large enough for the attributes of macOS, which are in pax headers too. */
export const MAX_PAX_BYTES = 1024 * 1024;

const names: Readonly<Record<string, keyof PaxHeader>> = { path: "path", linkpath: "target", size: "size" };

/**
 * Reads the records of a pax header; strings are latin1. Records that are not about a name or a size are ignored.
 *
 * Follows https://pubs.opengroup.org/onlinepubs/9799919799/utilities/pax.html#tag_20_94_13_03
 *
 * @param options.isGlobal whether the header is for all entries that follow: then it may not have a name or a size
 * @throws ArchiveError if it cannot be read, has a field twice, or is for a sparse file
 */
export function readPaxHeader(content: Buffer, { isGlobal }: { isGlobal: boolean }): PaxHeader {
  const text = content.toString("latin1");
  const found: { path?: string; target?: string; size?: number } = {};
  for (let at = 0; at < text.length; ) {
    const [digits = ""] = /^[1-9]\d{0,8}(?= )/.exec(text.slice(at, at + 10)) ?? [];
    const record = text.slice(at + digits.length + 1, at + Number(digits));
    const equals = record.indexOf("=");
    if (digits === "" || at + Number(digits) > text.length || !record.endsWith("\n") || equals < 1) {
      throw new ArchiveError("Corrupt", "a header of pax cannot be read");
    }
    take(record.slice(0, equals), record.slice(equals + 1, -1));
    at += Number(digits);
  }
  return found;

  function take(key: string, value: string): void {
    if (/^GNU\.sparse\.|^SCHILY\.realsize$/.test(key)) {
      throw new ArchiveError("Hostile", "it holds a sparse file: pack it without the option --sparse");
    }
    const name = Object.hasOwn(names, key) ? names[key] : undefined;
    if (name === undefined || value === "") return;
    if (isGlobal) throw new ArchiveError("Hostile", `it gives all entries one ${key}`);
    if (found[name] !== undefined) throw new ArchiveError("Hostile", "it gives one entry two names");
    if (name !== "size") {
      if (value.includes("\0")) throw new ArchiveError("Hostile", "it gives an entry a name with a NUL");
      found[name] = value;
      return;
    }
    const size = /^\d{1,16}$/.test(value) ? Number(value) : Number.NaN;
    if (!Number.isSafeInteger(size)) throw new ArchiveError("Corrupt", "a header of pax has a size that is no number");
    found.size = size;
  }
}
