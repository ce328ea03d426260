// @runtimes bun node deno
import { randomBytes } from "node:crypto";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  createFrameDecoder,
  encodeFrame,
  type Frame,
  FrameError,
  frameType,
  MAX_PAYLOAD_BYTES,
} from "../../../../edge/inside/frames.ts";

const test = suite("frames");

const FRAMES: readonly Frame[] = [
  { type: frameType.hello, stream: 0, payload: Buffer.from('{"version":1}') },
  { type: frameType.end, stream: 1, payload: Buffer.alloc(0) },
  { type: frameType.data, stream: 0xfffffffe, payload: randomBytes(300) },
  { type: frameType.ping, stream: 0, payload: Buffer.alloc(0) },
];
const BYTES = Buffer.concat(FRAMES.map(({ type, stream, payload }) => encodeFrame(type, stream, payload)));

function decodeAll(...chunks: Buffer[]): Frame[] {
  const frames: Frame[] = [];
  const decode = createFrameDecoder((frame) => frames.push(frame));
  for (const chunk of chunks) decode(chunk);
  return frames;
}

function sameFrames(found: readonly Frame[], expected: readonly Frame[]): boolean {
  return (
    found.length === expected.length &&
    expected.every(({ type, stream, payload }, index) => {
      const frame = found[index];
      return frame?.type === type && frame.stream === stream && payload.equals(frame.payload);
    })
  );
}

test("encodeFrame writes length, type and stream in big endian before the payload", () => {
  assert.is(encodeFrame(frameType.data, 258, Buffer.from("ab")).toString("hex"), "000000020400000102" + "6162");
});

test("a decoder gives the same frames wherever the bytes are split", () => {
  for (let first = 0; first <= BYTES.length; first += 1) {
    const chunks = [BYTES.subarray(0, first), BYTES.subarray(first, first + 7), BYTES.subarray(first + 7)];
    assert.ok(sameFrames(decodeAll(...chunks), FRAMES), `split at ${first}`);
  }
  const single = [...BYTES].map((byte) => Buffer.from([byte]));
  assert.ok(sameFrames(decodeAll(...single), FRAMES), "one byte at a time");
});

test("a payload in one chunk is not copied, and a split one has memory of its own", () => {
  const whole = decodeAll(BYTES)[2]?.payload;
  assert.ok(whole?.buffer === BYTES.buffer);
  const at = BYTES.length - 20;
  const split = decodeAll(BYTES.subarray(0, at), BYTES.subarray(at))[2]?.payload;
  assert.is(split?.buffer.byteLength, 300);
});

test("the longest payload passes", () => {
  const frame = { type: frameType.data, stream: 7, payload: randomBytes(MAX_PAYLOAD_BYTES) };
  const bytes = encodeFrame(frame.type, frame.stream, frame.payload);
  assert.ok(sameFrames(decodeAll(bytes.subarray(0, 40_000), bytes.subarray(40_000)), [frame]));
});

test("a payload that is too long is refused at its header, and is not sent", () => {
  const header = Buffer.from("00100001" + "04" + "00000001", "hex");
  assert.throws(
    () => decodeAll(header),
    (error: unknown) => error instanceof FrameError,
  );
  const endless = Buffer.from("ffffffff" + "04" + "00000001", "hex");
  assert.throws(() => decodeAll(endless.subarray(0, 4), endless.subarray(4)), /4294967295 bytes/);
  assert.throws(() => encodeFrame(frameType.data, 1, Buffer.alloc(MAX_PAYLOAD_BYTES + 1)), /1048577 bytes/);
});

test("an unknown type is refused", () => {
  for (const type of [9, 128, 255]) {
    const frame = Buffer.from([0, 0, 0, 0, type, 0, 0, 0, 1]);
    assert.throws(() => decodeAll(frame), new RegExp(`unknown type ${type}`));
  }
});

test("frames before a broken one are given", () => {
  const frames: Frame[] = [];
  const decode = createFrameDecoder((frame) => frames.push(frame));
  assert.throws(() => decode(Buffer.concat([BYTES, Buffer.alloc(9, 255)])), /limit is 1048576/);
  assert.ok(sameFrames(frames, FRAMES));
});

test.run();
