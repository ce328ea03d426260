// @runtimes bun node deno
import fc from "fast-check";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  closeFrame,
  createFrameState,
  isBetweenFrames,
  scanFrames,
} from "../../../edge/proxy/http/websocket-frames.ts";

const test = suite("frames of a WebSocket");

interface Frame {
  readonly opcode: number;
  readonly isLast: boolean;
  readonly payload: number;
}

/** A frame as a peer sends it. */
function frameOf({ opcode, isLast, payload }: Frame, isMasked: boolean): Buffer {
  const length = Buffer.alloc(payload < 126 ? 0 : payload < 65_536 ? 2 : 8);
  if (length.length === 2) length.writeUInt16BE(payload);
  if (length.length === 8) length.writeBigUInt64BE(BigInt(payload));
  const marker = length.length === 0 ? payload : length.length === 2 ? 126 : 127;
  const mask = isMasked ? Buffer.from([1, 0x88, 0x02, 0xff]) : Buffer.alloc(0);
  return Buffer.concat([
    Buffer.from([(isLast ? 0x80 : 0) | opcode, (isMasked ? 0x80 : 0) | marker]),
    length,
    mask,
    // What a frame carries may look like frames.
    Buffer.alloc(payload, Buffer.from([0x89, 0x00, 0x81, 0xfe])),
  ]);
}

const frames = fc.array(
  fc.oneof(
    fc.record({
      opcode: fc.constantFrom(0, 1, 2),
      isLast: fc.boolean(),
      payload: fc.oneof(fc.integer({ min: 0, max: 300 }), fc.constantFrom(125, 126, 127, 65_535, 65_536)),
    }),
    fc.record({
      opcode: fc.constantFrom(9, 10),
      isLast: fc.constant(true),
      payload: fc.integer({ min: 0, max: 125 }),
    }),
  ),
  { minLength: 1, maxLength: 6 },
);

test("their borders and data are found however they are cut", () => {
  fc.assert(
    fc.property(frames, fc.boolean(), fc.array(fc.nat(70_000)), (list, isMasked, cuts) => {
      const sent = list.map((frame) => frameOf(frame, isMasked));
      const stream = Buffer.concat(sent);
      const borders = new Set<number>([0]);
      const ranges: [from: number, to: number][] = [];
      let at = 0;
      for (const [index, frame] of sent.entries()) {
        if ((list[index]?.opcode ?? 0) < 8) ranges.push([at, at + frame.length]);
        at += frame.length;
        borders.add(at);
      }
      const state = createFrameState({ isMasked });
      const ends = [...new Set([...cuts.map((cut) => cut % stream.length), stream.length])].sort((a, b) => a - b);
      let from = 0;
      for (const to of ends) {
        const hasData = scanFrames(state, stream.subarray(from, to));
        assert.is(hasData, to > from && ranges.some(([start, end]) => start < to && end > from), `${from} to ${to}`);
        assert.is(isBetweenFrames(state), borders.has(to), `a border at ${to}`);
        from = to;
      }
      assert.ok(state.isValid);
    }),
    { numRuns: 200 },
  );
});

test("they are read byte by byte", () => {
  for (const isMasked of [false, true]) {
    for (const payload of [0, 1, 125, 126, 65_536]) {
      const state = createFrameState({ isMasked });
      const ping = frameOf({ opcode: 9, isLast: true, payload: 3 }, isMasked);
      const data = frameOf({ opcode: 2, isLast: true, payload }, isMasked);
      for (const [frame, isData] of [
        [ping, false],
        [data, true],
        [ping, false],
      ] as const) {
        for (let at = 0; at < frame.length; at += 1) {
          assert.is(scanFrames(state, frame.subarray(at, at + 1)), isData);
          assert.is(isBetweenFrames(state), at === frame.length - 1);
        }
      }
    }
  }
});

test("bytes that are no frames are data for good, and have no border", () => {
  const bad = {
    "an unknown opcode": [0x83, 0],
    "an unknown control opcode": [0x8b, 0],
    "a reserved bit": [0xa1, 0],
    "a compressed ping": [0xc9, 0],
    "a ping in parts": [0x09, 0],
    "a long ping": [0x89, 126],
    "a mask where none belongs": [0x81, 0x80],
    "a length beyond all": [0x81, 127, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    "a frame after the last": [0x88, 0, 0x89, 0],
  };
  for (const [what, bytes] of Object.entries(bad)) {
    const state = createFrameState({ isMasked: false });
    assert.ok(scanFrames(state, Buffer.from(bytes)), what);
    for (const next of [[0x89, 0], [0x89], [0]]) {
      assert.ok(scanFrames(state, Buffer.from(next)), what);
      assert.not.ok(isBetweenFrames(state), what);
    }
  }
  const unmasked = createFrameState({ isMasked: true });
  assert.ok(scanFrames(unmasked, Buffer.from([0x89, 0])), "a client must mask");
});

test("a close frame is no data, and ours are read as one", () => {
  for (const isMasked of [false, true]) {
    const state = createFrameState({ isMasked });
    assert.not.ok(scanFrames(state, closeFrame(1001, { isMasked })));
    assert.ok(isBetweenFrames(state) && state.isClosed);
  }
  assert.equal([...closeFrame(1001, { isMasked: false })], [0x88, 2, 0x03, 0xe9]);
  const [, length, a = 0, b = 0, , , first = 0, second = 0] = closeFrame(1012, { isMasked: true });
  assert.equal([length, first ^ a, second ^ b], [0x82, 0x03, 0xf4]);
});

test.run();
