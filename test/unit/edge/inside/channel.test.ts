// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { NetworkError } from "../../../../crds/client/api-error.ts";
import { ExecError } from "../../../../crds/client/exec/exec-outcome.ts";
import { type Channel, InsideError, openChannel } from "../../../../edge/inside/channel.ts";
import { encodeFrame, type Frame, frameType, MAX_PAYLOAD_BYTES } from "../../../../edge/inside/frames.ts";
import { errorOf } from "../../../error-of.ts";
import { eventually } from "../../../eventually.ts";
import { type ManualClock, manualClock, turns } from "../../manual-clock.ts";
import { type FakeInside, fakeInside } from "./fake-inside.ts";

const test = suite("openChannel");

const WINDOW = 512 * 1024;

async function open(): Promise<{ inside: FakeInside; channel: Channel; clock: ManualClock }> {
  const inside = fakeInside();
  const clock = manualClock();
  const opening = openChannel({ run: inside.run, clock });
  inside.hello();
  return { inside, channel: await opening, clock };
}

/** A call that the program has answered. */
async function answered(options: Parameters<Channel["call"]>[2] = {}) {
  const opened = await open();
  const call = opened.channel.call("read", {}, options);
  await opened.inside.sent(frameType.call);
  opened.inside.send(frameType.answer, 1, {});
  const { data } = await call;
  return { ...opened, data, reader: data[Symbol.asyncIterator]() };
}

async function bytesOf(data: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of data) chunks.push(chunk);
  return Buffer.concat(chunks);
}

async function* endless(size = 64 * 1024): AsyncGenerator<Uint8Array> {
  for (;;) yield Buffer.alloc(size);
}

function isNetworkError(error: unknown, { requestWasSent }: { requestWasSent: boolean }): boolean {
  return error instanceof NetworkError && error.requestWasSent === requestWasSent;
}

test("a program that is silent for 30 s is given up, and its exec ended", async () => {
  const inside = fakeInside();
  const clock = manualClock();
  const opening = errorOf(openChannel({ run: inside.run, clock }));
  await clock.pass(29_999);
  assert.is(inside.signal()?.aborted, false);
  await clock.pass(1);
  const error = await opening;
  assert.ok(isNetworkError(error, { requestWasSent: false }));
  assert.match((error as Error).message, /not begun within 30 s/);
  assert.is(inside.signal()?.aborted, true);
  assert.is(clock.pending(), 0);
});

test("another version of the protocol is refused", async () => {
  for (const version of [2, "1", null, { a: 1 }]) {
    const inside = fakeInside();
    const opening = errorOf(openChannel({ run: inside.run }));
    inside.hello(version);
    const error = await opening;
    assert.ok(error instanceof InsideError && error.code === "otherVersion", String(error));
    assert.is(inside.signal()?.aborted, true);
  }
});

test("what is no HELLO is refused", async () => {
  const beginnings = [
    encodeFrame(frameType.ping, 0),
    encodeFrame(frameType.hello, 1, Buffer.from('{"version":1}')),
    encodeFrame(frameType.hello, 0, Buffer.from("{")),
    encodeFrame(frameType.hello, 0, Buffer.from("null")),
    Buffer.from("sh: not found\n"),
  ];
  for (const beginning of beginnings) {
    const inside = fakeInside();
    const opening = errorOf(openChannel({ run: inside.run }));
    inside.write(beginning);
    assert.ok(isNetworkError(await opening, { requestWasSent: false }));
  }
});

test("a program that cannot begin is quoted, and an exec that is refused throws its error", async () => {
  const failing = fakeInside();
  const opening = errorOf(openChannel({ run: failing.run }));
  failing.end({ exitCode: 1, stderr: "inside: no memory\n" });
  assert.match(((await opening) as Error).message, /ended with exit code 1: inside: no memory$/);
  const refused = fakeInside();
  const refusing = errorOf(openChannel({ run: refused.run }));
  const gone = new ExecError("gone", { reason: "PodGone" });
  refused.end(gone);
  assert.is(await refusing, gone);
});

test("an abort while the channel opens throws its reason", async () => {
  const inside = fakeInside();
  const gone = new AbortController();
  const opening = errorOf(openChannel({ run: inside.run, signal: gone.signal }));
  gone.abort("gone");
  assert.is(await opening, "gone");
  assert.is(inside.signal()?.aborted, true);
});

test("a call without input is sent with its end, in one chunk", async () => {
  const { inside, channel } = await open();
  const call = channel.call("stat", { path: "/a", call: "remove" });
  await inside.sent(frameType.end);
  assert.equal(
    inside.frames.map(({ type, stream, payload }) => [type, stream, payload.toString()]),
    [
      [frameType.call, 1, '{"path":"/a","call":"stat"}'],
      [frameType.end, 1, ""],
    ],
  );
  assert.is(inside.chunks.length, 1);
  inside.send(frameType.answer, 1, { size: 3 });
  const { answer, data } = await call;
  assert.equal(answer, { size: 3 });
  assert.is(channel.openCalls(), 1);
  inside.send(frameType.data, 1, Buffer.from("abc"));
  inside.send(frameType.end, 1);
  assert.is(channel.openCalls(), 0);
  assert.is((await bytesOf(data)).toString(), "abc");
});

test("an ERROR is thrown by its call, or by its data after what arrived", async () => {
  const { inside, channel } = await open();
  const refused = errorOf(channel.call("stat", {}));
  const later = channel.call("read", {});
  await inside.sent(frameType.call, 2);
  inside.send(frameType.error, 1, { code: "notFound", message: "no such file" });
  const error = await refused;
  assert.ok(error instanceof InsideError);
  assert.equal([error.code, error.message], ["notFound", "no such file"]);
  inside.send(frameType.answer, 2, {});
  inside.send(frameType.data, 2, Buffer.from("half"));
  inside.send(frameType.error, 2, { code: "changed", message: "shorter" });
  const reader = (await later).data[Symbol.asyncIterator]();
  assert.is(String((await reader.next()).value), "half");
  assert.is(((await errorOf(reader.next())) as InsideError).code, "changed");
  assert.is(channel.openCalls(), 0);
  assert.is(inside.count(frameType.cancel), 0);
});

test("a reader that stops makes the program stop at 512 KiB, and gives credit as it goes on", async () => {
  const { inside, reader } = await answered();
  const piece = Buffer.alloc(64 * 1024);
  for (let sent = 0; sent < WINDOW; sent += piece.length) inside.send(frameType.data, 1, piece);
  await turns();
  assert.is(inside.count(frameType.credit), 0);
  await reader.next();
  await reader.next();
  const credit = await inside.sent(frameType.credit);
  assert.equal([credit.stream, credit.payload.readUInt32BE()], [1, 128 * 1024]);
  inside.send(frameType.data, 1, piece);
  inside.send(frameType.data, 1, piece);
  for (let read = 2; read < 10; read += 1) await reader.next();
  const credits = await inside.sent(frameType.credit, 5);
  assert.is(credits.payload.readUInt32BE(), 128 * 1024);
});

test("a program that breaks the rules loses the connection, and all calls fail", async () => {
  const piece = Buffer.alloc(64 * 1024);
  const breaches: Record<string, (inside: FakeInside) => void> = {
    "more data than credit": (inside) => {
      for (let sent = 0; sent <= WINDOW; sent += piece.length) inside.send(frameType.data, 1, piece);
    },
    "empty data": (inside) => inside.send(frameType.data, 1),
    "a second HELLO": (inside) => inside.hello(),
    "a second answer": (inside) => {
      inside.send(frameType.answer, 1, {});
      inside.send(frameType.answer, 1, {});
    },
    "an end without an answer": (inside) => inside.send(frameType.end, 1),
    "an answer that is no JSON": (inside) => inside.send(frameType.answer, 1, Buffer.from("{")),
    "an ERROR without a code": (inside) => inside.send(frameType.error, 1, { message: "a" }),
    "a CREDIT of three bytes": (inside) => inside.send(frameType.credit, 1, Buffer.alloc(3)),
    "a CALL": (inside) => inside.send(frameType.call, 1, {}),
    "a CANCEL": (inside) => inside.send(frameType.cancel, 1),
    "a PING that answers none": (inside) => inside.send(frameType.ping, 0),
    "more credit than was used": (inside) => inside.send(frameType.credit, 1, Buffer.from([0, 0, 0, 1])),
    "a PING of a stream": (inside) => inside.send(frameType.ping, 1),
    "an unknown type": (inside) => inside.write(Buffer.from([0, 0, 0, 0, 9, 0, 0, 0, 1])),
    "a frame that is too long": (inside) => inside.write(Buffer.from([0, 16, 0, 1, 4, 0, 0, 0, 1])),
    "a stream that was not opened": (inside) => inside.send(frameType.data, 3, Buffer.from("a")),
    "data of stream 0": (inside) => inside.send(frameType.data, 0, Buffer.from("a")),
  };
  for (const [name, breach] of Object.entries(breaches)) {
    const { inside, channel, clock } = await open();
    const calls = [channel.call("a", {}), channel.call("b", {})].map(async (call) =>
      errorOf(call.then(({ data }) => bytesOf(data))),
    );
    await inside.sent(frameType.call, 2);
    breach(inside);
    for (const error of await Promise.all(calls)) assert.ok(isNetworkError(error, { requestWasSent: true }), name);
    assert.is(inside.signal()?.aborted, true, name);
    await channel.ended;
    assert.is(channel.openCalls(), 0, name);
    assert.is(clock.pending(), 0, name);
  }
});

test("frames of a call that has ended are ignored, unless they do not end", async () => {
  const { inside, channel, reader } = await answered();
  await reader.return?.();
  await inside.sent(frameType.cancel);
  inside.send(frameType.data, 1, Buffer.from("late"));
  inside.send(frameType.credit, 1, Buffer.alloc(4));
  inside.send(frameType.end, 1);
  inside.send(frameType.error, 1, { code: "gone", message: "" });
  const call = channel.call("stat", {});
  await inside.sent(frameType.call, 2);
  inside.send(frameType.answer, 2, { ok: true });
  assert.equal((await call).answer, { ok: true });
  const piece = Buffer.alloc(64 * 1024);
  for (let sent = 0; sent <= 4 * 1024 * 1024; sent += piece.length) inside.send(frameType.data, 1, piece);
  await channel.ended;
});

test("leaving the data, or the abort of the signal, sends one CANCEL", async () => {
  const left = await answered();
  left.inside.send(frameType.data, 1, Buffer.from("a"));
  for await (const _ of left.data) break;
  await left.inside.sent(frameType.cancel);
  assert.is(left.channel.openCalls(), 0);

  const gone = new AbortController();
  const aborted = await answered({ signal: gone.signal });
  const waiting = errorOf(aborted.reader.next());
  gone.abort("gone");
  assert.is(await waiting, "gone");
  await aborted.inside.sent(frameType.cancel);

  const { inside, channel } = await open();
  const early = new AbortController();
  const call = errorOf(channel.call("read", {}, { signal: early.signal }));
  await inside.sent(frameType.call);
  early.abort("early");
  assert.is(await call, "early");
  await inside.sent(frameType.cancel);
  assert.is(await errorOf(channel.call("read", {}, { signal: early.signal })), "early");
  await turns();
  assert.equal(
    [inside, left.inside, aborted.inside].map((one) => one.count(frameType.cancel)),
    [1, 1, 1],
  );
});

test("input is sent before the answer up to the credit, and goes on with more", async () => {
  let pieces = 0;
  async function* input(): AsyncGenerator<Uint8Array> {
    for (; pieces < 20; pieces += 1) yield Buffer.alloc(64 * 1024, pieces);
  }
  const { inside, channel } = await open();
  const call = channel.call("write", {}, { input: input() });
  const received = () =>
    inside.frames.reduce((sum, { type, payload }) => sum + (type === frameType.data ? payload.length : 0), 0);
  await eventually(() => received() === WINDOW);
  await turns();
  assert.is(received(), WINDOW);
  assert.is(pieces, 8);
  inside.send(frameType.answer, 1, {});
  const { data } = await call;
  inside.send(frameType.credit, 1, Buffer.from([0, 0, 0, 5]));
  await eventually(() => received() === WINDOW + 5);
  for (let given = 0; given < 2; given += 1) {
    const before = received();
    inside.send(frameType.credit, 1, Buffer.from([0, 8, 0, 0]));
    await eventually(() => received() === Math.min(before + WINDOW, 20 * 64 * 1024));
  }
  await inside.sent(frameType.end);
  assert.is(received(), 20 * 64 * 1024);
  assert.ok(Math.max(...inside.chunks) <= 64 * 1024);
  inside.send(frameType.end, 1);
  assert.is((await bytesOf(data)).length, 0);
});

test("a connection that takes nothing holds no input, whatever the credit", async () => {
  let pieces = 0;
  async function* input(): AsyncGenerator<Uint8Array> {
    for (; ; pieces += 1) yield Buffer.alloc(64 * 1024);
  }
  const { inside, channel } = await open();
  const call = errorOf(channel.call("write", {}, { input: input() }));
  await inside.sent(frameType.data);
  inside.pause(true);
  // As much as it has got.
  inside.send(frameType.credit, 1, Buffer.from([0, 0, 128, 0]));
  await turns();
  const taken = pieces;
  for (let count = 0; count < 20; count += 1) await turns();
  assert.ok(pieces - taken < 4, `${pieces - taken} pieces`);
  channel.close();
  assert.ok(isNetworkError(await call, { requestWasSent: true }));
});

test("a program that reads nothing gets no more calls once 4 MiB wait, and none that was given up", async () => {
  const { inside, channel } = await open();
  inside.pause(true);
  await turns();
  const large = { text: "x".repeat(MAX_PAYLOAD_BYTES / 2) };
  const gone = new AbortController();
  const calls: Promise<unknown>[] = [];
  // What was sent before the pause was noticed does not wait.
  let refused: unknown;
  while (refused === undefined && calls.length < 40) {
    const call = errorOf(channel.call("write", large, { signal: gone.signal }));
    calls.push(call);
    refused = await Promise.race([call, turns()]);
  }
  assert.ok(isNetworkError(refused, { requestWasSent: false }), String(refused));
  assert.match((refused as Error).message, /does not read/);
  assert.ok(calls.length > 8, `${calls.length} calls`);
  gone.abort("gone");
  await Promise.all(calls);

  const kept = channel.call("read", {});
  inside.pause(false);
  await inside.sent(frameType.end);
  const names = inside.frames.filter(({ type }) => type === frameType.call).map(nameOf);
  assert.is(names.at(-1), "read");
  assert.ok(names.length < 5, `${names.length} calls were sent`);
  assert.is(inside.count(frameType.cancel), names.length - 1);
  channel.close();
  await errorOf(kept);
});

const nameOf = ({ payload }: Frame): string => JSON.parse(payload.toString()).call;

test("calls with input take turns", async () => {
  const { inside, channel } = await open();
  const inputs = [endless(), endless()];
  for (const input of inputs) channel.call("write", {}, { input }).catch(() => undefined);
  await eventually(() => inside.count(frameType.data) >= 8);
  const streams = inside.frames.filter(({ type }) => type === frameType.data).map(({ stream }) => stream);
  assert.equal([...new Set(streams.slice(0, 3))].sort(), [1, 2]);
  channel.close();
});

test("an input that fails is thrown by the call or its data, and cancels", async () => {
  async function* failing(): AsyncGenerator<Uint8Array> {
    yield Buffer.from("a");
    throw new Error("cut");
  }
  const { inside, channel } = await open();
  const before = errorOf(channel.call("write", {}, { input: failing() }));
  assert.is(((await before) as Error).message, "cut");
  await inside.sent(frameType.cancel);
  assert.is(inside.count(frameType.end), 0);

  let fail: ((error: Error) => void) | undefined;
  const input = new ReadableStream<Uint8Array>({
    start(controller) {
      fail = (error) => controller.error(error);
    },
  });
  const after = await answered({ input });
  fail?.(new Error("cut later"));
  assert.is(((await errorOf(after.reader.next())) as Error).message, "cut later");
  await after.inside.sent(frameType.cancel);
});

test("an input is released when its call ends, also while a piece is awaited", async () => {
  let isCancelled = false;
  const silent = new ReadableStream<Uint8Array>({
    cancel() {
      isCancelled = true;
    },
  });
  const { inside } = await answered({ input: silent });
  inside.send(frameType.end, 1);
  await eventually(() => isCancelled);

  let isReturned = false;
  async function* input(): AsyncGenerator<Uint8Array> {
    try {
      yield* endless();
    } finally {
      isReturned = true;
    }
  }
  const { inside: other, channel } = await open();
  const refused = errorOf(channel.call("write", {}, { input: input() }));
  await other.sent(frameType.data);
  other.send(frameType.error, 1, { code: "full", message: "no space" });
  assert.is(((await refused) as InsideError).code, "full");
  await eventually(() => isReturned);
  await turns();
  assert.equal([other.count(frameType.end), other.count(frameType.cancel)], [0, 0]);
});

test("the end of the exec fails open calls with its error, and later ones as not sent", async () => {
  const endings: Record<string, Error | { exitCode: number }> = {
    exec: new ExecError("gone", { reason: "ContainerNotRunning" }),
    network: new NetworkError("cut", { requestWasSent: true }),
    other: new Error("unknown"),
    code: { exitCode: 137 },
  };
  for (const [name, ending] of Object.entries(endings)) {
    const { inside, channel, reader } = await answered();
    const unanswered = errorOf(channel.call("stat", {}));
    const reading = errorOf(reader.next());
    await inside.sent(frameType.call, 2);
    inside.end(ending);
    for (const error of [await unanswered, await reading]) {
      if (name === "exec" || name === "network") assert.is(error, ending);
      else assert.ok(isNetworkError(error, { requestWasSent: true }));
    }
    await channel.ended;
    assert.ok(isNetworkError(await errorOf(channel.call("stat", {})), { requestWasSent: false }));
  }
});

test("close ends the exec at once", async () => {
  const { inside, channel, clock } = await open();
  const call = errorOf(channel.call("stat", {}));
  channel.close();
  assert.is(inside.signal()?.aborted, true);
  assert.ok(isNetworkError(await call, { requestWasSent: true }));
  await channel.ended;
  assert.is(clock.pending(), 0);
});

test("a program that answers pings stays, and a silent one is noticed after 60 s", async () => {
  const { inside, channel, clock } = await open();
  const call = errorOf(channel.call("start", {}));
  for (let count = 1; count <= 8; count += 1) {
    await clock.pass(15_000);
    await inside.sent(frameType.ping, count);
    inside.send(frameType.ping, 0);
  }
  await clock.pass(59_999);
  assert.is(inside.signal()?.aborted, false);
  await clock.pass(15_001);
  assert.match(((await call) as Error).message, /sent nothing for 60 s/);
  assert.ok(isNetworkError(await call, { requestWasSent: true }));
  await channel.ended;
});

test("parameters that do not fit into a frame are refused without a call", async () => {
  const { inside, channel } = await open();
  const error = await errorOf(channel.call("start", { text: "x".repeat(MAX_PAYLOAD_BYTES) }));
  assert.ok(error instanceof RangeError);
  assert.is(channel.openCalls(), 0);
  await turns();
  assert.is(inside.frames.length, 0);
});

test.run();
