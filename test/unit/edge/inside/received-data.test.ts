// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createReceivedData } from "../../../../edge/inside/received-data.ts";

const test = suite("createReceivedData");

function receive() {
  const calls = { read: 0, left: 0 };
  const received = createReceivedData({
    read: (bytes) => (calls.read += bytes),
    leave: () => (calls.left += 1),
  });
  return { received, calls, reader: received.data[Symbol.asyncIterator]() };
}

test("payloads of all sizes stay apart and in order, before and while they are read", async () => {
  const { received, calls } = receive();
  const sizes = [1, 70, 8191, 1, 8192, 16_382, 16_383, 3, 65_536, 2, 2, 40_000];
  const payloads = sizes.map((size, index) => Buffer.alloc(size, index + 1));
  for (const payload of payloads) received.push(payload);
  const found: Buffer[] = [];
  for await (const chunk of received.data) {
    found.push(Buffer.from(chunk));
    if (found.length === sizes.length) received.push(Buffer.from("last"));
    if (found.length > sizes.length) received.end();
  }
  assert.equal(found.map(String), [...payloads.map(String), "last"]);
  assert.is(calls.read, sizes.reduce((sum, size) => sum + size, 0) + 4);
});

test("small payloads do not hold the large chunks that they came in", async () => {
  for (const isWaiting of [false, true]) {
    const { received, reader } = receive();
    const chunk = Buffer.allocUnsafeSlow(1_000_000);
    const waiting = isWaiting ? reader.next() : undefined;
    received.push(chunk.subarray(0, 30));
    const { value } = await (waiting ?? reader.next());
    assert.ok(value.buffer.byteLength <= 16 * 1024, `${value.buffer.byteLength} bytes are held`);
    received.push(chunk.subarray(0, 20_000));
    assert.is((await reader.next()).value.buffer.byteLength < 100_000, true);
  }
});

test("many payloads of one byte take a small multiple of their bytes", async () => {
  const { received, reader } = receive();
  const payload = Buffer.from("x");
  for (let count = 0; count < 512 * 1024; count += 1) received.push(payload);
  const buffers = new Set<ArrayBufferLike>();
  let bytes = 0;
  received.end();
  for (let next = await reader.next(); !next.done; next = await reader.next()) {
    bytes += next.value.length;
    buffers.add(next.value.buffer);
  }
  assert.is(bytes, 512 * 1024);
  assert.ok(buffers.size * 16 <= 4 * 512, `${buffers.size} buffers`);
});

test("the end and a failure come after the data that arrived", async () => {
  const ended = receive();
  ended.received.push(Buffer.from("a"));
  ended.received.end();
  assert.is((await ended.reader.next()).done, false);
  assert.is((await ended.reader.next()).done, true);
  const failed = receive();
  failed.received.push(Buffer.from("a"));
  failed.received.fail(new Error("broken"));
  assert.is((await failed.reader.next()).done, false);
  const message = await failed.reader.next().catch((error: Error) => error.message);
  assert.is(message, "broken");
});

test("a reader that leaves while it waits is not held up", async () => {
  const { received, calls, reader } = receive();
  const waiting = reader.next();
  await reader.return?.();
  assert.is((await waiting).done, true);
  received.push(Buffer.from("late"));
  assert.is((await reader.next()).done, true);
  assert.equal(calls, { read: 0, left: 1 });
  const over = receive();
  over.received.end();
  await over.reader.return?.();
  assert.is(over.calls.left, 0);
});

test.run();
