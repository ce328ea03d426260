import { PassThrough, Readable, type Transform } from "node:stream";
import { createGunzip } from "node:zlib";
import { ArchiveError } from "./archive-error.ts";

/** Opens a tar archive packed by any program, with or without gzip, detected by its first two bytes. */
export async function openPacked(
  source: AsyncGenerator<Uint8Array>,
): Promise<{ readonly input: Readable; readonly unpacked: Transform }> {
  const { first, rest } = await takeTwo(source);
  const input = Readable.from(joined(first, rest), { objectMode: false });
  return { input, unpacked: first[0] === 0x1f && first[1] === 0x8b ? createGunzip() : new PassThrough() };
}

/** The error of unpacking. The message of zlib would not help the person who packed the archive. */
export function unpackError(error: unknown): unknown {
  if (!isOfZlib(error)) return error;
  return new ArchiveError("Corrupt", "its compression is damaged or cut off", { cause: error });
}

/** Whether a decompression failed, and not what it reads from. */
export function isOfZlib(error: unknown): error is Error {
  return error instanceof Error && /^Z_/.test(String((error as NodeJS.ErrnoException).code));
}

/** Reads chunks until there are two bytes, or until the end. */
async function takeTwo(
  source: AsyncGenerator<Uint8Array>,
): Promise<{ first: Uint8Array; rest: AsyncGenerator<Uint8Array> }> {
  let first: Uint8Array = new Uint8Array();
  while (first.length < 2) {
    const { done, value } = await source.next();
    if (done === true) break;
    first = first.length === 0 ? value : Buffer.concat([first, value]);
  }
  return { first, rest: source };
}

async function* joined(first: Uint8Array, rest: AsyncGenerator<Uint8Array>): AsyncGenerator<Uint8Array> {
  try {
    if (first.length > 0) yield first;
    yield* rest;
  } finally {
    await rest.return(undefined);
  }
}
