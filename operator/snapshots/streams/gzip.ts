import { promisify } from "node:util";
import { constants, crc32, deflateRaw } from "node:zlib";

/** The size of a block, which the thread pool compresses; the 32 KiB before it are its dictionary. */
const BLOCK_BYTES = 256 * 1024;
const WINDOW_BYTES = 32 * 1024;
const AT_ONCE = 4;
/** The most bytes of a stored block of DEFLATE. */
const STORED_BYTES = 65_535;
/** Many small samples, so that the headers between files do not distort the result. */
const SAMPLES = 32;
const SAMPLE_BYTES = 128;
/** Bits per byte: above it, the fastest level gains nothing and takes 20 ms per MiB. */
const DENSE_BITS = 7.75;

const HEADER = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 3]);
const LAST_BLOCK = Buffer.from([1, 0, 0, 0xff, 0xff]);

const deflateBlock = promisify<Buffer, object, Buffer>(deflateRaw);

/**
 * Compresses a stream to one gzip member, several blocks at the same time. Dense blocks (images, archives, packs) are
 * stored uncompressed, since their compression takes longest and gains nothing.
 *
 * Follows https://www.rfc-editor.org/rfc/rfc1952 and https://www.rfc-editor.org/rfc/rfc1951
 */
export async function* gzip(source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): AsyncGenerator<Buffer> {
  yield HEADER;
  let sum = 0;
  let bytes = 0;
  let before: Buffer = Buffer.alloc(0);
  const under: Promise<Buffer>[] = [];
  for await (const block of blocksOf(source)) {
    sum = crc32(block, sum);
    bytes = (bytes + block.length) % 2 ** 32;
    const work = isDense(block) ? Promise.resolve(stored(block)) : compressed(block, before);
    // A failure is thrown when the block is awaited below; until then, it must not count as unhandled.
    work.catch(() => undefined);
    under.push(work);
    before = block.subarray(-WINDOW_BYTES);
    if (under.length > AT_ONCE) yield (await under.shift()) as Buffer;
  }
  for (const work of under) yield await work;
  const trailer = Buffer.alloc(8);
  trailer.writeUInt32LE(sum, 0);
  trailer.writeUInt32LE(bytes, 4);
  yield Buffer.concat([LAST_BLOCK, trailer]);
}

async function compressed(block: Buffer, before: Buffer): Promise<Buffer> {
  const finishFlush = constants.Z_SYNC_FLUSH;
  const dictionary = before.length > 0 ? { dictionary: before } : {};
  return await deflateBlock(block, { level: constants.Z_BEST_SPEED, finishFlush, ...dictionary });
}

/** The block in stored, which means uncompressed, blocks of DEFLATE. */
function stored(block: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let from = 0; from < block.length; from += STORED_BYTES) {
    const part = block.subarray(from, from + STORED_BYTES);
    const head = Buffer.alloc(5);
    head.writeUInt16LE(part.length, 1);
    head.writeUInt16LE(part.length ^ 0xffff, 3);
    parts.push(head, part);
  }
  return Buffer.concat(parts);
}

/** Whether the byte values of some samples are spread evenly. */
function isDense(block: Buffer): boolean {
  if (block.length < SAMPLES * SAMPLE_BYTES) return false;
  const counts = new Uint16Array(256);
  const step = Math.floor((block.length - SAMPLE_BYTES) / (SAMPLES - 1));
  for (let sample = 0; sample < SAMPLES; sample += 1) {
    const from = sample * step;
    for (let index = from; index < from + SAMPLE_BYTES; index += 1) {
      const byte = block[index] ?? 0;
      counts[byte] = (counts[byte] ?? 0) + 1;
    }
  }
  const all = SAMPLES * SAMPLE_BYTES;
  let bits = 0;
  for (const count of counts) if (count > 0) bits -= (count / all) * Math.log2(count / all);
  return bits > DENSE_BITS;
}

async function* blocksOf(source: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): AsyncGenerator<Buffer> {
  let block = Buffer.allocUnsafe(BLOCK_BYTES);
  let filled = 0;
  for await (const piece of source) {
    for (let from = 0; from < piece.length; ) {
      const taken = Math.min(piece.length - from, BLOCK_BYTES - filled);
      block.set(piece.subarray(from, from + taken), filled);
      filled += taken;
      from += taken;
      if (filled < BLOCK_BYTES) continue;
      yield block;
      block = Buffer.allocUnsafe(BLOCK_BYTES);
      filled = 0;
    }
  }
  if (filled > 0) yield block.subarray(0, filled);
}
