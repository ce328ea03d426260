import { Transform } from "node:stream";
import { ArchiveError } from "./archive-error.ts";
import type { ArchiveLimits } from "./archive-limits.ts";
import type { EntryPlace } from "./archive-packer.ts";
import { createContextReader } from "./context-reader.ts";
import { createEntryReader, type GivenNames } from "./entry-reader.ts";
import type { PathKind } from "./path-kinds.ts";
import { MAX_PAX_BYTES, readPaxHeader } from "./pax-header.ts";
import {
  BLOCK,
  readTarHeader,
  type TarEntry,
  type TarHeader,
  tarPadding,
  tarTypes,
  writeTarHeader,
} from "./tar-header.ts";

export interface ArchiveCheckOptions {
  /**
   * Where every entry must be, as returned by `overlayRoots`; `context` for a build context, and `folder` for the
   * content of any folder, which have no roots.
   */
  readonly roots: readonly string[] | "context" | "folder";
  readonly limits: ArchiveLimits;
  /** Whether names may be in separate POSIX pax entries, which busybox never writes. @default false */
  readonly takesPax?: boolean | undefined;
  /** @default false */
  readonly leaveOutPipes?: boolean | undefined;
  /**
   * Receives a hard link whose target does not come before it; the link is left out. @default such an archive is
   * refused
   */
  readonly onDangling?: ((link: { path: string; target: string }) => void) | undefined;
  /** Receives data after the zeros at the archive's end. @default an archive that continues after its end is refused */
  readonly onTrailer?: ((chunk: Buffer) => void) | undefined;
  /** Changes an entry; undefined leaves it out, with its content. @default unchanged */
  readonly rewrite?: ((entry: TarEntry) => TarEntry | undefined) | undefined;
  /** Receives each entry of the resulting archive before its first byte. */
  readonly onEntry?: ((entry: TarEntry, place: EntryPlace) => void) | undefined;
}

/** What has passed through so far, without left-out entries. */
export interface ArchiveContents {
  entries: number;
  /** Bytes of the resulting archive. */
  bytes: number;
  /** Bytes of the input, with the zeros after its end and without a trailer. */
  bytesIn: number;
}

export interface ArchiveCheck {
  /** Takes a tar archive and returns one with the same entries, each header written again. */
  readonly stream: Transform;
  readonly contents: ArchiveContents;
  /**
   * Counts an entry that comes before those of the stream, with a content that was checked before. It is not given to
   * `rewrite`. Call this before the stream gets its first byte.
   *
   * @throws ArchiveError as the stream does
   */
  keep(entry: TarEntry): void;
  /** The kind of a path of overlay directories, according to the entries so far. */
  readonly kindOf: (path: string) => PathKind | undefined;
}

/**
 * Checks a tar archive as a stream, in memory that does not depend on its size: up to 32 bytes per entry.
 *
 * The output is written from the parsed entries, so that no program that unpacks it can interpret it differently from
 * this check. The stream fails with an `ArchiveError` at the first violation, before it is output, and at the end if
 * the end is missing.
 */
export function createArchiveCheck(options: ArchiveCheckOptions): ArchiveCheck {
  const { roots, limits, leaveOutPipes = false, takesPax = false, rewrite = (entry: TarEntry) => entry } = options;
  const isContext = roots === "context";
  const reader = isContext
    ? createContextReader({ limits })
    : createEntryReader({
        ...{ roots: roots === "folder" ? undefined : roots, limits, leaveOutPipes },
        onDangling: options.onDangling,
      });
  const contents: ArchiveContents = { entries: 0, bytes: 0, bytesIn: 0 };
  const block = Buffer.alloc(BLOCK);
  let keptBytes = 0;
  let filled = 0;
  let state: "header" | "content" | "names" | "lastZeros" | "ended" | "trailer" = "header";
  /** Bytes of the content and then of its padding that are still to come. */
  let left = 0;
  let padding = 0;
  let isLeftOut = false;
  /** Names of the next entry from separate entries. */
  let given: GivenNames = {};
  let givenContent: Buffer = Buffer.alloc(0);
  let givenType = "";

  function startEntry(header: TarHeader): void {
    const isPax = (isContext || takesPax) && (header.type === "x" || header.type === "g");
    if (isPax || header.type === "L" || header.type === "K") {
      if (header.size > (isPax ? MAX_PAX_BYTES : limits.maxPathBytes + 1)) {
        throw new ArchiveError("TooLarge", "it holds a path that is too long");
      }
      startContent(header.size);
      givenType = header.type;
      givenContent = Buffer.alloc(header.size);
      state = "names";
      return;
    }
    const { size = header.size } = given;
    startContent(size);
    const read = reader.read({ ...header, size }, given);
    given = {};
    const entry = read && rewrite(read);
    isLeftOut = entry === undefined;
    state = "content";
    if (entry === undefined) return;
    contents.entries += 1;
    const written = writeTarHeader(entry);
    const at = contents.bytes - keptBytes;
    options.onEntry?.(entry, { at, contentAt: at + written.length });
    put(written);
  }

  function keep(entry: TarEntry): void {
    const { path, target, type } = entry;
    const kept = reader.read({ ...entry, name: path, linkName: target, type: tarTypes[type] }, { path, target });
    if (kept === undefined) throw new ArchiveError("Corrupt", "it has an odd entry");
    const bytes = writeTarHeader(entry).length + entry.size + tarPadding(entry.size).length;
    contents.entries += 1;
    contents.bytes += bytes;
    keptBytes += bytes;
    checkBytes();
  }

  function checkBytes(): void {
    if (contents.bytesIn + keptBytes <= limits.maxBytes) return;
    throw new ArchiveError("TooLarge", `it holds more than ${limits.maxBytes} bytes`);
  }

  function startContent(size: number): void {
    left = size;
    padding = tarPadding(size).length;
  }

  function put(chunk: Buffer): void {
    contents.bytes += chunk.length;
    stream.push(chunk);
  }

  function takeBlock(): void {
    const header = readTarHeader(block);
    if (state === "lastZeros") {
      if (header !== undefined) throw new ArchiveError("Corrupt", "it goes on after its end");
      put(Buffer.alloc(2 * BLOCK));
      state = "ended";
    } else if (header === undefined) {
      if (Object.keys(given).length > 0) {
        throw new ArchiveError("Corrupt", "it ends with a name without an entry");
      }
      state = "lastZeros";
    } else {
      startEntry(header);
    }
  }

  function takeContent(chunk: Buffer): void {
    // Storing chunks of one byte each would take a hundred times as much.
    if (state === "names") chunk.copy(givenContent, givenContent.length - left);
    else if (!isLeftOut) put(chunk);
  }

  function endEntry(): void {
    if (state === "names") {
      const more = readNames(givenContent, givenType);
      if (Object.keys(more).some((name) => Object.hasOwn(given, name))) {
        throw new ArchiveError("Hostile", "it gives one entry two names");
      }
      given = { ...given, ...more };
    } else if (!isLeftOut && padding > 0) {
      put(Buffer.alloc(padding));
    }
    state = "header";
  }

  function takeTrailer(chunk: Buffer): void {
    const start = state === "trailer" ? 0 : chunk.findIndex((byte) => byte !== 0);
    if (start === -1) return;
    if (options.onTrailer === undefined) throw new ArchiveError("Corrupt", "it goes on after its end");
    if (state === "ended") contents.bytesIn -= chunk.length - start;
    state = "trailer";
    options.onTrailer(chunk.subarray(start));
  }

  function take(chunk: Buffer): void {
    if (state !== "trailer") contents.bytesIn += chunk.length;
    checkBytes();
    let offset = 0;
    while (offset < chunk.length || isAtEntryEnd()) {
      if (isAtEntryEnd()) {
        endEntry();
        filled = 0;
      } else if (state === "ended" || state === "trailer") {
        takeTrailer(chunk.subarray(offset));
        return;
      } else if (left > 0) {
        const piece = chunk.subarray(offset, offset + left);
        takeContent(piece);
        left -= piece.length;
        offset += piece.length;
      } else if (state === "content" || state === "names") {
        const skipped = Math.min(padding - filled, chunk.length - offset);
        filled += skipped;
        offset += skipped;
      } else {
        const copied = chunk.copy(block, filled, offset, offset + BLOCK - filled);
        filled += copied;
        offset += copied;
        if (filled === BLOCK) {
          filled = 0;
          takeBlock();
        }
      }
    }
  }

  function isAtEntryEnd(): boolean {
    return (state === "content" || state === "names") && left === 0 && filled === padding;
  }

  const stream = new Transform({
    transform(chunk: Buffer, _encoding, callback) {
      try {
        take(chunk);
        callback();
      } catch (error) {
        callback(error as Error);
      }
    },
    flush(callback) {
      callback(
        state === "ended" || state === "trailer" ? null : new ArchiveError("Corrupt", "it is cut off before its end"),
      );
    },
  });
  return { stream, contents, keep, kindOf: reader.kindOf };
}

/** Reads the content of an entry that names the next one: GNU's types `L` and `K`, and pax's `x` and `g`. */
function readNames(content: Buffer, type: string): GivenNames {
  if (type === "x" || type === "g") return readPaxHeader(content, { isGlobal: type === "g" });
  const text = content.toString("latin1");
  const end = text.indexOf("\0");
  const name = end === -1 ? text : text.slice(0, end);
  return type === "L" ? { path: name } : { target: name };
}
