import { pipeline } from "node:stream";
import { createArchiveCheck } from "./archive-check.ts";
import { ArchiveError } from "./archive-error.ts";
import type { ArchiveLimits } from "./archive-limits.ts";
import { openPacked, unpackError } from "./packed-tar.ts";
import { writeTarHeader } from "./tar-header.ts";

/** The contents of a build context may be this many times larger than its archive. */
const MOST_TIMES = 4;

function contextLimits(limitBytes: number): ArchiveLimits {
  return {
    maxBytes: MOST_TIMES * limitBytes,
    maxEntries: 200_000,
    maxPathBytes: 4096,
    maxDepth: 128,
    maxRememberedBytes: 64 * 1024 * 1024,
  };
}

/**
 * Checks a build context packed by any program, as a stream: in the output every entry lies below `folder`, which is
 * the first entry.
 *
 * @param source a tar archive, with or without gzip, detected by its first two bytes
 * @param options.folder a single name
 * @param options.limitBytes of the source (`TENANCY_BUILD_CONTEXT_LIMIT`); its contents may be four times as large
 * @throws ArchiveError at the first violation, before it is output; and the source's error
 */
export async function* checkContext(
  source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  { folder, limitBytes }: { folder: string; limitBytes: number },
): AsyncGenerator<Buffer> {
  const below = (path: string): string => `${folder}/${path}`;
  const check = createArchiveCheck({
    roots: "context",
    limits: contextLimits(limitBytes),
    rewrite: (entry) => ({
      ...entry,
      path: below(entry.path),
      target: entry.type === "hardlink" ? below(entry.target) : entry.target,
    }),
  });
  const { input, unpacked } = await openPacked(countBytes(source, limitBytes));
  // The reader of the last stream sees every failure.
  const output = pipeline(input, unpacked, check.stream, () => undefined);
  const made = { uid: 0, gid: 0, mtime: 0, size: 0, target: "" };
  try {
    yield writeTarHeader({ type: "directory", path: folder, mode: 0o755, ...made });
    for await (const chunk of output) yield chunk as Buffer;
  } catch (error) {
    throw unpackError(error);
  } finally {
    output.destroy();
  }
}

async function* countBytes(
  source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  limitBytes: number,
): AsyncGenerator<Uint8Array> {
  let bytes = 0;
  for await (const chunk of source) {
    bytes += chunk.length;
    if (bytes > limitBytes) throw new ArchiveError("TooLarge", `it has more than ${limitBytes} bytes`);
    if (chunk.length > 0) yield chunk;
  }
}
