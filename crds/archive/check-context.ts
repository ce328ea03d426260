import { pipeline } from "node:stream";
import { createArchiveCheck } from "./archive-check.ts";
import { ArchiveError } from "./archive-error.ts";
import type { ArchiveLimits } from "./archive-limits.ts";
import { openPacked, unpackError } from "./packed-tar.ts";
import { writeTarHeader } from "./tar-header.ts";

/** How many times larger than its archive may be what a build context holds. */
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
 * Checks a build context that somebody packed, on its way through: what comes out is a tar archive whose every entry
 * lies below `folder`, which is its first one.
 *
 * @param source a tar archive, compressed by gzip or not, which its first two bytes tell
 * @param options.folder one name
 * @param options.limitBytes of the source (`TENANCY_BUILD_CONTEXT_LIMIT`); what is in it may be four times as large
 * @throws ArchiveError at the first thing that may not be, before that has come out; and what the source fails with
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
  // What fails is seen by who reads the last of them.
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
