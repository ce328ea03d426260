// @runtimes bun node deno
import { createHmac, createSecretKey } from "node:crypto";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { hostLabel } from "../../../crds/host-name.ts";
import { eventually } from "../../eventually.ts";
import { manualClock } from "../manual-clock.ts";
import { answerWith } from "./fake-pod.ts";
import { comparable, get, KEY, startDoor, type TestDoor } from "./front-door.ts";
import { closeAll } from "./start-proxy.ts";

const test = suite("who gets in at the front door");
test.after.each(closeAll);

const bearer = `Authorization: Bearer ${KEY}`;
const inAnHour = () => Math.floor(Date.now() / 1000) + 3600;

function linkTo(door: TestDoor, workload: string, tenantId: string, more: { port?: number; expiresAt?: number } = {}) {
  return door.tokens.sign("link", { workload, tenantId, expiresAt: inAnHour(), ...more }) ?? "";
}

function cookieTo(door: TestDoor, workload: string, tenantId: string) {
  return `tenancy-link=${door.tokens.sign("cookie", { workload, tenantId, expiresAt: inAnHour() })}`;
}

test("what is not there and what is closed are one answer, and neither costs a call", async () => {
  const door = await startDoor();
  door.addWorkload("closed", "none");
  door.addWorkload("keyed", "key", { network: { ports: [8080, 9000] } });
  door.addWorkload("linked", "link");
  await door.addInstance("alice", "closed");
  await door.addInstance("alice", "keyed");
  await door.addInstance("alice", "linked");
  await door.addInstance("Al_ice", "keyed");
  const derived = "at-keyed-al-ice--000000000000000000000000";
  const old = door.tokens.sign("link", { workload: "linked", tenantId: "alice", expiresAt: 1 });
  const other = linkTo(door, "linked", "bob");
  const asked = [
    get("nothing--alice.apps.test"),
    get("keyed--nobody.apps.test"),
    get("keyed--alice.apps.test"),
    get("keyed--alice.apps.test", "/", "Authorization: Bearer wrong"),
    get("keyed--alice.apps.test", "/", "X-Tenancy-Key: wrong"),
    get("keyed-9001--alice.apps.test", "/", bearer),
    get("keyed-9000--alice.apps.test"),
    get("closed--alice.apps.test"),
    get("closed--alice.apps.test", "/", bearer),
    get(`${derived}.apps.test`),
    get(`${derived}.apps.test`, "/", bearer),
    get("linked--alice.apps.test"),
    get("linked--alice.apps.test", `/?tenancy-token=${old}`),
    get("linked--alice.apps.test", `/?tenancy-token=${other}`),
    get("linked--alice.apps.test", "/?tenancy-token=x"),
    get("linked--alice.apps.test", "/", `Cookie: ${cookieTo(door, "linked", "bob")}`),
    get("linked--alice.apps.test", "/", `Cookie: tenancy-link=${linkTo(door, "linked", "alice")}`),
    get("linked--alice.apps.test", `/?tenancy-token=${cookieTo(door, "linked", "alice").slice(13)}`),
    get("keyed--alice.apps.test", `/?tenancy-token=${linkTo(door, "keyed", "alice")}`),
    get("apps.test"),
    get("other.test"),
    get("a.b.apps.test"),
    get("evil-apps.test"),
    get("apps.test", "/t/alice/closed/", bearer),
    get("apps.test", "/t/alice/keyed/"),
    get("apps.test", "/t/alice/keyed:9001/", bearer),
    get("apps.test", "/t/alice%2fbob/keyed/", bearer),
    get("apps.test", "/t/%2561lice/keyed/", bearer),
    get("apps.test", "/t/alice/linked/", `Cookie: ${cookieTo(door, "linked", "alice")}`),
    get("apps.test", "/t/alice"),
  ];
  const answers = new Set<string>();
  for (const text of asked) answers.add(comparable(await door.ask(text)));
  assert.equal([...answers].length, 1, [...answers].join("\n---\n"));
  assert.match([...answers][0] ?? "", /^HTTP\/1.1 404 Not Found\r\n[\s\S]*\{"error":"there is nothing here"\}$/);
  assert.equal(door.cluster.calls, []);
  assert.equal(new Set(door.accessed.map(({ workload }) => workload)), new Set([undefined]));
});

test("the API key opens key, link and public by either header, at a host and by a path, and never reaches the pod", async () => {
  const door = await startDoor();
  for (const expose of ["key", "link", "public"] as const) {
    door.addWorkload(expose, expose);
    const { pod } = await door.addInstance("alice", expose);
    for (const line of [bearer, `authorization: BEARER  ${KEY}`, `X-Tenancy-Key: ${KEY}`, `x-tenancy-key: ${KEY}`]) {
      assert.match(await door.ask(get(`${expose}--alice.apps.test`, "/p", line)), /^HTTP\/1.1 200 /);
      assert.match(await door.ask(get("apps.test", `/t/alice/${expose}/p`, line)), /^HTTP\/1.1 200 /);
    }
    assert.not.match(pod.received(), KEY);
  }
});

test("an Authorization of the program's own passes, beside the key in a header of its own", async () => {
  const door = await startDoor();
  door.addWorkload("app", "key");
  const { pod } = await door.addInstance("alice", "app");
  const own = ["Authorization: Basic abc", `X-Tenancy-Key: ${KEY}`, `X_Tenancy_Key: ${KEY}`];
  assert.match(await door.ask(get("app--alice.apps.test", "/", ...own)), /^HTTP\/1.1 200 /);
  assert.match(pod.received(), "\r\nAuthorization: Basic abc\r\n");
  assert.not.match(pod.received(), KEY);
});

test("a link becomes a cookie and leaves the address; then the cookie lets in", async () => {
  const door = await startDoor();
  door.addWorkload("app", "link");
  const { pod } = await door.addInstance("alice", "app", answerWith("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
  const token = linkTo(door, "app", "alice");
  const host = "app--alice.apps.test";
  const answer = await door.ask(get(host, `//a%20b?x=%2F&tenancy-token=${token}&y`, "Accept: text/html"));
  assert.match(answer, /^HTTP\/1.1 303 See Other\r\n/);
  assert.match(answer, `\r\nLocation: http://${host}//a%20b?x=%2F&y\r\n`);
  assert.match(answer, "\r\nReferrer-Policy: no-referrer\r\n");
  assert.match(answer, "\r\nCache-Control: no-store\r\n");
  const [, cookie = "", attributes = ""] = /\r\nSet-Cookie: (tenancy-link=[^;]+); ([^\r]+)/.exec(answer) ?? [];
  assert.match(attributes, /^Max-Age=3[56]\d\d; Path=\/; HttpOnly; SameSite=Lax$/);
  assert.is(pod.received(), "");
  const next = await door.ask(get(host, "/next", `Cookie: a=1; ${cookie}; b=2`));
  assert.match(next, /^HTTP\/1.1 200 /);
  assert.match(pod.received(), "\r\nCookie: a=1; b=2\r\n");
  assert.not.match(pod.received(), "tenancy-link");
});

test("a program's link is used at once, and its token is cut out of the target in each spelling", async () => {
  const door = await startDoor();
  door.addWorkload("app", "link");
  const { pod } = await door.addInstance("alice", "app");
  const token = linkTo(door, "app", "alice");
  const target = `/a?b=+%2b&tenancy-token=${token}&tenancy%2Dtoken=${token}&tenancy-token=${token}&c`;
  assert.match(await door.ask(get("app--alice.apps.test", target)), /^HTTP\/1.1 200 /);
  assert.match(await door.ask(get("apps.test", `/t/alice/app?tenancy-token=${token}`)), /^HTTP\/1.1 200 /);
  assert.match(pod.received(), /^GET \/a\?b=\+%2b&c HTTP\/1.1\r\n/);
  assert.match(pod.received(), /\nGET \/ HTTP\/1.1\r\n[\s\S]*\r\nX-Forwarded-Prefix: \/t\/alice\/app\r\n/);
  assert.not.match(pod.received(), token.slice(0, 20));
  assert.not.match(JSON.stringify(door.accessed), token.slice(0, 20));
});

test("a page that was opened with its token, in a frame, does not show it to the pod in what it asks for", async () => {
  const door = await startDoor();
  door.addWorkload("app", "link");
  const { pod } = await door.addInstance("alice", "app");
  const token = linkTo(door, "app", "alice");
  const host = "app--alice.apps.test";
  const page = `/p?tenancy-token=${token}`;
  for (const query of [`?tenancy-token=${token}`, `?a=1&tenancy%2Dtoken=${token}&b=%2F`, "?c"])
    for (const [name, place] of [
      [host, page],
      ["apps.test", `/t/alice/app${page}`],
    ] as const)
      await door.ask(get(name, place, `rEferer: http://${host}/q${query}`));
  const referers = [...pod.received().matchAll(/^rEferer: (.*)\r$/gm)].map(([, referer]) => referer);
  const all = [`http://${host}/q`, `http://${host}/q?a=1&b=%2F`, `http://${host}/q?c`];
  assert.equal(
    referers,
    all.flatMap((referer) => [referer, referer]),
  );
});

test("over HTTPS the cookie is one that no other host can set", async () => {
  const door = await startDoor({ config: { scheme: "https" } });
  door.addWorkload("app", "link");
  await door.addInstance(
    "alice",
    "app",
    answerWith(
      "HTTP/1.1 200 OK\r\nSet-Cookie: __Host-tenancy-link=x\r\nSet-Cookie: a=1; Domain=apps.test\r\nContent-Length: 0\r\n\r\n",
    ),
  );
  const link = get("app--alice.apps.test", `/?tenancy-token=${linkTo(door, "app", "alice")}`, "Accept: text/html");
  const answer = await door.ask(link);
  assert.match(
    answer,
    /\r\nSet-Cookie: __Host-tenancy-link=[^;]+; Max-Age=\d+; Path=\/; Secure; HttpOnly; SameSite=Lax\r\n/,
  );
  assert.match(answer, "\r\nLocation: https://app--alice.apps.test/\r\n");
  const [, cookie] = /Set-Cookie: ([^;]+)/.exec(answer) ?? [];
  const page = await door.ask(get("app--alice.apps.test", "/", `Cookie: ${cookie}`));
  assert.match(page, /^HTTP\/1.1 200 OK\r\nSet-Cookie: a=1\r\nConnection: close\r\n/);
});

test("a cookie lets in the pages of its own host alone", async () => {
  const door = await startDoor();
  door.addWorkload("app", "link");
  const { pod } = await door.addInstance("alice", "app");
  const host = "app--alice.apps.test";
  const cookie = `Cookie: ${cookieTo(door, "app", "alice")}`;
  const status = async (...lines: string[]) => (await door.ask(get(host, "/", cookie, ...lines))).slice(9, 12);
  assert.is(await status(), "200");
  assert.is(await status(`Origin: http://${host}`), "200");
  assert.is(await status("Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors"), "200");
  assert.is(await status("Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"), "200");
  assert.is(await status("Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"), "200");
  const seen = pod.received().length;
  assert.is(await status("Origin: http://app--bob.apps.test"), "404");
  assert.is(await status(`Origin: https://${host}`), "404");
  assert.is(await status("Origin: null"), "404");
  assert.is(await status("Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: script"), "404");
  assert.is(await status("Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"), "404");
  const socket = ["Connection: Upgrade", "Upgrade: websocket", "Origin: http://app--bob.apps.test"];
  assert.match(await door.ask(get(host, "/", cookie, ...socket)), /^HTTP\/1.1 404 /);
  const post = `POST / HTTP/1.1\r\nHost: ${host}\r\n${cookie}\r\nSec-Fetch-Site: same-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\nContent-Length: 0\r\n\r\n`;
  assert.match(await door.ask(post), /^HTTP\/1.1 404 /);
  assert.is(pod.received().length, seen);
});

test("the right one of several cookies of the name counts, wherever the others come from", async () => {
  const door = await startDoor();
  door.addWorkload("app", "link");
  await door.addInstance("alice", "app");
  const others = [...Array.from({ length: 40 }, (_, at) => `tenancy-link=forged${at}`), cookieTo(door, "app", "bob")];
  const cookies = [...others, cookieTo(door, "app", "alice")].join("; ");
  assert.match(await door.ask(get("app--alice.apps.test", "/", `Cookie: ${cookies}`)), /^HTTP\/1.1 200 /);
});

test("a cookie of another version that our key signed does no harm beside a good one", async () => {
  const door = await startDoor({ signingKeys: () => [createSecretKey(Buffer.alloc(32, "k"))] });
  door.addWorkload("app", "link");
  await door.addInstance("alice", "app");
  const text = Buffer.from(JSON.stringify({ v: 2, p: "cookie", t: "alice", w: "app", e: inAnHour() })).toString(
    "base64url",
  );
  const later = `tenancy-link=${text}.${createHmac("sha256", Buffer.alloc(32, "k")).update(text).digest("base64url")}`;
  const status = async (cookies: string) =>
    (await door.ask(get("app--alice.apps.test", "/", `Cookie: ${cookies}`))).slice(9, 12);
  assert.is(await status(later), "404");
  assert.is(await status(`${later}; ${cookieTo(door, "app", "alice")}`), "200");
});

test("a link is for its port alone, and the first port has one name", async () => {
  const door = await startDoor();
  door.addWorkload("app", "link", { network: { ports: [8080, 9000] } });
  const { pod } = await door.addInstance("alice", "app");
  const first = linkTo(door, "app", "alice");
  const second = linkTo(door, "app", "alice", { port: 9000 });
  const status = async (host: string, token: string) =>
    (await door.ask(get(`${host}.apps.test`, `/?tenancy-token=${token}`))).slice(9, 12);
  assert.is(await status("app--alice", first), "200");
  assert.is(await status("app-8080--alice", first), "200");
  assert.is(await status("app--alice", second), "404");
  assert.is(await status("app-9000--alice", first), "404");
  assert.is(pod.connections.length > 0, true);
});

test("a derived label is found by what its caller was granted, and among the claims", async () => {
  const door = await startDoor();
  door.addWorkload("app", "link");
  door.addWorkload("open", "public");
  const label = "at-app-user-2abc--";
  await door.addInstance("user_2aBc", "app");
  await door.addInstance("user_2aBc", "open");
  const { pod } = await door.addInstance("user_2aBc", "many");
  const second = pod.target.port;
  door.addWorkload("many", "public", { network: { ports: [1, second] } });
  const host = hostLabel({ workload: "app", tenantId: "user_2aBc" });
  assert.ok(host.startsWith(label), host);
  const token = linkTo(door, "app", "user_2aBc");
  assert.match(await door.ask(get(`${host}.apps.test`, `/?tenancy-token=${token}`)), /^HTTP\/1.1 200 /);
  const cookie = `Cookie: ${cookieTo(door, "app", "user_2aBc")}`;
  assert.match(await door.ask(get(`${host}.apps.test`, "/", cookie)), /^HTTP\/1.1 200 /);
  assert.match(await door.ask(get(`${host}.apps.test`, "/", bearer)), /^HTTP\/1.1 200 /);
  const open = hostLabel({ workload: "open", tenantId: "user_2aBc" });
  assert.match(await door.ask(get(`${open}.apps.test`)), /^HTTP\/1.1 200 /);
  for (const [port, status] of [
    [1, "200"],
    [second, "200"],
    [2, "404"],
  ] as const) {
    const other = hostLabel({ workload: "many", tenantId: "user_2aBc", port });
    assert.match(await door.ask(get(`${other}.apps.test`)), `HTTP/1.1 ${status} `, `${port}`);
    assert.match(await door.ask(get(`${other.replace("user", "usar")}.apps.test`)), "HTTP/1.1 404 ");
  }
  const gone = linkTo(door, "app", "user_x");
  assert.match(await door.ask(get(`${host}.apps.test`, `/?tenancy-token=${gone}`)), /^HTTP\/1.1 404 /);
});

test("a tenant's host cannot have a browser delete the cookies of other tenants' hosts, nor ask elsewhere", async () => {
  const door = await startDoor();
  door.addWorkload("app", "public");
  const dropped = ['Clear-Site-Data: "cookies"', "clear-site-data: *", 'Alt-Svc: h3=":443"'];
  const early = ["HTTP/1.1 103 Early Hints", ...dropped, "Link: </a>"].join("\r\n");
  const final = ["HTTP/1.1 200 OK", ...dropped, "Content-Length: 2"].join("\r\n");
  await door.addInstance("alice", "app", answerWith(`${early}\r\n\r\n${final}\r\n\r\nok`));
  const seen = ["HTTP/1.1 103 Early Hints", "Link: </a>", "", "HTTP/1.1 200 OK", "Connection: close"];
  assert.is(await door.ask(get("app--alice.apps.test")), [...seen, "Content-Length: 2", "", "ok"].join("\r\n"));
});

test("the path form is one origin of all tenants: a sandbox without cookies", async () => {
  const door = await startDoor();
  door.addWorkload("app", "public");
  const kept = ["Content-Security-Policy: default-src 'self'", "X-A: 1"];
  const dropped = [
    "Set-Cookie: a=1",
    "Clear-Site-Data: *",
    "Strict-Transport-Security: max-age=1",
    "Alt-Svc: h3",
    "X-Content-Type-Options: x",
  ];
  const head = ["HTTP/1.1 200 OK", ...kept, ...dropped, "Content-Length: 2"].join("\r\n");
  const { pod } = await door.addInstance("alice", "app", answerWith(`${head}\r\n\r\nok`));
  const answer = await door.ask(get("apps.test", "/t/alice/app/../x?y", "Cookie: a=1"));
  const fields = [...kept, "Content-Security-Policy: sandbox", "X-Content-Type-Options: nosniff"];
  assert.is(answer, ["HTTP/1.1 200 OK", ...fields, "Connection: close", "Content-Length: 2", "", "ok"].join("\r\n"));
  assert.match(pod.received(), /^GET \/\.\.\/x\?y HTTP\/1.1\r\n/);
  assert.not.match(pod.received(), /cookie/i);
  const own = ["/t/alice/nothing/", "/t/alice/app", "/other", "http://elsewhere/"];
  const statuses = ["404", "200", "404", "400"];
  for (const [at, target] of own.entries()) {
    const said = await door.ask(get("apps.test", target));
    assert.is(said.slice(9, 12), statuses[at]);
    assert.match(said, "\r\nContent-Security-Policy: sandbox\r\n");
  }
});

test("at a path a browser is told nothing that it would keep for all tenants, or send to another", async () => {
  const door = await startDoor();
  door.addWorkload("app", "public");
  const kept = [
    ...["Content-Type: text/html", "Content-Encoding: br", "Content-Language: de", "Content-Range: bytes 0-1/9"],
    ...['Content-Disposition: attachment; filename="a"', "Accept-Ranges: bytes", 'ETag: "1"', "Vary: Accept"],
    ...["Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT", "Cache-Control: max-age=5", "Age: 1", "Expires: 0"],
    ...["Date: Thu, 01 Jan 2026 00:00:00 GMT", "Location: /t/alice/app/x", "Retry-After: 1", "Allow: GET"],
    ...["Server: s", "Digest: x", "Content-Digest: x", "DAV: 1", "Grpc-Status: 0", "RateLimit-Limit: 1"],
    ...["Docker-Content-Digest: x", "Mcp-Session-Id: x", "Tus-Resumable: 1.0.0", "Upload-Offset: 1"],
    ...["X-Total-Count: 1", "x-request-id: 1"],
  ];
  const dropped = [
    ...[
      'WWW-Authenticate: Basic realm="a"',
      "www-authenticate: Negotiate",
      "Authentication-Info: x",
      "Set-Login: logged-in",
    ],
    ...['Use-As-Dictionary: match="/*"', "Sec-Session-Registration: (ES256)", "Secure-Session-Registration: (ES256)"],
    ...[
      "Accept-CH: Sec-CH-UA-Model",
      "Critical-CH: Sec-CH-UA-Model",
      "Referrer-Policy: unsafe-url",
      "Refresh: 0;url=/",
    ],
    ...[
      "Link: </t/bob/app/>; rel=prefetch",
      "Access-Control-Allow-Origin: *",
      "Access-Control-Allow-Credentials: true",
    ],
    ...["Access-Control-Allow-Headers: authorization", "Timing-Allow-Origin: *", "Origin-Agent-Cluster: ?0"],
    ...["Cross-Origin-Opener-Policy: same-origin", "Permissions-Policy: camera=*", "Speculation-Rules: /r"],
    ...["NEL: {}", "Report-To: {}", "Reporting-Endpoints: a=/r", "Service-Worker-Allowed: /", "SourceMap: /m"],
    ...["X-DNS-Prefetch-Control: on", "X-SourceMap: /m", "X-Frame-Options: DENY", "No-Vary-Search: params"],
    ...["Supports-Loading-Mode: credentialed-prerender", "Activate-Storage-Access: load", "Set-Cookie2: a=1", "P3P: x"],
  ];
  const head = ["HTTP/1.1 401 Unauthorized", ...kept, ...dropped, "Content-Length: 2"].join("\r\n");
  await door.addInstance("alice", "app", answerWith(`${head}\r\n\r\nok`));
  const answer = await door.ask(get("apps.test", "/t/alice/app/"));
  const ours = ["Content-Security-Policy: sandbox", "X-Content-Type-Options: nosniff", "Connection: close"];
  assert.equal(answer.split("\r\n"), ["HTTP/1.1 401 Unauthorized", ...kept, ...ours, "Content-Length: 2", "", "ok"]);
});

test("at a path what a browser has for another tenant's program goes to none", async () => {
  const door = await startDoor();
  door.addWorkload("app", "public");
  const { pod } = await door.addInstance("mallory", "app");
  const at = "/t/mallory/app/";
  for (const lines of [
    ["Authorization: Basic YWxpY2U6c2VjcmV0"],
    ["authorization: basic YWxpY2U6c2VjcmV0"],
    ['Authorization: Digest username="alice"'],
    ["Authorization: Negotiate YII"],
    ["Authorization: NTLM TlRM"],
    ["Authorization: YWxpY2U6c2VjcmV0"],
    ["Authorization: Basic YWxpY2U6c2VjcmV0", "X-Tenancy-Key: wrong"],
    ["Authorization: Bearer theirs", "Authorization: Basic YWxpY2U6c2VjcmV0"],
    ["Authorization: Bearer theirs", "Sec-Fetch-Mode: navigate"],
    ["Authorization: Bearer theirs", "Sec-Fetch-Site: none"],
    [`Authorization: Basic YWxpY2U6c2VjcmV0`, `X-Tenancy-Key: ${KEY}`, "Sec-Fetch-Dest: document"],
  ])
    assert.match(await door.ask(get("apps.test", at, ...lines)), /^HTTP\/1.1 200 /);
  assert.not.match(pod.received(), /authorization/i);
  for (const lines of [
    ["Authorization: Bearer program"],
    ["Authorization: Basic cHJvZ3JhbQ==", `X-Tenancy-Key: ${KEY}`],
  ]) {
    await door.ask(get("apps.test", at, ...lines));
    assert.match(pod.received(), `\r\n${lines[0]}\r\n`);
  }
  assert.not.match(pod.received(), KEY);
});

test("a long path is cut in the log, which strangers could fill else", async () => {
  const door = await startDoor();
  await door.ask(get("x.apps.test", `/${"a".repeat(20_000)}?q`));
  assert.is(door.accessed[0]?.path, `/${"a".repeat(255)}…`);
});

test("a tenant's own path that looks like the path form is the pod's", async () => {
  const door = await startDoor();
  door.addWorkload("app", "public");
  const { pod } = await door.addInstance("alice", "app");
  await door.ask(get("app--alice.apps.test:8443", "/t/bob/app/"));
  assert.match(pod.received(), /^GET \/t\/bob\/app\/ HTTP\/1.1\r\nHost: app--alice.apps.test:8443\r\n/);
});

test("closing a workload ends what is open, and holds at once", async () => {
  const door = await startDoor();
  door.addWorkload("app", "public");
  const { pod } = await door.addInstance("alice", "app", () => undefined);
  const waiting = door.wire(get("app--alice.apps.test"));
  await eventually(() => pod.received() !== "");
  const previous = door.cluster.cache.workloads.store.get("tenancy/app");
  if (previous === undefined) throw new Error("no workload");
  door.addWorkload("app", "none");
  const object = door.cluster.cache.workloads.store.get("tenancy/app") ?? previous;
  door.proxy.onWorkload({ type: "modified", object, previous });
  await waiting.seen("HTTP/1.1 404 ");
  assert.match(await door.ask(get("app--alice.apps.test")), /^HTTP\/1.1 404 /);
});

test("what came in by a link ends with it, or with the key that signed it; by the API key it goes on", async () => {
  const clock = manualClock(new Date().toISOString());
  let keys = [createSecretKey(Buffer.alloc(32, "a"))];
  const door = await startDoor({ clock, signingKeys: () => keys });
  door.addWorkload("app", "link");
  const { pod } = await door.addInstance("alice", "app", ({ socket }) => {
    socket.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n");
  });
  const expiresAt = Math.floor(clock.now() / 1000) + 60;
  const token = linkTo(door, "app", "alice", { expiresAt });
  const open = async (target: string, ...lines: string[]) => {
    const wire = door.wire(get("app--alice.apps.test", target, ...lines));
    await wire.seen("data: 1");
    return wire;
  };
  const byKey = await open("/", bearer);
  const asProgram = () => open(`/?tenancy-token=${token}`);
  const removed = await asProgram();
  keys = [createSecretKey(Buffer.alloc(32, "b"))];
  await clock.pass(5000);
  await removed.closed;
  keys = [createSecretKey(Buffer.alloc(32, "b")), createSecretKey(Buffer.alloc(32, "a"))];
  const over = await asProgram();
  await clock.pass(50_000);
  assert.is(over.socket.destroyed, false);
  await clock.pass(10_000);
  await over.closed;
  assert.is(byKey.socket.destroyed, false);
  assert.is(pod.received().split("GET / ").length, 4);
});

test("without an API key everybody comes in but other pages, by names of this machine", async () => {
  const door = await startDoor({ key: null, localOnly: true });
  door.addWorkload("app", "key");
  await door.addInstance("alice", "app");
  const status = async (host: string, target: string, ...lines: string[]) =>
    (await door.ask(get(host, target, ...lines))).slice(9, 12);
  assert.is(await status("app--alice.apps.test", "/"), "200");
  assert.is(await status("127.0.0.1:8081", "/t/alice/app/"), "200");
  assert.is(await status("localhost", "/t/alice/app/"), "200");
  assert.is(await status("[::1]:8081", "/t/alice/app/"), "200");
  assert.is(await status("app--alice.apps.test", "/", "Origin: http://evil.test"), "404");
  assert.is(await status("app--alice.apps.test", "/", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: image"), "404");
  assert.is(await status("rebound.test", "/t/alice/app/"), "404");
});

test("until the keys of links are read, whoever shows a token is asked to come again, whatever it is for", async () => {
  let isKnown = false;
  const door = await startDoor({ areKeysKnown: () => isKnown });
  door.addWorkload("app", "link");
  await door.addInstance("alice", "app");
  const token = linkTo(door, "app", "alice");
  const asked = [
    get("app--alice.apps.test", `/?tenancy-token=${token}`),
    get("app--nobody.apps.test", "/?tenancy-token=x"),
    get("nothing.test", "/", "Cookie: a=1"),
    get("app--alice.apps.test", "/", "Cookie: tenancy-link=x"),
  ];
  const statuses = async () =>
    (await Promise.all(asked.map((text) => door.ask(text)))).map((text) => text.slice(9, 12));
  assert.equal(await statuses(), ["503", "503", "404", "503"]);
  isKnown = true;
  assert.equal(await statuses(), ["200", "404", "404", "404"]);
});

test("while the caches are stale nobody is told anything", async () => {
  const door = await startDoor();
  door.addWorkload("app", "public");
  await door.addInstance("alice", "app");
  door.cluster.isFresh = false;
  const answers = await Promise.all([get("app--alice.apps.test"), get("x.test")].map((text) => door.ask(text)));
  assert.equal(new Set(answers.map(comparable)).size, 1);
  assert.match(answers[0] ?? "", /^HTTP\/1.1 503 [\s\S]*\r\nRetry-After: 1\r\n/);
});

test.run();
