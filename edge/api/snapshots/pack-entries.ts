import { contentRange, createFileReader, packedRange } from "../../../crds/archive/archive-files.ts";
import { createArchivePacker } from "../../../crds/archive/archive-packer.ts";
import type { TableEntry } from "../../../crds/archive/archive-table.ts";
import type { GzipMember } from "../../../crds/archive/gzip-members.ts";
import { type TarEntry, tarPadding, writeTarHeader } from "../../../crds/archive/tar-header.ts";
import type { ByteRange, OpenArchive } from "../../../crds/snapshots/snapshot-store.ts";
import type { SavedEntry } from "./saved-files.ts";

/** Fewer bytes of the tar between two wanted entries are read with them: a request takes longer. */
const READ_THROUGH_BYTES = 1024 * 1024;
const END = Buffer.alloc(1024);

/** An entry of the folder, and the one of the archive that has its content. */
interface Wanted {
  readonly entry: TarEntry;
  readonly source: SavedEntry;
}

/** What is read at once: contents that are near each other in the archive. */
interface Run {
  /** Offsets in the tar; both are the same if there is nothing to read. */
  readonly from: number;
  readonly to: number;
  readonly wanted: readonly Wanted[];
}

/**
 * A tar.gz of some entries of an archive, of which only the parts that have them are read.
 *
 * @param options.open reads a part of the archive
 * @param options.onEnd called when the content was read, has failed or was closed
 * @returns the content; reading it throws an ArchiveError if a file is not what was saved, and what `open` throws
 */
export function packEntries(
  { entries, members }: { entries: readonly SavedEntry[]; members: readonly GzipMember[] },
  { open, onEnd }: { open: (range: ByteRange) => Promise<OpenArchive>; onEnd: () => void },
): Pick<OpenArchive, "content" | "close"> {
  const packer = createArchivePacker();
  let at = 0;
  let opened: OpenArchive | undefined;

  async function* tar(): AsyncGenerator<Uint8Array> {
    try {
      for (const run of runsOf(entries)) yield* run.to > run.from ? withContents(run) : headers(run.wanted);
      yield END;
    } finally {
      onEnd();
    }
  }

  async function* withContents({ from, to, wanted }: Run): AsyncGenerator<Uint8Array> {
    const { tarFrom, ...range } = packedRange(members, { from, to });
    opened = await open(range);
    const reader = createFileReader(opened.content, tarFrom);
    try {
      for (const one of wanted) {
        yield header(one);
        if (one.entry.size > 0) yield* reader.read(one.source);
        yield tarPadding(one.entry.size);
      }
    } finally {
      reader.close();
      opened.close();
    }
  }

  function* headers(wanted: readonly Wanted[]): Generator<Uint8Array> {
    for (const one of wanted) yield header(one);
  }

  function header({ entry }: Wanted): Buffer {
    const written = writeTarHeader(entry);
    packer.begin(entry, { at, contentAt: at + written.length });
    at += written.length + entry.size + tarPadding(entry.size).length;
    return written;
  }

  function close(): void {
    opened?.close();
    onEnd();
  }

  return { content: packer.pack(tar()), close };
}

/** Each is read with one request. */
function* runsOf(entries: readonly SavedEntry[]): Generator<Run> {
  let run: { from: number; to: number; wanted: Wanted[] } = { from: 0, to: 0, wanted: [] };
  for (const one of wantedOf(entries)) {
    if (one.entry.size > 0) {
      const { from, to } = contentRange(one.source);
      if (from < run.to || from - run.to > READ_THROUGH_BYTES) {
        yield run;
        run = { from, to, wanted: [] };
      }
      run.to = to;
    }
    run.wanted.push(one);
  }
  yield run;
}

/** In the order of the contents, and then the further names of files. */
function wantedOf(entries: readonly SavedEntry[]): Wanted[] {
  const first: Wanted[] = [];
  const links: Wanted[] = [];
  const paths = new Map<TableEntry, string>();
  for (const entry of entries) {
    const source = entry.file ?? entry;
    const target = paths.get(source);
    // The first name of a file that is elsewhere gets its content.
    if (target === undefined) first.push({ entry: { ...source, path: entry.path }, source });
    else links.push({ entry: { ...entry, type: "hardlink", target, size: 0 }, source });
    paths.set(source, target ?? entry.path);
  }
  return [...first.sort((a, b) => a.source.at - b.source.at), ...links];
}
