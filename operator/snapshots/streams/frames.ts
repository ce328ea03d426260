/** The line that ends a part of an input. */
export const END = Buffer.from("end\n");

const frameBytes = 1024 * 1024;

/**
 * Cuts a stream into frames that a shell can read to their exact end: a line with the length in bytes, then the bytes.
 * The caller sends `END` after them if all of it was good.
 *
 * An exec cannot end its input, and cannot report to a command that the rest will not come (see `sendInput`). So the
 * end is part of the input: without it, the command can see that its input was cut off.
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
