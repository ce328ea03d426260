/** The line that ends a part of an input. */
export const END = Buffer.from("end\n");

const frameBytes = 1024 * 1024;

/**
 * Cuts a stream into frames that a shell can read to their exact end: its length in bytes as a line, then the bytes.
 * The caller ends it with `END` when all of it was right.
 *
 * An exec can neither end its input nor tell a command that the rest will not come (see `sendInput`), so the end is
 * part of what is sent; without it the command knows that it was cut off.
 */
export async function* frames(
  source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  onFrame?: (frame: Buffer) => void,
): AsyncGenerator<Buffer> {
  let parts: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of source) {
    parts.push(chunk);
    bytes += chunk.length;
    if (bytes < frameBytes) continue;
    yield* frame(parts, bytes);
    parts = [];
    bytes = 0;
  }
  if (bytes > 0) yield* frame(parts, bytes);

  function* frame(pieces: Uint8Array[], length: number): Generator<Buffer> {
    const content = pieces.length === 1 ? Buffer.from(pieces[0] ?? []) : Buffer.concat(pieces, length);
    onFrame?.(content);
    yield Buffer.from(`${length}\n`);
    yield content;
  }
}
