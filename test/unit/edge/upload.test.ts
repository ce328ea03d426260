// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { HttpError } from "../../../edge/http/http-error.ts";
import { readUpload, type Upload } from "../../../edge/http/upload.ts";
import { type ManualClock, manualClock } from "../manual-clock.ts";

const test = suite("readUpload");

function upload(
  body: ReadableStream<Uint8Array> | Uint8Array | undefined,
  { limit = 10, clock = manualClock(), signal }: { limit?: number; clock?: ManualClock; signal?: AbortSignal } = {},
): Upload {
  const init: RequestInit & { duplex: "half" } = { method: "PUT", duplex: "half" };
  if (body !== undefined) init.body = body as never;
  return readUpload(new Request("http://edge.test/", init), { limit, clock, clientGone: signal });
}

async function outcome(read: Upload): Promise<string> {
  let text = "";
  try {
    for await (const chunk of read.chunks) text += Buffer.from(chunk).toString();
    return text;
  } catch (error) {
    if (!(error instanceof HttpError)) throw error;
    return `${error.status} ${error.message}`;
  }
}

/** A body that says a few bytes, and then nothing. */
function stalling(): { body: ReadableStream<Uint8Array>; cancelled: () => boolean } {
  let isCancelled = false;
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(Buffer.from("half")),
    cancel() {
      isCancelled = true;
    },
  });
  return { body, cancelled: () => isCancelled };
}

test("reads a body to its end, also an empty one", async () => {
  assert.is(await outcome(upload(Buffer.from("a body"))), "a body");
  assert.is(await outcome(upload(undefined)), "");
});

test("refuses a body over its limit, whether it was declared or not", async () => {
  const body = new ReadableStream<Uint8Array>({ pull: (controller) => controller.enqueue(Buffer.from("abc")) });
  assert.is(await outcome(upload(body)), "413 body: is larger than 10 bytes");
  const headers = { "content-length": "11" };
  const declared = new Request("http://edge.test/", { method: "PUT", headers });
  assert.throws(
    () => readUpload(declared, { limit: 10, clientGone: undefined }),
    (error: HttpError) => error.status === 413,
  );
});

test("refuses a body that pauses, and one that takes too long though it never does", async () => {
  const clock = manualClock();
  const paused = outcome(upload(stalling().body, { clock }));
  await clock.pass(60_000);
  assert.is(await paused, "408 body: paused for more than 60 s");

  const slow = upload(new ReadableStream<Uint8Array>({ pull: (controller) => controller.enqueue(Buffer.from("a")) }), {
    clock,
    limit: 1000,
  });
  let bytes = 0;
  const reading = (async () => {
    for await (const chunk of slow.chunks) {
      bytes += chunk.length;
      await clock.pass(50_000);
    }
  })().catch((error: HttpError) => `${error.status} ${error.message}`);
  assert.is(await reading, "408 body: did not arrive completely within 15 minutes");
  assert.ok(bytes >= 15 && bytes < 25, String(bytes));
});

test("ends with the client, and where it is closed, which lets go of the body", async () => {
  const gone = new AbortController();
  const left = outcome(upload(stalling().body, { signal: gone.signal }));
  gone.abort();
  assert.is(await left, "499 the client went away");
  const { body, cancelled } = stalling();
  const read = upload(body);
  const closed = outcome(read);
  await new Promise((resolve) => setImmediate(resolve));
  read.close();
  assert.is(await closed, "half");
  assert.ok(cancelled());
});

test.run();
