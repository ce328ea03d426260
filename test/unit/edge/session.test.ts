// @runtimes bun node deno

import { suite } from "uvu";
import * as assert from "uvu/assert";
import { type Actor, root } from "../../../edge/access/actor.ts";
import type { EventSocket, SocketListener } from "../../../edge/http/event-socket.ts";
import { switchingProtocols } from "../../../edge/http/event-socket.ts";
import { createSessions } from "../../../edge/http/session.ts";
import { turns } from "../manual-clock.ts";
import { type TestEdge, testEdge } from "./test-edge.ts";

const test = suite("browsers' sessions");
const KEY = "s3cret-Key/+=0123456789";
const PATH = "/api/v1/session";
const HOST = "edge.test:8080";
const own = { "sec-fetch-site": "same-origin", host: HOST };
const LIFETIME_MS = 12 * 3_600_000;

async function login(edge: TestEdge, headers: Record<string, string> = own): Promise<string> {
  const answer = await edge.call(`POST ${PATH}`, { body: { key: KEY }, headers });
  assert.is(answer.status, 200, answer.text);
  const [header = ""] = answer.headers.getSetCookie();
  return header.split(";")[0] ?? "";
}

test("the key is given once, for a cookie that no script reads and that stands for it", async () => {
  const edge = testEdge({ apiKey: KEY });
  assert.equal((await edge.call(`GET ${PATH}`)).json, { asksForKey: true, active: false });
  const answer = await edge.call(`POST ${PATH}`, { body: { key: KEY }, headers: own });
  const expiresAt = new Date(edge.clock.now() + LIFETIME_MS).toISOString();
  const session = { asksForKey: true, active: true, expiresAt, role: "admin" };
  assert.equal(answer.json, session);
  assert.is(answer.headers.get("cache-control"), "no-store");
  const [header = "", ...others] = answer.headers.getSetCookie();
  assert.equal(others, []);
  assert.match(
    header,
    /^tenancy-session=v1\.[0-9a-z]{8}\.[\w-]{22}\.[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; SameSite=Strict$/,
  );
  const cookie = header.split(";")[0] ?? "";
  const headers = { ...own, cookie };
  assert.equal((await edge.call(`GET ${PATH}`, { headers })).json, session);
  assert.is((await edge.call("GET /api/v1/tenants", { headers })).status, 200);
  assert.is((await edge.call("DELETE /api/v1/workloads/x", { headers })).status, 404);
  assert.is((await edge.call("GET /api/v1/tenants")).status, 401);
});

test("a session says what its key may do, and nothing of other keys", async () => {
  const ended = new AbortController().signal;
  const actors = (
    [
      ["tenant", ["alice", "team-*"]],
      ["reader", ["bob"]],
      ["reader", undefined],
      ["platform", undefined],
    ] as const
  ).map(([role, tenants], at): Actor => ({ kind: "key", id: `k${at}`, ref: `k${at}`, role, tenants, ended }));
  const keys = {
    actorOf: (text: string) => actors.find(({ id }) => id === text),
    actorWithRef: (ref: string) => actors.find((actor) => actor.ref === ref),
  };
  const edge = testEdge({ apiKey: KEY, keys });
  for (const { id, role, tenants } of actors) {
    const answer = await edge.call(`POST ${PATH}`, { body: { key: id }, headers: own });
    const cookie = answer.headers.getSetCookie()[0]?.split(";")[0] ?? "";
    for (const { json } of [answer, await edge.call(`GET ${PATH}`, { headers: { ...own, cookie } })]) {
      const { expiresAt: _, ...shown } = json as { expiresAt: string };
      assert.equal(shown, { asksForKey: true, active: true, role, ...(tenants && { tenants }) });
    }
  }
});

test("the cookie is Secure where the browser is on TLS", async () => {
  const edge = testEdge({ apiKey: KEY });
  for (const more of [
    { "x-forwarded-proto": "https" },
    { "x-forwarded-proto": "HTTPS, http" },
    { origin: "https://edge.test" },
  ]) {
    const answer = await edge.call(`POST ${PATH}`, { body: { key: KEY }, headers: { ...own, ...more } });
    assert.match(answer.headers.getSetCookie()[0] ?? "", /; Secure$/);
  }
});

test("where no key is asked for there is no login, and nobody needs one", async () => {
  const edge = testEdge();
  const given = { asksForKey: false, active: true };
  assert.equal((await edge.call(`GET ${PATH}`)).json, given);
  assert.equal((await edge.call(`DELETE ${PATH}`)).json, given);
  assert.is((await edge.call(`POST ${PATH}`, { body: { key: KEY } })).status, 404);
  const local = testEdge({ localOnly: true });
  for (const target of [`GET ${PATH}`, `POST ${PATH}`, `DELETE ${PATH}`])
    assert.is((await local.call(target, { headers: { host: "rebound.example" } })).status, 403, target);
});

test("a forged, altered, expired or strange cookie is none", async () => {
  const edge = testEdge({ apiKey: KEY });
  const cookie = await login(edge);
  const active = async (value: string) => {
    const headers = { ...own, cookie: value };
    const { active: isActive } = (await edge.call(`GET ${PATH}`, { headers })).json as { active: boolean };
    assert.is((await edge.call("GET /api/v1/tenants", { headers })).status, isActive ? 200 : 401, value);
    return isActive;
  };
  assert.ok(await active(cookie));
  const [name, token = ""] = cookie.split("=");
  const [version, expires = "", nonce = "", mac = ""] = token.split(".");
  const flipped = (text: string) => (text.startsWith("A") ? "B" : "A") + text.slice(1);
  const later = (Number.parseInt(expires, 36) + 1).toString(36);
  for (const wrong of [
    "",
    [version, expires, nonce, flipped(mac)].join("."),
    [version, expires, flipped(nonce), mac].join("."),
    [version, later, nonce, mac].join("."),
    ["v2", expires, nonce, mac].join("."),
    [version, expires, nonce].join("."),
    [version, expires, nonce, ""].join("."),
    [version, expires, nonce, mac.slice(1)].join("."),
    `${token}x`,
    `"${token}"`,
    KEY,
  ]) {
    assert.not.ok(await active(`${name}=${wrong}`), wrong);
  }
  assert.not.ok(await active(`x${cookie}`));
  assert.not.ok(await active(`tenancy-sessionx=${token}`));
  // Of another key; of another replica with the same one.
  for (const [apiKey, isValid] of [
    [`${KEY}x`, false],
    [KEY, true],
  ] as const) {
    const { cookie: other } = await createSessions({ apiKey, origins: new Set(), clock: edge.clock }).issue(
      new Request("http://edge.test/"),
      root,
    );
    assert.is(await active(other.split(";")[0] ?? ""), isValid);
  }
  edge.clock.set(edge.clock.now() + LIFETIME_MS - 1);
  assert.ok(await active(cookie));
  edge.clock.set(edge.clock.now() + 1);
  assert.not.ok(await active(cookie));
});

test("of several cookies of the name, as other ports set them, one that is valid is enough", async () => {
  const edge = testEdge({ apiKey: KEY });
  const cookie = await login(edge);
  const other = (await createSessions({ apiKey: "other", origins: new Set() }).issue(new Request("http://e/"), root))
    .cookie;
  for (const value of [`tenancy-session=x; ${cookie}`, `${other.split(";")[0]}; a=b;${cookie}; c=d`]) {
    assert.is((await edge.call("GET /api/v1/tenants", { headers: { ...own, cookie: value } })).status, 200);
  }
});

/** What a browser says of the page that sends a request, and whether that page may use a session. */
const pages: [headers: Record<string, string>, read: boolean, write: boolean, socket: boolean][] = [
  [{ "sec-fetch-site": "same-origin" }, true, true, true],
  // Chromium sends a cookie of SameSite=Strict from another port of the same host too.
  [{ "sec-fetch-site": "same-site" }, false, false, false],
  [{ "sec-fetch-site": "same-site", origin: `http://${HOST}` }, false, false, false],
  [{ "sec-fetch-site": "same-site", origin: "https://app.example.com" }, false, false, false],
  [{ "sec-fetch-site": "cross-site" }, false, false, false],
  [{ "sec-fetch-site": "" }, false, false, false],
  // An address that was typed.
  [{ "sec-fetch-site": "none" }, true, false, false],
  // WebSockets, and plain HTTP beyond this machine.
  [{}, true, false, false],
  [{ origin: `http://${HOST}` }, true, true, true],
  [{ origin: "https://app.example.com" }, true, true, true],
  [{ origin: "http://edge.test:8081" }, false, false, false],
  [{ origin: "http://edge.test" }, false, false, false],
  [{ origin: `http://${HOST}.evil.example` }, false, false, false],
  [{ origin: `http://evil.example/${HOST}` }, false, false, false],
  [{ origin: "https://evil.example" }, false, false, false],
  [{ origin: "null" }, false, false, false],
  [{ origin: "" }, false, false, false],
  [{ origin: "*" }, false, false, false],
  // The page of the same name without TLS, which anybody on the way can write.
  [{ origin: `http://${HOST}`, "x-forwarded-proto": "https" }, false, false, false],
  [{ origin: `https://${HOST}`, "x-forwarded-proto": "https" }, true, true, true],
];

for (const origins of [["https://app.example.com"], ["https://app.example.com", "*"]]) {
  test(`a session counts for the edge's own pages alone (TENANCY_CORS_ORIGIN ${origins.join()})`, async () => {
    const edge = testEdge({ apiKey: KEY, origins, requireKey: true });
    const cookie = await login(edge);
    for (const [more, read, write, socket] of pages) {
      const headers = { host: HOST, cookie, ...more };
      const words = JSON.stringify(more);
      for (const target of ["GET /api/v1/tenants", "HEAD /api/v1/tenants", `GET ${PATH}`])
        assert.is((await edge.call(target, { headers })).status, read ? 200 : 403, `${target} ${words}`);
      for (const target of ["DELETE /api/v1/workloads/x", "PUT /nothing", "POST /api/v1/tenants/a/release"]) {
        const before = edge.cluster.calls.length;
        const { status } = await edge.call(target, { headers });
        if (write) assert.not([401, 403].includes(status), `${target} ${words} ${status}`);
        else assert.is(status, 403, `${target} ${words}`);
        if (!write) assert.is(edge.cluster.calls.length, before);
      }
      assert.is((await handshake(edge, headers)).status, socket ? 101 : 403, `/ws ${words}`);
    }
  });
}

test("without the key, a page whose name was made to point here reads no events", async () => {
  const edge = testEdge({ apiKey: KEY, origins: ["https://app.example.com"] });
  const cookie = await login(edge);
  const rebound = { host: "evil.example:8080", origin: "http://evil.example:8080" };
  assert.is((await handshake(edge, rebound)).status, 403);
  assert.is((await handshake(edge, { ...rebound, "sec-fetch-site": "same-origin" })).status, 403);
  assert.is((await handshake(edge, { ...rebound, authorization: "Bearer wrong" })).status, 403);
  assert.is((await handshake(edge, { ...rebound, authorization: `Bearer ${KEY}` })).status, 101);
  assert.is((await handshake(edge, { ...own, cookie })).status, 101);
  for (const host of ["127.0.0.1:8080", "[::1]:8080", "localhost:8080", "10.1.2.3:8080"])
    assert.is((await handshake(edge, { host, origin: `http://${host}` })).status, 101, host);
  assert.is((await handshake(edge, { host: HOST, origin: "https://app.example.com" })).status, 101);
  assert.is((await handshake(edge, { host: "edge.example" })).status, 101, "programs send no Origin");
});

test("sockets without a key leave half of the places to those with the key or a session", async () => {
  const edge = testEdge({ apiKey: KEY });
  const cookie = await login(edge);
  const socket = { send: () => undefined, waitingBytes: 0, cut: () => undefined, close: () => undefined };
  const strangers = Array.from({ length: 2048 }, () => {
    const filter = { tenant: undefined, workload: undefined, types: undefined };
    const listener = edge.events.client({ filter, since: undefined, isStranger: true });
    listener.onOpen(socket);
    return listener;
  });
  for (const headers of [{}, { authorization: "Bearer wrong" }, { cookie, origin: "http://evil.example" }])
    assert.is((await handshake(edge, headers)).status, "origin" in headers ? 403 : 503);
  assert.is((await handshake(edge, { authorization: `Bearer ${KEY}` })).status, 101);
  assert.is((await handshake(edge, { ...own, cookie })).status, 101);
  strangers[0]?.onClose();
  assert.is((await handshake(edge, {})).status, 101);
});

test("what /ws tells of workloads, pools and triggers asks for the key, or a session, whatever else it tells freely", async () => {
  const edge = testEdge({ apiKey: KEY });
  const cookie = await login(edge);
  const authorization = `Bearer ${KEY}`;
  for (const query of ["", "?type=claim,instance.deleted"]) assert.is((await handshake(edge, {}, query)).status, 101);
  for (const query of ["?type=workload", "?type=claim,pool.added", "?type=trigger"]) {
    assert.is((await handshake(edge, {}, query)).status, 401);
    assert.is((await handshake(edge, { authorization: "Bearer wrong" }, query)).status, 401);
    assert.is((await handshake(edge, { cookie, origin: "http://evil.example" }, query)).status, 403);
    assert.is((await handshake(edge, { authorization }, query)).status, 101);
    assert.is((await handshake(edge, { ...own, cookie }, query)).status, 101);
  }
  assert.is((await handshake(testEdge(), {}, "?type=workload")).status, 101);
});

test("beside a key, right or wrong, a session does not count", async () => {
  const edge = testEdge({ apiKey: KEY, requireKey: true });
  const cookie = await login(edge);
  const wrong = { ...own, cookie, authorization: "Bearer wrong" };
  assert.is((await edge.call("GET /api/v1/tenants", { headers: wrong })).status, 401);
  assert.is((await handshake(edge, wrong)).status, 401);
  const protocols = `tenancy.events, tenancy.bearer.${Buffer.from("wrong").toString("base64url")}`;
  assert.is((await handshake(edge, { ...own, cookie, "sec-websocket-protocol": protocols })).status, 401);
  // A program that has both may come from anywhere, as without the cookie.
  const right = { cookie, authorization: `Bearer ${KEY}`, "sec-fetch-site": "cross-site" };
  assert.is((await edge.call("DELETE /api/v1/workloads/x", { headers: right })).status, 404);
});

test("the password of a proxy in front, which the browser sends with everything, does not stand in a session's way", async () => {
  const edge = testEdge({ apiKey: KEY, requireKey: true });
  const authorization = `Basic ${Buffer.from("user:password").toString("base64")}`;
  const headers = { ...own, authorization, cookie: await login(edge, { ...own, authorization }) };
  assert.is((await edge.call("GET /api/v1/tenants", { headers })).status, 200);
  assert.is((await edge.call("DELETE /api/v1/workloads/x", { headers })).status, 404);
  // Nor does it keep a socket open beyond the session's end, or make up for what a session needs.
  const { listener } = await handshake(edge, headers);
  const closes: number[] = [];
  listener?.onOpen({ close: (code: number) => void closes.push(code) } as unknown as EventSocket);
  await edge.clock.pass(LIFETIME_MS);
  assert.equal(closes, [4401]);
  assert.is((await edge.call("GET /api/v1/tenants", { headers })).status, 401);
  assert.is((await handshake(edge, headers)).status, 401);
  const cookie = await login(edge);
  const foreign = { ...own, authorization, cookie, "sec-fetch-site": "same-site" };
  assert.is((await edge.call("DELETE /api/v1/workloads/x", { headers: foreign })).status, 403);
  for (const value of [undefined, "a=b"]) {
    const none = { ...own, authorization, ...(value !== undefined && { cookie: value }) };
    assert.is((await edge.call("GET /api/v1/tenants", { headers: none })).status, 401);
    assert.is((await handshake(edge, none)).status, 401);
  }
  const asKey = `Basic ${Buffer.from(KEY).toString("base64")}`;
  assert.is((await edge.call("GET /api/v1/tenants", { headers: { authorization: asKey, cookie: "a=b" } })).status, 401);
});

test("a socket is closed when the session ends that opened it, and not before", async () => {
  const edge = testEdge({ apiKey: KEY, requireKey: true });
  const cookie = await login(edge);
  const { listener } = await handshake(edge, { ...own, cookie });
  const closes: [number, string][] = [];
  listener?.onOpen({
    send: () => undefined,
    waitingBytes: 0,
    cut: () => undefined,
    close: (...why) => closes.push(why),
  });
  await edge.clock.pass(LIFETIME_MS - 1);
  assert.equal(closes, []);
  await edge.clock.pass(1);
  assert.equal(closes, [[4401, "the session has ended"]]);
  listener?.onClose();
  // One that goes by itself leaves no timer.
  const again = await handshake(edge, { ...own, cookie: await login(edge) });
  const before = edge.clock.pending();
  again.listener?.onOpen({ close: () => undefined } as unknown as EventSocket);
  assert.is(edge.clock.pending(), before + 1);
  again.listener?.onClose();
  assert.is(edge.clock.pending(), before);
});

test("a wrong key waits a second, eight at a time; however many are tried, the right one is answered at once", async () => {
  const edge = testEdge({ apiKey: KEY });
  const cookie = await login(edge);
  const guess = (key: string, signal?: AbortSignal) =>
    edge.call(`POST ${PATH}`, { body: { key }, headers: own, ...(signal && { signal }) });
  const gone = new AbortController();
  const guesses = Array.from({ length: 20 }, (_, index) =>
    guess(`wrong-${index}`, index < 8 ? gone.signal : undefined),
  );
  const early: number[] = [];
  for (const one of guesses) void one.then(({ status }) => early.push(status));
  await turns();
  assert.equal(early, Array(12).fill(401));
  // Who leaves keeps the place of the key that was tried.
  gone.abort();
  await turns();
  assert.is((await guess("wrong")).status, 401);
  const waits = edge.clock.pending();
  assert.is((await guess(KEY)).status, 200);
  assert.is((await guess(`${KEY}x`)).status, 401);
  for (const headers of [{ ...own, cookie }, { authorization: `Bearer ${KEY}` }])
    assert.is((await edge.call("GET /api/v1/tenants", { headers })).status, 200);
  assert.is(edge.clock.pending(), waits);
  await edge.clock.pass(999);
  assert.is(early.length, 12);
  await edge.clock.pass(1);
  const statuses = (await Promise.all(guesses)).map(({ status }) => status);
  assert.equal(statuses, Array(20).fill(401));
  // The places are free again.
  const late = guess("wrong");
  await turns();
  assert.is(edge.clock.pending(), waits - 7);
  await edge.clock.pass(1000);
  assert.is((await late).status, 401);
});

test("keys whose bodies arrive at the same moment are counted one by one", async () => {
  const edge = testEdge({ apiKey: KEY });
  const ends: (() => void)[] = [];
  const calls = Array.from({ length: 12 }, (_, index) => {
    const body = new ReadableStream({
      start(controller) {
        ends.push(() => {
          controller.enqueue(new TextEncoder().encode(JSON.stringify({ key: `wrong-${index}` })));
          controller.close();
        });
      },
    });
    const init = { method: "POST", body, headers: { ...own, "content-type": "application/json" }, duplex: "half" };
    return edge.handler(new Request(`http://edge.test${PATH}`, init as RequestInit));
  });
  await turns();
  for (const end of ends) end();
  await turns();
  assert.is(edge.clock.pending(), 8);
  await edge.clock.pass(1000);
  assert.equal(
    (await Promise.all(calls)).map(({ status }) => status),
    Array(12).fill(401),
  );
});

test("a login from another page, or that is none, is refused before its key is looked at", async () => {
  const edge = testEdge({ apiKey: KEY, origins: ["*"] });
  const statusOf = async (body: unknown, headers: Record<string, string>) =>
    (await edge.call(`POST ${PATH}`, { body, headers })).status;
  for (const more of [{ "sec-fetch-site": "same-site" }, { "sec-fetch-site": "cross-site" }, { origin: "null" }])
    assert.is(await statusOf({ key: KEY }, { host: HOST, ...more }), 403);
  assert.is((await edge.call(`DELETE ${PATH}`, { headers: { "sec-fetch-site": "same-site" } })).status, 403);
  assert.is(await statusOf({ key: KEY }, { ...own, "content-type": "text/plain" }), 400);
  for (const body of [{}, { key: 1 }, { key: null }, { key: [KEY] }, { key: KEY, more: 1 }, [KEY], `"${KEY}"`])
    assert.is(await statusOf(body, own), 400, JSON.stringify(body));
  assert.is(await statusOf({ key: "x".repeat(9000) }, own), 413);
  // A program may log in too.
  assert.is(await statusOf({ key: KEY }, {}), 200);
});

test("a logout makes the browser forget; a copy of the cookie is valid until its end", async () => {
  const edge = testEdge({ apiKey: KEY });
  const cookie = await login(edge);
  const headers = { ...own, cookie };
  const answer = await edge.call(`DELETE ${PATH}`, { headers });
  assert.equal(answer.json, { asksForKey: true, active: false });
  assert.equal(answer.headers.getSetCookie(), ["tenancy-session=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict"]);
  assert.is((await edge.call("GET /api/v1/tenants", { headers })).status, 200);
});

test("neither a log line nor an answer shows a key that was given", async () => {
  const edge = testEdge({ apiKey: KEY });
  const answers = [
    edge.call(`POST ${PATH}`, { body: { key: KEY }, headers: own }),
    edge.call(`POST ${PATH}`, { body: { key: `${KEY}-wrong` }, headers: own }),
    edge.call(`POST ${PATH}`, { body: `{"key":"${KEY}`, headers: own }),
    edge.call(`POST ${PATH}`, { body: { key: { value: KEY } }, headers: own }),
    edge.call(`POST ${PATH}`, { body: { key: KEY }, headers: { ...own, "sec-fetch-site": "cross-site" } }),
  ];
  await edge.clock.pass(1000);
  const seen = (await Promise.all(answers)).map(({ text, headers }) => [text, ...headers]);
  assert.not.ok(JSON.stringify([seen, edge.log, edge.answers]).includes(KEY));
});

test("no answer of the edge is guessed to be of another type, or kept", async () => {
  const edge = testEdge({ apiKey: KEY });
  const headers = { ...own, cookie: await login(edge) };
  for (const target of ["GET /api/v1/health", "GET /api/v1/tenants", "GET /docs", "GET /nothing", "POST /ws"]) {
    const answer = await edge.call(target, { headers });
    assert.is(answer.headers.get("x-content-type-options"), "nosniff", target);
    assert.is(answer.headers.get("cache-control"), "no-store", target);
    assert.is(answer.headers.get("access-control-allow-credentials"), null);
  }
});

async function handshake(edge: TestEdge, headers: Record<string, string>, query = "") {
  let listener: SocketListener | undefined;
  const upgrade = (wanted: SocketListener): Response => {
    listener = wanted;
    return switchingProtocols();
  };
  const request = new Request(`http://edge.test/ws${query}`, {
    headers: {
      ...headers,
      upgrade: "websocket",
      "sec-websocket-version": "13",
      "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    },
  });
  const { status } = await edge.handler(request, { upgrade });
  return { status, listener };
}

test.run();
