// @runtimes bun node deno
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { label } from "../../../../crds/labels.ts";
import type { Actor } from "../../../../edge/access/actor.ts";
import type { OpenApiDocument } from "../../../../edge/api/openapi/document.ts";
import type { ApiTypes } from "../../../../edge/api/openapi/schemas.ts";
import type { AuditRecord } from "../../../../edge/audit/audit-record.ts";
import { parseNetwork } from "../../../../edge/proxy/entry/origin.ts";
import { type TestEdge, testEdge } from "../test-edge.ts";

const test = suite("audit log");

const ROOT = "the-root-key";
const KEY_TEXT = `tk_k3v9q2m7x0a8b1c6_${"S3cr3tOfAKey".repeat(4).slice(0, 43)}`;
const ended = new AbortController().signal;
const tenantActor: Actor = { kind: "key", id: "t", ref: "t-1", role: "tenant", tenants: ["a"], ended };
const keys = {
  actorOf: (text: string) => (text === "tenant" ? tenantActor : undefined),
  actorWithRef: () => tenantActor,
};

function open(options: Parameters<typeof testEdge>[0] = {}): TestEdge {
  const edge = testEdge({ apiKey: ROOT, keys, ...options });
  edge.cluster.addWorkload("app");
  for (const tenant of ["a", "b"])
    edge.cluster.addPod(`inst-${tenant}`, "Running", { labels: { [label.tenant]: tenant, [label.workload]: "app" } });
  return edge;
}

const networks = (text: string) => [parseNetwork(text)].flatMap((network) => network ?? []);

function bearer(key: string): { headers: Record<string, string> } {
  return { headers: { authorization: `Bearer ${key}` } };
}

function records({ audited }: TestEdge): AuditRecord[] {
  return audited.map((line) => JSON.parse(line));
}

function last(edge: TestEdge): AuditRecord {
  const record = records(edge).at(-1);
  assert.ok(record, "a record");
  return record as AuditRecord;
}

/** Every operation of the API, with whether a key is needed. */
async function operations(edge: TestEdge): Promise<{ method: string; path: string; isPublic: boolean }[]> {
  const { json } = await edge.call("GET /api/v1/openapi.json", bearer(ROOT));
  return Object.entries((json as OpenApiDocument).paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { security }]) => ({
      ...{ method: method.toUpperCase(), path, isPublic: security?.length === 0 },
    })),
  );
}

/** The path of an operation about tenant a, with a value for each parameter. */
function pathOf(path: string, value = "app"): string {
  return path
    .replace("/instances/{id}", `/instances/${value === "app" ? "inst-a" : value}`)
    .replace("/tenants/{id}", `/tenants/${value === "app" ? "a" : value}`)
    .replace(/\{\w+\}/g, value);
}

test("every change but a heartbeat, and every read that a reader's key may not make, has a record, and no other", async () => {
  const page = readFileSync(join(import.meta.dirname, "../../../../docs/reference/keys.md"), "utf8");
  const hidden = new Set([...page.matchAll(/^\| `(GET [^`]+)` \| \w+ \| \w+ \| no \|$/gm)].map(([, route]) => route));
  assert.ok(hidden.size > 15);
  for (const { method, path, isPublic } of await operations(open())) {
    // One request may delete what the next is about.
    const edge = open({ requireKey: true });
    const isLook = method === "GET" && !isPublic && hidden.has(`GET ${path.replace("/api/v1", "")}`);
    const isHeartbeat = path.endsWith("/activity");
    const act = method === "GET" ? (isLook ? "look" : undefined) : isHeartbeat ? undefined : "change";
    for (const sent of method === "GET" ? ["GET", "HEAD"] : [method]) {
      edge.audited.length = 0;
      const { status } = await edge.call(`${sent} ${pathOf(path)}`, bearer(ROOT));
      const made = records(edge);
      assert.is(made.length, act === undefined ? 0 : 1, `${sent} ${path}`);
      if (act === undefined) continue;
      const { time, requestId, stage, ms, object, outcome, actor, ...rest } = last(edge);
      const route = path.replace(/\{(path)\}/, ":$1+").replace(/\{(\w+)\}/g, ":$1");
      assert.equal(rest, { audit: true, address: "192.0.2.7", act, method: sent, route, status } as object);
      assert.ok(ms >= 0 && !Number.isNaN(Date.parse(time)) && requestId !== "" && stage !== undefined);
      assert.is(outcome, status < 400 ? "done" : status < 500 ? "refused" : "failed");
      if (!isPublic) assert.equal(actor, { kind: "root", id: "root" });
      if (path.includes("/tenants/{id}")) assert.is(object.tenant, "a", path);
      if (path.includes("/instances/{id}"))
        assert.equal([object.instance, object.tenant, object.workload], ["inst-a", "a", "app"], path);
      if (/\/(snapshots|instances)\/\{workload\}|\/workloads\/\{name\}/.test(path))
        assert.is(object.workload, "app", path);
    }
    await edge.channels.close();
  }
});

test("no line has a body, a query, a header or a key, wherever a client has put it", async () => {
  const edge = open({ requireKey: true, trusted: networks("192.0.2.0/24") });
  const planted = [
    "in-the-body",
    "in-the-query",
    "in-a-header",
    ROOT,
    KEY_TEXT.slice(21),
    "eyJhbGciOiJIUzI1NiJ9.e30.c2ln",
    // As a link of the front door.
    "eyJ3b3JrbG9hZCI6ImFwcCJ9.bWFj",
  ];
  const headers = {
    authorization: `Bearer ${ROOT}`,
    cookie: "tenancy-session=in-a-header",
    "x-forwarded-for": "in-a-header",
    "user-agent": "in-a-header",
    "x-request-id": `${KEY_TEXT}:${ROOT}`,
    "content-type": "application/json",
  };
  let count = 0;
  for (const { method, path } of await operations(edge)) {
    const isRead = method === "GET";
    for (const value of ["app", KEY_TEXT, ROOT, `x${KEY_TEXT}`, ...planted.slice(-2)]) {
      const query = `?any=in-the-query&folder=${KEY_TEXT}&move=${ROOT}`;
      const body = JSON.stringify({
        workload: "in-the-body",
        name: "in-the-body",
        command: ["in-the-body"],
        key: ROOT,
      });
      for (const target of [pathOf(path, value), `${pathOf(path, value)}${query}`])
        await edge.call(`${method} ${target}`, { headers, ...(!isRead && { body }) });
    }
    count += 1;
  }
  for (const method of ["POST", "GET", "QUERY"])
    await edge.call(`${method} /api/v1/in-the-query/${KEY_TEXT}`, { headers });
  assert.ok(count > 60 && edge.audited.length > 300, `${count} ${edge.audited.length}`);
  for (const line of edge.audited) for (const one of planted) assert.not.ok(line.includes(one), `${one}: ${line}`);
  assert.ok(edge.audited.some((line) => line.includes('"key":"tk_k3v9q2m7x0a8b1c6_***"')));
  await edge.channels.close();
});

test("a name with control characters, or a huge one, is one short line of printable characters", async () => {
  const edge = open();
  const odd = "%0a%0d%1b%5b2J%e2%80%a8%c2%85%e2%80%ae%F0%9F%98%80%22%5c%zz".replace("%zz", "");
  for (const name of [odd, odd.repeat(300), "n".repeat(9000), "%ff%fe", "%"]) {
    for (const target of [
      `DELETE /api/v1/workloads/${name}`,
      `POST /api/v1/instances/${name}/files/${name}?move=${name}`,
    ]) {
      edge.audited.length = 0;
      await edge.call(target, bearer(ROOT));
      assert.is(edge.audited.length, 1);
      assert.match(edge.audited[0] ?? "", /^\{"audit":true,[ -~]*\}$/);
      assert.ok((edge.audited[0] ?? "").length < 4096);
    }
  }
  edge.audited.length = 0;
  await edge.call(`DELETE /api/v1/workloads/${odd}`, bearer(ROOT));
  assert.is(last(edge).object.workload, decodeURIComponent(odd));
  await edge.channels.close();
});

test("a refused request names who was refused", async () => {
  const edge = open();
  const key = { kind: "key", id: "t" };
  for (const [target, sent, status, actor] of [
    ["DELETE /api/v1/workloads/app", "tenant", 403, key],
    ["POST /api/v1/tenants/b/claim", "tenant", 404, key],
    ["GET /api/v1/instances/inst-b/files", "tenant", 404, key],
    ["GET /api/v1/instances/inst-b/files", "wrong", 401, { kind: "unknown" }],
    ["POST /api/v1/tenants", "tenant", 405, key],
    ["POST /api/v1/none", ROOT, 404, { kind: "root", id: "root" }],
    ["DELETE /api/v1/none", "wrong", 401, { kind: "unknown" }],
  ] as const) {
    edge.audited.length = 0;
    await edge.call(target, bearer(sent));
    const record = last(edge);
    assert.equal([record.status, record.actor, record.outcome], [status, actor, "refused"], target);
  }
  edge.audited.length = 0;
  for (const target of ["GET /api/v1/none", "OPTIONS /api/v1/tenants/a/claim", "GET /api/v1/tenants"])
    await edge.call(target, bearer("tenant"));
  assert.equal(edge.audited, []);

  const anonymous = testEdge();
  await anonymous.call("DELETE /api/v1/workloads/app");
  assert.equal(last(anonymous).actor, { kind: "anonymous" });
});

test("login and logout name the key, and a session is its key", async () => {
  const edge = open();
  const login = await edge.call("POST /api/v1/session", { body: { key: "tenant" } });
  assert.is(login.status, 200, login.text);
  assert.equal([last(edge).route, last(edge).actor], ["/api/v1/session", { kind: "key", id: "t" }]);
  const cookie = login.headers.get("set-cookie")?.split(";")[0] ?? "";
  const headers = { cookie, "sec-fetch-site": "same-origin" };
  await edge.call("POST /api/v1/tenants/a/release", { headers, body: { workload: "app" } });
  const { actor, object } = last(edge);
  assert.equal(
    [actor, object],
    [
      { kind: "key", id: "t" },
      { tenant: "a", workload: "app" },
    ],
  );
  assert.is((await edge.call("DELETE /api/v1/session", { headers })).status, 200);
  assert.equal([last(edge).method, last(edge).actor], ["DELETE", { kind: "key", id: "t" }]);
  await edge.call("DELETE /api/v1/session");
  assert.equal(last(edge).actor, { kind: "unknown" });
});

test("what only the body names is in the record", async () => {
  const edge = open({ hasKeys: true });
  const object = async (target: string, body: object) => {
    await edge.call(target, { ...bearer(ROOT), body });
    return last(edge).object;
  };
  for (const act of ["claim", "extend", "release", "discard", "checkpoint", "links"])
    assert.equal(
      await object(`POST /api/v1/tenants/a/${act}`, { workload: "no", ...(act === "extend" && { seconds: 1 }) }),
      { tenant: "a", workload: "no" },
      act,
    );
  assert.equal(
    await object("POST /api/v1/tenants/a/snapshots/app/copy", { tenantId: "b", workload: "c", version: "v1" }),
    { tenant: "a", workload: "app", version: "v1", toTenant: "b", toWorkload: "c" },
  );
  assert.equal(await object("POST /api/v1/pools", { name: "p", spec: { workloadRef: "app", size: 1 } }), { pool: "p" });
});

test("the address is that of the connection, or what a trusted proxy says", async () => {
  const edge = open({ trusted: networks("10.0.0.0/8") });
  const address = async (peer: string, forwarded: string) => {
    const headers = { authorization: `Bearer ${ROOT}`, "x-forwarded-for": forwarded };
    await edge.call("DELETE /api/v1/workloads/none", { headers, peer });
    return last(edge).address;
  };
  assert.is(await address("192.0.2.9", "198.51.100.1"), "192.0.2.9");
  assert.is(await address("10.1.1.1", "203.0.113.5, 198.51.100.1"), "198.51.100.1");
  assert.is(await address("::ffff:10.1.1.1", "198.51.100.1, 10.2.2.2"), "198.51.100.1");
});

test("strangers cannot flood it: what is left out is counted, and a valid key is always recorded", async () => {
  const edge = open();
  for (let at = 0; at < 200; at += 1) await edge.call("DELETE /api/v1/workloads/app", bearer("wrong"));
  await edge.call("DELETE /api/v1/workloads/none", bearer(ROOT));
  assert.equal(last(edge).actor, { kind: "root", id: "root" });
  const { json } = await edge.call("GET /api/v1/audit?actor=unknown", bearer(ROOT));
  const { omitted, records: kept } = json as ApiTypes["AuditLog"];
  assert.equal([omitted, kept.length], [140, 60]);
  await edge.clock.pass(60_000);
  const note = JSON.parse(edge.audited.at(-1) ?? "");
  assert.equal([note.audit, note.omitted, note.why], [true, omitted, "unauthenticated"]);
  await edge.call("DELETE /api/v1/workloads/app", bearer("wrong"));
  assert.equal(last(edge).actor, { kind: "unknown" });
});

test("GET /audit: newest first, by filters, in pages of one replica", async () => {
  const edge = open();
  for (const [target, key] of [
    ["POST /api/v1/tenants/a/release", "tenant"],
    ["POST /api/v1/tenants/b/release", ROOT],
    ["GET /api/v1/tenants/a/snapshots/app/files", "tenant"],
    ["DELETE /api/v1/workloads/none", ROOT],
  ] as const)
    await edge.call(target, bearer(key));
  const ask = async (query: string) => {
    const { json, headers, status, error } = await edge.call(`GET /api/v1/audit${query}`, bearer(ROOT));
    const log = json as ApiTypes["AuditLog"];
    const shown = status === 200 ? log.records.map(({ method, route }) => `${method} ${route.slice(8)}`) : [];
    return { shown, next: headers.get("x-tenancy-next") ?? undefined, status, error, log };
  };
  const files = "GET tenants/:id/snapshots/:workload/files";
  const release = "POST tenants/:id/release";
  assert.equal((await ask("")).shown, ["DELETE workloads/:name", files, release, release]);
  assert.equal((await ask("?actor=t")).shown, [files, release]);
  assert.equal((await ask("?tenant=a")).shown, [files, release]);
  assert.equal((await ask("?tenant=a&act=look")).shown, [files]);
  assert.equal((await ask("?method=DELETE")).shown, ["DELETE workloads/:name"]);
  assert.equal((await ask("?actor=root&method=DELETE,POST")).shown, ["DELETE workloads/:name", release]);
  assert.equal((await ask("?since=9999-01-01T00:00:00Z")).shown, []);
  // The requests before are records themselves.
  const first = await ask("?actor=t&limit=1");
  assert.equal(first.shown, [files]);
  const second = await ask(`?actor=t&limit=1&after=${first.next}`);
  assert.equal([second.shown, second.next], [[release], undefined]);
  for (const wrong of ["?since=2026-06-31T00:00:00Z", "?since=2026-11-26", "?after=5", "?actor=", "?act=see"])
    assert.is((await ask(wrong)).status, 400, wrong);
  const other = await ask("?after=other.5");
  assert.is(other.status, 409);
  assert.match(other.error ?? "", "is of replica other, and test has answered");
  assert.is((await edge.call("GET /api/v1/audit", bearer("tenant"))).status, 403);
});

test("a person or account who is named as a key, or as a kind, is found by its own kind only", async () => {
  const named = (kind: Actor["kind"], id: string): Actor => ({ ...tenantActor, kind, id, ref: `${kind} ${id}` });
  const callers = new Map([
    ["eyJ-root", named("person", "root")],
    ["eyJ-key", named("person", "t")],
    ["eyJ-unknown", named("person", "unknown")],
    ["eyJ-prefix", named("person", "person:root")],
    ["eyJ-account", named("serviceAccount", "root")],
  ]);
  const none = { holds: () => undefined, login: undefined, close: () => undefined };
  const edge = open({ tokens: { actorOf: (text) => callers.get(text), ...none } });
  for (const key of [...callers.keys(), ROOT, "tenant", "wrong"])
    await edge.call("DELETE /api/v1/workloads/none", bearer(key));
  for (const [actor, expected] of [
    ["root", { kind: "root", id: "root" }],
    ["t", { kind: "key", id: "t" }],
    ["unknown", { kind: "unknown" }],
    ["person:root", { kind: "person", id: "root" }],
    ["person:t", { kind: "person", id: "t" }],
    ["person:unknown", { kind: "person", id: "unknown" }],
    ["person:person:root", { kind: "person", id: "person:root" }],
    ["serviceAccount:root", { kind: "serviceAccount", id: "root" }],
  ] as const) {
    const { json } = await edge.call(`GET /api/v1/audit?actor=${actor}&method=DELETE`, bearer(ROOT));
    assert.equal(
      (json as ApiTypes["AuditLog"]).records.map((record) => record.actor),
      [expected],
      actor,
    );
  }
});

test.run();
