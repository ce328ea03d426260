import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { type ArchiveCheckOptions, createArchiveCheck } from "../../../crds/archive/archive-check.ts";

export const limits = { maxBytes: 1e9, maxEntries: 1000, maxPathBytes: 4096, maxRememberedBytes: 1e6 };

/** Sends an archive through a check in pieces of some size; resolves with what came out. */
export async function checkArchive(
  archive: Buffer,
  options: Partial<ArchiveCheckOptions> & { pieceBytes?: number } = {},
): Promise<Buffer> {
  const { pieceBytes = 1000, ...rest } = options;
  const check = createArchiveCheck({ roots: ["data", "home/a b"], limits, ...rest });
  const pieces = Array.from({ length: Math.ceil(archive.length / pieceBytes) }, (_, index) =>
    archive.subarray(index * pieceBytes, (index + 1) * pieceBytes),
  );
  const out: Buffer[] = [];
  await pipeline(Readable.from(pieces), check.stream, async (chunks: AsyncIterable<Buffer>) => {
    for await (const chunk of chunks) out.push(chunk);
  });
  return Buffer.concat(out);
}

/** What a refused archive is refused for. */
export async function refusal(archive: Buffer, options: Parameters<typeof checkArchive>[1] = {}): Promise<string> {
  return await checkArchive(archive, options).then(
    () => "not refused",
    (error: Error & { reason?: string }) => `${error.reason}: ${error.message}`,
  );
}
