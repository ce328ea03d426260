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
const NONE = Buffer.alloc(0);

const deflate = promisify<Buffer, object, Buffer>(deflateRaw);

/** A gzip member: its bytes, and the bytes in it. */
export interface GzipMember {
  readonly bytes: number;
  readonly contentBytes: number;
}

/** Compresses a stream to gzip members, which any program reads as one file. */
export interface GzipMembers {
  take(content: Uint8Array): void;
  /** Ends the member of what was taken since the last one ended. */
  end(): void;
  /** The compressed parts so far, in order. Waits while more than a few blocks are being compressed. */
  parts(): AsyncGenerator<Buffer>;
  /** All parts that are left. */
  rest(): AsyncGenerator<Buffer>;
}

/**
 * Several blocks are compressed at the same time. Dense ones (images, archives, packs) are stored uncompressed, since
 * their compression takes longest and gains nothing.
 *
 * Follows https://www.rfc-editor.org/rfc/rfc1952 and https://www.rfc-editor.org/rfc/rfc1951
 *
 * @param onMember receives each member when its last part is given out
 */
export function createGzipMembers(onMember: (member: GzipMember) => void): GzipMembers {
  const waiting: { readonly part: Promise<Buffer>; readonly memberBytes: number | undefined }[] = [];
  let block = Buffer.allocUnsafe(BLOCK_BYTES);
  let start = 0;
  let filled = 0;
  /** Of the member that is being written. */
  let before = NONE;
  let contentBytes = 0;
  let sum = 0;
  let isBegun = false;
  /** Of the member whose parts are being given out. */
  let bytes = 0;

  function endBlock(isLast: boolean): void {
    const content = block.subarray(start, filled);
    sum = crc32(content, sum);
    const head = isBegun ? NONE : HEADER;
    const tail = isLast ? Buffer.concat([LAST_BLOCK, trailer(sum, contentBytes)]) : NONE;
    const part = packed(content, before).then((middle) => Buffer.concat([head, ...middle, tail]));
    // A failure is thrown where the part is given out; until then, it must not count as unhandled.
    part.catch(() => undefined);
    waiting.push({ part, memberBytes: isLast ? contentBytes : undefined });
    isBegun = true;
    before = content.subarray(-WINDOW_BYTES);
    start = filled;
    if (filled < BLOCK_BYTES) return;
    block = Buffer.allocUnsafe(BLOCK_BYTES);
    start = filled = 0;
  }

  async function* giveOut(most: number): AsyncGenerator<Buffer> {
    while (waiting.length > most) {
      const { part, memberBytes } = waiting.shift() as (typeof waiting)[number];
      const given = await part;
      bytes += given.length;
      if (memberBytes !== undefined) {
        onMember({ bytes, contentBytes: memberBytes });
        bytes = 0;
      }
      yield given;
    }
  }

  return {
    take(content) {
      contentBytes += content.length;
      for (let from = 0; from < content.length; ) {
        const taken = Math.min(content.length - from, BLOCK_BYTES - filled);
        block.set(content.subarray(from, from + taken), filled);
        filled += taken;
        from += taken;
        if (filled === BLOCK_BYTES) endBlock(false);
      }
    },
    end() {
      if (contentBytes === 0) return;
      endBlock(true);
      [contentBytes, sum, isBegun, before] = [0, 0, false, NONE];
    },
    parts: () => giveOut(AT_ONCE),
    rest: () => giveOut(0),
  };
}

/** The content as one DEFLATE stream. */
export async function deflated(blocks: readonly Promise<Buffer[]>[]): Promise<Buffer> {
  return Buffer.concat([...(await Promise.all(blocks)).flat(), LAST_BLOCK]);
}

/** Compresses a block of a DEFLATE stream that is not its last. */
export async function packed(block: Buffer, before: Buffer = NONE): Promise<Buffer[]> {
  if (block.length === 0) return [];
  if (isDense(block)) return stored(block);
  const finishFlush = constants.Z_SYNC_FLUSH;
  const dictionary = before.length > 0 ? { dictionary: before } : {};
  return [await deflate(block, { level: constants.Z_BEST_SPEED, finishFlush, ...dictionary })];
}

function trailer(sum: number, contentBytes: number): Buffer {
  const trailer = Buffer.alloc(8);
  trailer.writeUInt32LE(sum, 0);
  trailer.writeUInt32LE(contentBytes % 2 ** 32, 4);
  return trailer;
}

/** The block in stored, which means uncompressed, blocks of DEFLATE. */
function stored(block: Buffer): Buffer[] {
  const parts: Buffer[] = [];
  for (let from = 0; from < block.length; from += STORED_BYTES) {
    const part = block.subarray(from, from + STORED_BYTES);
    const head = Buffer.alloc(5);
    head.writeUInt16LE(part.length, 1);
    head.writeUInt16LE(part.length ^ 0xffff, 3);
    parts.push(head, part);
  }
  return parts;
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
