// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { HttpError } from "../../../edge/http/http-error.ts";
import { readBytes } from "../../../edge/http/read-bytes.ts";
import { manualClock } from "../manual-clock.ts";
import { testEdge } from "./test-edge.ts";

const test = suite("request bodies");
const CLAIM = "POST /api/v1/tenants/a/claim";

const bad: [body: unknown, error: string][] = [
  ["", "body: must be a JSON object, got nothing"],
  [" \n", "body: must be a JSON object, got nothing"],
  ["[]", "body: must be a JSON object, got array"],
  ["null", "body: must be a JSON object, got null"],
  ['"app"', "body: must be a JSON object, got string"],
  ["7", "body: must be a JSON object, got number"],
  ["{", 'body: is not JSON: line 1, column 2: ends where a key in double quotes or "}" is expected'],
  ['{"workload" "app"}', "body: is not JSON: line 1, column 13: expected a colon"],
  ['{\n  "workload": "app",\n}', "body: is not JSON: line 3, column 1: expected a key in double quotes"],
  ["{'workload': 1}", 'body: is not JSON: line 1, column 2: expected a key in double quotes or "}"'],
  ['{"workload": app}', "body: is not JSON: line 1, column 14: expected a value"],
  ['{"a":1} {"b":2}', "body: is not JSON: line 1, column 9: unexpected text after the JSON value"],
  ["workload=app", "body: is not JSON: line 1, column 1: expected a value"],
  [{}, "body.workload: is required"],
  [{ workload: 5 }, "body.workload: must be a string, got number"],
  [{ workload: null }, "body.workload: must be a string, got null"],
  [{ workload: ["app"] }, "body.workload: must be a string, got array"],
  [{ workload: "app", resume: "yes" }, "body.resume: must be a boolean, got string"],
  [{ workload: "app", resume: null }, "body.resume: must be a boolean, got null"],
  [
    { workload: {}, resume: 1 },
    "body.workload: must be a string, got object; body.resume: must be a boolean, got number",
  ],
  [
    { workload: "app", resum: true },
    'body: unknown key "resum"; known are workload, workloadRef, resume, expiresInSeconds, zone, labels, env, secrets, files',
  ],
  [
    { workload: "app", a: 1, b: 2 },
    'body: unknown keys "a", "b"; known are workload, workloadRef, resume, expiresInSeconds, zone, labels, env, secrets, files',
  ],
  [
    '{"workload":"app","__proto__":{}}',
    'body: unknown key "__proto__"; known are workload, workloadRef, resume, expiresInSeconds, zone, labels, env, secrets, files',
  ],
  [
    '{"workload":"app","constructor":{}}',
    'body: unknown key "constructor"; known are workload, workloadRef, resume, expiresInSeconds, zone, labels, env, secrets, files',
  ],
  [
    { workload: "a", workloadRef: "b" },
    "body.workloadRef: is an alias of body.workload and differs from it; give one of them",
  ],
];

test("a bad body is a 400 that names the place", async () => {
  for (const [body, error] of bad) {
    const edge = testEdge();
    const answer = await edge.call(CLAIM, { body });
    assert.is(answer.status, 400, JSON.stringify(body));
    assert.is(answer.error, error);
    assert.equal(edge.cluster.calls, []);
  }
});

test("a workload's name that no object can have is a 400", async () => {
  for (const workload of ["", "App", "a_b", "-a", "a/b", "../x", "a".repeat(64)]) {
    const answer = await testEdge().call(CLAIM, { body: { workload } });
    assert.is(answer.status, 400);
    assert.match(answer.error ?? "", /^body\.workload: a workload's name is 1 to 63 lower-case letters/);
  }
});

test("a long value is cut in the message", async () => {
  const answer = await testEdge().call(CLAIM, { body: { ["k".repeat(100_000)]: 1 } });
  assert.is(answer.status, 400);
  assert.ok(answer.text.length < 300);
});

test("no content type and every JSON type are read, others are refused", async () => {
  for (const type of [
    "application/json",
    "application/json; charset=utf-8",
    "APPLICATION/JSON",
    "application/merge-patch+json",
  ]) {
    const answer = await testEdge().call(CLAIM, { body: "{}", headers: { "content-type": type } });
    assert.is(answer.error, "body.workload: is required", type);
  }
  const { handler } = testEdge();
  const body = new TextEncoder().encode("{}");
  const untyped = await handler(new Request("http://edge.test/api/v1/tenants/a/claim", { method: "POST", body }));
  assert.equal(await untyped.json(), { error: "body.workload: is required" });
  for (const type of ["application/x-www-form-urlencoded", "text/plain", "application/jsonx", "text/json", "x"]) {
    const answer = await testEdge().call(CLAIM, { body: "{}", headers: { "content-type": type } });
    assert.is(answer.status, 400, type);
    assert.is(answer.error, `content-type: must be application/json, got "${type}"`);
  }
});

test("a body that is not UTF-8 is refused, not repaired", async () => {
  const { handler } = testEdge();
  const body = new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d]);
  const response = await handler(new Request("http://edge.test/api/v1/tenants/a/claim", { method: "POST", body }));
  assert.is(response.status, 400);
  assert.equal(await response.json(), { error: "body: is not UTF-8 text" });
});

test("a body that does not end is a 408 after 10 s, with and without a declared length", async () => {
  for (const headers of [{}, { "content-length": "100" }]) {
    const clock = manualClock();
    const body = new ReadableStream({ start: (controller) => controller.enqueue(new Uint8Array(10)) });
    const init = { method: "POST", body, headers, duplex: "half" } as RequestInit;
    const read = readBytes(new Request("http://edge.test/", init), { clock }).catch((error: unknown) => error);
    assert.is(await clock.runNext(), 10_000);
    const error = (await read) as HttpError;
    assert.equal([error.status, error.message], [408, "body: did not arrive completely within 10 s"]);
    assert.is(error.headers.connection, "close");
    assert.is(clock.pending(), 0);
  }
});

test("over 1 MiB is a 413, by the declared length before anything is read", async () => {
  const { handler } = testEdge();
  let pulled = 0;
  const body = new ReadableStream(
    {
      pull(controller) {
        pulled += 1;
        controller.enqueue(new Uint8Array(64 * 1024));
      },
    },
    { highWaterMark: 0 },
  );
  const declared = {
    method: "POST",
    body,
    duplex: "half",
    headers: { "content-length": String(1024 * 1024 + 1) },
  } as RequestInit;
  const response = await handler(new Request("http://edge.test/api/v1/tenants/a/claim", declared));
  assert.is(response.status, 413);
  assert.equal(await response.json(), { error: "body: is larger than 1048576 bytes" });
  assert.is(pulled, 0);
});

test("over 1 MiB is a 413, by what arrives, and the rest is not read", async () => {
  const { handler } = testEdge();
  let pulled = 0;
  let cancelled = false;
  const body = new ReadableStream(
    {
      pull(controller) {
        pulled += 1;
        controller.enqueue(new Uint8Array(64 * 1024));
      },
      cancel() {
        cancelled = true;
      },
    },
    { highWaterMark: 0 },
  );
  const request = new Request("http://edge.test/api/v1/tenants/a/claim", {
    method: "POST",
    body,
    duplex: "half",
  } as RequestInit);
  const response = await handler(request);
  assert.is(response.status, 413);
  assert.ok(pulled <= 18, `${pulled} pieces of 64 KiB were read`);
  assert.ok(cancelled);
});

test("a declared length that is less than what arrives does not get round the limit", async () => {
  const { handler } = testEdge();
  const headers = { "content-length": "2", "content-type": "application/json" };
  const body = " ".repeat(1024 * 1024 + 1);
  const request = new Request("http://edge.test/api/v1/tenants/a/claim", { method: "POST", headers, body });
  assert.is((await handler(request)).status, 413);
});

test("a body of exactly 1 MiB is read, also in pieces", async () => {
  const text = JSON.stringify({ workload: 5, resume: false }).padEnd(1024 * 1024, " ");
  assert.is((await testEdge().call(CLAIM, { body: text })).error, "body.workload: must be a string, got number");
  assert.is((await testEdge().call(CLAIM, { body: `${text} ` })).status, 413);
});

test("a body that breaks off is a 400", async () => {
  const { handler } = testEdge();
  const body = new ReadableStream({
    start(controller) {
      controller.enqueue(new TextEncoder().encode("{"));
      controller.error(new Error("connection reset"));
    },
  });
  const request = new Request("http://edge.test/api/v1/tenants/a/claim", {
    method: "POST",
    body,
    duplex: "half",
  } as RequestInit);
  const response = await handler(request);
  assert.is(response.status, 400);
});

test("a million open brackets are a 400", async () => {
  for (const text of [
    "[".repeat(1_000_000),
    `{"workload":${"[".repeat(500_000)}${"]".repeat(500_000)}}`,
    '{"a":'.repeat(200_000),
  ]) {
    assert.is((await testEdge().call(CLAIM, { body: text })).status, 400);
  }
});

test.run();
