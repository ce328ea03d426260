// @runtimes bun node deno
import { type AddressInfo, createServer } from "node:net";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { systemClock } from "../../../crds/client/clock.ts";
import type { SecretReference } from "../../../crds/schema/schema.ts";
import type { TriggerGuard } from "../../../crds/trigger.ts";
import type { Guard, Verdict } from "../../../edge/gateway/guards.ts";
import { guardFor, runGuards } from "../../../edge/gateway/guards.ts";
import { eventually } from "../../eventually.ts";
import { payload } from "../gateway-drivers/driver-call.ts";
import { httpAnswer, startWireServer, type WireRequest } from "../gateway-drivers/wire-server.ts";
import { manualClock } from "../manual-clock.ts";
import { silentLog } from "../silent-log.ts";

const test = suite("guards");
const deps = {
  clock: systemClock,
  log: silentLog,
  async readSecret({ name, key }: SecretReference) {
    if (name === "missing") throw new Error(`Secret ${name} does not exist`);
    return `value of ${name}/${key}\n`;
  },
};
const signal = new AbortController().signal;
const YES = JSON.stringify({ ok: true });

function ask(guard: unknown, tenantId = payload.tenantId): Promise<Verdict> {
  return guardFor(guard as TriggerGuard, deps)({ ...payload, tenantId }, { signal });
}

async function askServer(
  answer: (request: WireRequest) => void,
  config: Partial<TriggerGuard["config"]> = {},
): Promise<{ verdict: Verdict; requests: WireRequest[] }> {
  const server = await startWireServer(answer);
  try {
    const verdict = await ask({ type: "api", config: { url: `${server.url}/check?a=b`, ...config } });
    return { verdict, requests: server.requests };
  } finally {
    await server.close();
  }
}

test("allowlist: lets the listed tenants pass, in any case, and nobody else", async () => {
  const guard = { type: "allowlist", config: { tenantIds: ["dave", "ÄRZTE", "B"] } };
  for (const tenantId of ["dave", "DAVE", "Dave", "ärzte", "b"]) {
    assert.equal(await ask(guard, tenantId), { allowed: true }, tenantId);
  }
  for (const tenantId of ["", "dav", "dave ", "davee", "*", "a", "__proto__", "constructor"]) {
    assert.equal(await ask(guard, tenantId), { allowed: false, message: "not allowed" }, tenantId);
  }
});

test("allowlist: denies with the configured message, and everybody where it lists nobody", async () => {
  const config = { tenantIds: [], denyMessage: "members\nonly" };
  assert.equal(await ask({ type: "allowlist", config }), { allowed: false, message: "members\nonly" });
});

test("guardFor: an unknown type or a config that does not do denies, with the configured message where there is one", async () => {
  const guards = [
    { type: "allow-all", config: {} },
    { type: "allow-all", config: { tenantIds: ["Dave"], url: "http://127.0.0.1:1" } },
    { type: "__proto__", config: {} },
    { type: "allowlist", config: {} },
    { type: "allowlist", config: { tenantIds: "Dave" } },
    { type: "allowlist", config: { tenantIds: [1, "Dave"] } },
    { type: "allowlist" },
    { type: "api" },
    { type: "api", config: {} },
    { type: "api", config: { url: 7 } },
    { type: "api", config: { url: "nowhere" } },
    { type: "api", config: { url: "file:///etc/passwd" } },
    { type: "api", config: { url: "http://u:p@127.0.0.1:1/" } },
    { type: "api", config: { url: "http://127.0.0.1:1/", headers: { "Transfer-Encoding": "chunked" } } },
    { type: "api", config: { url: "http://127.0.0.1:1/", headers: { "a b": "c" } } },
    { type: "api", config: { url: "http://127.0.0.1:1/", headers: { a: "b\r\nc: d" } } },
  ];
  for (const guard of guards) {
    const name = JSON.stringify(guard);
    assert.equal(await ask(guard), { allowed: false, message: "not allowed" }, name);
    const config = { ...guard.config, denyMessage: "ask Ann" };
    assert.equal(await ask({ ...guard, config }), { allowed: false, message: "ask Ann" }, name);
  }
});

test("api: posts tenant and source with the configured headers, and allows on ok true", async () => {
  const { verdict, requests } = await askServer(({ socket }) => socket.end(httpAnswer(200, YES)), {
    headers: { Authorization: "Bearer s3cret", "Content-Type": "text/plain" },
  });
  assert.equal(verdict, { allowed: true });
  const [{ head, body } = { head: "", body: "" }] = requests;
  assert.match(head, /^POST \/check\?a=b HTTP\/1\.1\r\n/);
  assert.match(head, /^authorization: Bearer s3cret\r?$/im);
  assert.match(head, /^content-type: application\/json\r?$/im);
  assert.not.match(head, /text\/plain/);
  assert.equal(JSON.parse(body), { tenantId: "Dave", source: "webhook" });
});

test("api: allows on any 2xx, in chunks and with more fields", async () => {
  const chunked = 'HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{"ok"\r\n';
  const { verdict } = await askServer(({ socket }) => {
    socket.write(chunked);
    socket.end('10\r\n:true,"more":{}}\r\n0\r\n\r\n');
  });
  assert.equal(verdict, { allowed: true });
});

test("api: sends headers whose values are in Secrets, and asks nothing where one cannot be read", async () => {
  const allow = ({ socket }: WireRequest) => socket.end(httpAnswer(200, YES));
  const token = { name: "guard", key: "token" };
  const headers = { "x-plain": "a" };
  const { verdict, requests } = await askServer(allow, { headers, headerSecretRefs: { authorization: token } });
  assert.equal(verdict, { allowed: true });
  const sent = requests[0]?.head.split("\r\n").filter((line) => /^(x-plain|authorization):/.test(line));
  assert.equal(sent?.sort(), ["authorization: value of guard/token", "x-plain: a"]);
  for (const config of [
    { headerSecretRefs: { authorization: { name: "missing", key: "token" } } },
    { headerSecretRefs: { "X-Plain": token }, headers },
    { headerSecretRefs: { "Transfer-Encoding": token } },
  ]) {
    const denied = await askServer(allow, config);
    assert.equal([denied.verdict.allowed, denied.requests.length], [false, 0], JSON.stringify(config));
  }
});

test("api: a denial's message is the configured one, else the guard's on one bounded line, else a plain one", async () => {
  const deny =
    (message: unknown) =>
    ({ socket }: WireRequest) =>
      socket.end(httpAnswer(200, JSON.stringify({ ok: false, message })));
  const messageOf = async (message: unknown, config = {}) => {
    const { verdict } = await askServer(deny(message), config);
    return verdict.allowed ? "allowed" : verdict.message;
  };
  assert.is(await messageOf("no plan", { denyMessage: "upgrade" }), "upgrade");
  assert.is(await messageOf("no plan"), "no plan");
  assert.is(await messageOf(undefined), "not allowed");
  assert.is(await messageOf(" \u0000\n\u2028 "), "not allowed");
  assert.is(await messageOf("a\r\n b\tc\u0007"), "a b c");
  assert.is(await messageOf("🙂".repeat(9000)), `${"🙂".repeat(500)}…`);
  assert.is(await messageOf({ html: 1 }), "not allowed");
});

const failures: Record<string, (request: WireRequest) => void> = {
  "closed without an answer": ({ socket }) => socket.end(),
  reset: ({ socket }) => socket.destroy(),
  "not HTTP": ({ socket }) => socket.end("hello there\r\n\r\n"),
  "head broken off": ({ socket }) => socket.end("HTTP/1.1 200 OK\r\ncontent-le"),
  "body broken off": ({ socket }) => socket.end(httpAnswer(200, YES, { "content-length": "500" })),
  "chunks broken off": ({ socket }) =>
    socket.end(`HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nb\r\n${YES}\r\n`),
  "a redirect": ({ socket }) => socket.end(httpAnswer(302, YES, { location: "/yes" })),
  "a kept redirect": ({ socket }) => socket.end(httpAnswer(307, YES, { location: "/yes" })),
  "300": ({ socket }) => socket.end(httpAnswer(300, YES)),
  "400": ({ socket }) => socket.end(httpAnswer(400, YES)),
  "401": ({ socket }) => socket.end(httpAnswer(401, YES)),
  "404": ({ socket }) => socket.end(httpAnswer(404, YES)),
  "500": ({ socket }) => socket.end(httpAnswer(500, YES)),
  "101": ({ socket }) => socket.end("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n"),
  "204": ({ socket }) => socket.end("HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n"),
  "an empty body": ({ socket }) => socket.end(httpAnswer(200)),
  HTML: ({ socket }) => socket.end(httpAnswer(200, "<!doctype html>ok: true", { "content-type": "text/html" })),
  "huge and declared": ({ socket }) => socket.end(httpAnswer(200, `{"ok":true,"pad":"${"x".repeat(65536)}"}`)),
  "huge and not declared": ({ socket }) =>
    socket.end(`HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{"ok":true,"pad":"${"x".repeat(65536)}"}`),
  "gzip that nobody asked for": ({ socket }) => {
    const body = gzipSync(YES);
    socket.write(`HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: ${body.length}\r\n\r\n`);
    socket.end(body);
  },
  "an encoding that is only claimed": ({ socket }) => socket.end(httpAnswer(200, YES, { "content-encoding": "br" })),
  "no UTF-8": ({ socket }) =>
    socket.end(Buffer.from(httpAnswer(200, '{"ok":true,"a":"\u00ff"}', { "content-length": "19" }), "latin1")),
  "broken JSON": ({ socket }) => socket.end(httpAnswer(200, '{"ok":true')),
  "two JSON texts": ({ socket }) => socket.end(httpAnswer(200, YES + YES)),
  "an array": ({ socket }) => socket.end(httpAnswer(200, '[{"ok":true}]')),
  "true alone": ({ socket }) => socket.end(httpAnswer(200, "true")),
  null: ({ socket }) => socket.end(httpAnswer(200, "null")),
  "no ok": ({ socket }) => socket.end(httpAnswer(200, '{"OK":true,"allowed":true}')),
  "ok as text": ({ socket }) => socket.end(httpAnswer(200, '{"ok":"true"}')),
  "ok as a number": ({ socket }) => socket.end(httpAnswer(200, '{"ok":1}')),
  "ok null": ({ socket }) => socket.end(httpAnswer(200, '{"ok":null}')),
  "ok from a prototype": ({ socket }) => socket.end(httpAnswer(200, '{"__proto__":{"ok":true}}')),
};
for (const [name, answer] of Object.entries(failures)) {
  test(`api: denies, telling nothing, when the answer is: ${name}`, async () => {
    assert.equal((await askServer(answer)).verdict, { allowed: false, message: "not allowed" });
    const denyMessage = "try later";
    assert.equal((await askServer(answer, { denyMessage })).verdict, { allowed: false, message: denyMessage });
  });
}

test("api: denies where nobody listens", async () => {
  const server = await startWireServer(() => undefined);
  await server.close();
  assert.equal(await ask({ type: "api", config: { url: server.url } }), { allowed: false, message: "not allowed" });
});

test("api: denies when the server speaks no TLS", async () => {
  const server = createServer(
    (socket) => void socket.once("data", () => socket.end("what?")).on("error", () => socket.destroy()),
  );
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  assert.equal(await ask({ type: "api", config: { url } }), { allowed: false, message: "not allowed" });
  await new Promise((resolve) => server.close(resolve));
});

const slow: Record<string, string> = {
  "the head": "",
  "half the head": "HTTP/1.1 200 OK\r\n",
  "the body": "HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n",
  "half the body": 'HTTP/1.1 200 OK\r\ncontent-length: 11\r\n\r\n{"ok":',
  "the last chunk": `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nb\r\n${YES}\r\n`,
};
for (const [name, start] of Object.entries(slow)) {
  test(`api: denies after 2 s in all, and closes the connection, when a server holds back: ${name}`, async () => {
    const clock = manualClock();
    const server = await startWireServer(({ socket }) => void (start !== "" && socket.write(start)));
    const guard = guardFor({ type: "api", config: { url: server.url } }, { ...deps, clock });
    const verdict = guard(payload, { signal });
    await eventually(() => server.requests.length > 0);
    await clock.runWhenNextIs(2000);
    assert.equal(await verdict, { allowed: false, message: "not allowed" });
    await server.drained();
    assert.is(clock.pending(), 0);
    await server.close();
  });
}

test("api: an abort denies at once, closes the connection and leaves no timer", async () => {
  const clock = manualClock();
  const controller = new AbortController();
  const server = await startWireServer(() => controller.abort(new Error("stop")));
  const guard = guardFor({ type: "api", config: { url: server.url } }, { ...deps, clock });
  assert.equal(await guard(payload, controller), { allowed: false, message: "not allowed" });
  await server.drained();
  assert.is(clock.pending(), 0);
  assert.equal(await guard(payload, controller), { allowed: false, message: "not allowed" });
  assert.is(server.connections(), 1);
  await server.close();
});

test("runGuards: asks in order, and the first denial ends it", async () => {
  const asked: string[] = [];
  const guard =
    (name: string, verdict: Verdict): Guard =>
    async () => {
      asked.push(name);
      return verdict;
    };
  const guards = [
    guard("a", { allowed: true }),
    guard("b", { allowed: false, message: "b says no" }),
    guard("c", { allowed: false, message: "c says no" }),
  ];
  assert.equal(await runGuards(guards, payload, { signal }), { allowed: false, message: "b says no" });
  assert.equal(asked, ["a", "b"]);
});

test("runGuards: an aborted signal denies, and asks nobody", async () => {
  const controller = new AbortController();
  let asked = 0;
  const stop: Guard = async () => {
    asked += 1;
    controller.abort();
    return { allowed: true };
  };
  assert.is((await runGuards([stop, stop], payload, controller)).allowed, false);
  assert.is(asked, 1);
});

test("runGuards: no list with one denial in it ever allows", async () => {
  const denials: unknown[] = [
    { type: "allowlist", config: { tenantIds: ["someone-else"] } },
    { type: "allowlist", config: { tenantIds: [] } },
    { type: "allowlist", config: {} },
    { type: "api", config: {} },
    { type: "api", config: { url: "http://127.0.0.1:1/", headers: { connection: "close" } } },
    { type: "other", config: { tenantIds: ["dave"] } },
  ];
  const allows = { type: "allowlist", config: { tenantIds: ["x", "dAVE"] } };
  const guards = fc.tuple(
    fc.array(fc.constantFrom(allows, ...denials), { maxLength: 8 }),
    fc.nat({ max: 8 }),
    fc.constantFrom(...denials),
  );
  await fc.assert(
    fc.asyncProperty(guards, async ([list, at, denial]) => {
      const chain = list.toSpliced(at, 0, denial).map((guard) => guardFor(guard as TriggerGuard, deps));
      assert.is((await runGuards(chain, payload, { signal })).allowed, false);
    }),
  );
  await fc.assert(
    fc.asyncProperty(fc.nat({ max: 8 }), async (count) => {
      const chain = Array.from({ length: count }, () => guardFor(allows as TriggerGuard, deps));
      assert.equal(await runGuards(chain, payload, { signal }), { allowed: true });
    }),
  );
});

test.run();
