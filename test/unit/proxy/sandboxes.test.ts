// @runtimes bun node deno
// The addresses of E2B's SDKs at the front door, and what an access token opens there.
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { eventually } from "../../eventually.ts";
import { newKey } from "../access/key-secrets.ts";
import { manualClock } from "../manual-clock.ts";
import { answerWith } from "./fake-pod.ts";
import { comparable, get, KEY } from "./front-door.ts";
import { doorWith, handshake, SWITCH } from "./keyed-door.ts";
import { closeAll } from "./start-proxy.ts";

const test = suite("sandboxes at the front door");
test.after.each(closeAll);

const alice = { tenantId: "alice", workloadRef: "web" };
const named = (id: string, port: number | string = 8080): string[] => [
  `E2b-Sandbox-Id: ${id}`,
  `E2b-Sandbox-Port: ${port}`,
];
const isOpen = (answer: string): boolean => answer.startsWith("HTTP/1.1 200 ");
const statusOf = (answer: string): string => answer.slice(9, 12);
const withCookie = answerWith("HTTP/1.1 200 OK\r\nSet-Cookie: own=1\r\nContent-Length: 2\r\n\r\nok");

test("a token opens its sandbox by the headers and by the host, and the pod sees nothing that E2B's SDKs add", async () => {
  const { door, token } = await doorWith({ own: { role: "tenant", tenants: ["alice"] } });
  const access = await token("own", alice);
  for (const expose of ["key", "link", "public"] as const) {
    door.addWorkload("web", expose);
    const { pod, claim } = await door.addInstance("alice", "web", withCookie);
    for (const field of ["X-Access-Token", "E2B-Traffic-Access-Token", "x-access-token"]) {
      const lines = [`${field}: ${access}`, "X-API-Key: e2b_0", "Cookie: c=1", "X-Own: 1"];
      const byHeader = await door.ask(get("127.0.0.1", "/a?b", ...named("web--alice"), ...lines));
      const byHost = await door.ask(get("8080-web--alice.apps.test", "/a?b", ...lines));
      const byBoth = await door.ask(get("8080-web--alice.apps.test", "/a?b", ...named("web--alice"), ...lines));
      for (const answer of [byHeader, byHost, byBoth]) assert.ok(isOpen(answer), answer);
      // All sandboxes share the origin of the header form.
      assert.match(byHeader, "Content-Security-Policy: sandbox");
      assert.not.match(byHeader, "Set-Cookie");
      assert.match(byHost, "Set-Cookie: own=1");
    }
    const received = pod.received();
    assert.is(received.match(/GET \/a\?b HTTP/g)?.length, 9);
    assert.is(received.match(/\r\nX-Own: 1\r\n/g)?.length, 9);
    assert.is(received.match(/\r\nCookie: c=1\r\n/g)?.length, 6);
    assert.not.match(received, /e2b|access-token|api-key/i);
    assert.not.match(received, "X-Forwarded-Prefix");
    door.cluster.removeClaim(claim.metadata.name);
    door.cluster.removePod(claim.status?.instanceId ?? "");
  }
  assert.not.match(JSON.stringify(door.accessed), access);
});

test("what a token does not reach is as what does not exist, and costs no call", async () => {
  const { door, token, end } = await doorWith({
    own: { role: "platform" },
    ended: { role: "platform" },
    reader: { role: "reader" },
  });
  for (const [name, expose] of [
    ["web", "key"],
    ["other", "link"],
    ["closed", "none"],
  ] as const) {
    door.addWorkload(name, expose, { network: { ports: [8080, 9000] } });
    for (const tenant of ["alice", "bob"]) await door.addInstance(tenant, name);
  }
  const access = await token("own", alice);
  const ended = await token("ended", alice);
  end("ended");
  const none = comparable(await door.ask(get("nothing--alice.apps.test")));
  const ask = async (id: string, text: string, port = 8080) => {
    const line = `X-Access-Token: ${text}`;
    assert.is(comparable(await door.ask(get("127.0.0.1", "/", ...named(id, port), line))), none, `${id} ${port}`);
    assert.is(comparable(await door.ask(get(`${port}-${id}.apps.test`, "/", line))), none, `${id} ${port}`);
  };
  for (const id of ["web--bob", "other--alice", "closed--alice", "nothing--alice", "web--none"]) await ask(id, access);
  await ask("closed--alice", await token("own", { tenantId: "alice", workloadRef: "closed" }));
  await ask("nothing--alice", await token("own", { tenantId: "alice", workloadRef: "nothing" }));
  // A port that is not listed.
  await ask("web--alice", access, 9001);
  for (const wrong of ["", "x", ended, access.slice(0, -1), `${access}.x`, `${access}, ${access}`])
    await ask("web--alice", wrong);
  for (const lines of [[`Authorization: Bearer ${access}`], [`Cookie: tenancy-link=${access}`]])
    assert.is(comparable(await door.ask(get("127.0.0.1", "/", ...named("web--alice"), ...lines))), none);
  assert.is(comparable(await door.ask(get("127.0.0.1", "/", ...named("no id", 8080)))), none);
  assert.equal(door.cluster.calls, []);
  assert.ok(isOpen(await door.ask(get("127.0.0.1", "/", ...named("web--alice"), `X-Access-Token: ${access}`))));
});

test("a token opens nothing at another address of the instance", async () => {
  const { door, token } = await doorWith({ own: { role: "platform" } });
  door.addWorkload("web", "key");
  await door.addInstance("alice", "web");
  const line = `X-Access-Token: ${await token("own", alice)}`;
  for (const request of [get("web--alice.apps.test", "/", line), get("apps.test", "/t/alice/web/", line)])
    assert.is(statusOf(await door.ask(request)), "404");
});

test("keys and visitors of a public workload have the access that they have at its other addresses", async () => {
  const { door, key } = await doorWith({ own: { role: "tenant", tenants: ["alice"] } });
  door.addWorkload("web", "key");
  door.addWorkload("shown", "public");
  const { pod } = await door.addInstance("alice", "web");
  await door.addInstance("alice", "shown");
  for (const line of [`Authorization: Bearer ${key.own}`, `X-Tenancy-Key: ${KEY}`]) {
    assert.ok(isOpen(await door.ask(get("8080-web--alice.apps.test", "/", line))));
    assert.ok(isOpen(await door.ask(get("127.0.0.1", "/", ...named("web--alice"), line))));
  }
  assert.not.match(pod.received(), /authorization|x-tenancy|tk_/i);
  assert.ok(isOpen(await door.ask(get("127.0.0.1", "/", ...named("shown--alice")))));
  const grant = { workload: "web", tenantId: "alice", expiresAt: Date.now() / 1000 + 60 };
  door.addWorkload("web", "link");
  const link = get("127.0.0.1", `/?tenancy-token=${door.tokens.sign("link", grant)}`, ...named("web--alice"));
  assert.ok(isOpen(await door.ask(link)));
});

test("a sandbox that does not run is not woken: 502 as E2B's own proxy answers, and 404 for others", async () => {
  const clock = manualClock();
  const { door, token } = await doorWith({ own: { role: "platform" } }, { clock });
  door.addWorkload("web", "key");
  const line = `X-Access-Token: ${await token("own", alice)}`;
  for (const request of [
    get("127.0.0.1", "/", ...named("web--alice"), line),
    get("8080-web--alice.apps.test", "/", line, "Accept: text/html"),
  ]) {
    const asked = door.ask(request);
    await clock.runWhenNextIs(2000);
    const answer = await asked;
    assert.is(statusOf(answer), "502");
    const body = JSON.parse(answer.slice(answer.indexOf("{"))) as object;
    assert.equal(body, { code: 502, message: "the sandbox was not found: it is not running", sandboxId: "web--alice" });
  }
  assert.is(statusOf(await door.ask(get("127.0.0.1", "/", ...named("web--alice")))), "404");
  assert.equal(door.cluster.calls, []);
});

test("a sandbox that the cache shows after the request is reached, and one that starts is waited for", async () => {
  const clock = manualClock();
  const { door, token } = await doorWith({ own: { role: "platform" } }, { clock });
  for (const name of ["web", "slow"]) door.addWorkload(name, "key");
  const ask = async (workloadRef: string) => {
    const access = await token("own", { tenantId: "alice", workloadRef });
    return door.ask(get("127.0.0.1", "/", ...named(`${workloadRef}--alice`), `X-Access-Token: ${access}`));
  };
  const early = ask("web");
  await eventually(() => clock.nextIn() === 2000);
  await door.addInstance("alice", "web");
  assert.ok(isOpen(await early));
  door.cluster.addClaim({ tenantId: "alice", workloadRef: "slow", status: { phase: "Pending" } });
  const starts = ask("slow");
  await eventually(() => clock.nextIn() === 5000);
  await clock.pass(3000);
  await door.addInstance("alice", "slow");
  assert.ok(isOpen(await starts));
});

test("what a token has opened ends with the key that asked for it", async () => {
  const { door, token, end } = await doorWith({ one: { role: "platform" }, other: { role: "platform" } });
  door.addWorkload("web", "key");
  door.addWorkload("stream", "key");
  await door.addInstance("alice", "web", answerWith(SWITCH));
  await door.addInstance(
    "alice",
    "stream",
    answerWith("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"),
  );
  const open = async (name: string, workloadRef: string, seen: string, ...lines: string[]) => {
    const access = await token(name, { tenantId: "alice", workloadRef });
    const wire = door.wire(
      get("127.0.0.1", "/", ...named(`${workloadRef}--alice`), `X-Access-Token: ${access}`, ...lines),
    );
    await wire.seen(seen);
    return wire;
  };
  const ending = [
    await open("one", "web", "101 Switching Protocols", ...handshake),
    await open("one", "stream", "1\r\na\r\n"),
  ];
  const other = await open("other", "stream", "1\r\na\r\n");
  const again = get("127.0.0.1", "/", ...named("web--alice"), `X-Access-Token: ${await token("one", alice)}`);
  end("one");
  for (const wire of ending) await wire.closed;
  assert.is(other.socket.destroyed, false);
  assert.is(statusOf(await door.ask(again)), "404");
});

test("while keys cannot be checked, holders of tokens are asked to come again", async () => {
  const { door, token, outage } = await doorWith({ own: { role: "platform" } });
  door.addWorkload("web", "public");
  const { pod } = await door.addInstance("alice", "web");
  const line = `X-Access-Token: ${await token("own", alice)}`;
  outage();
  for (const id of ["web--alice", "nothing--alice"])
    assert.is(statusOf(await door.ask(get("127.0.0.1", "/", ...named(id), line))), id === "web--alice" ? "503" : "404");
  assert.is(pod.received(), "");
});

test("headers that contradict the host or each other are refused, and no pod sees the request", async () => {
  const { door, token } = await doorWith({ own: { role: "platform" } });
  door.addWorkload("web", "public", { network: { ports: [8080, 9000] } });
  const pods = [await door.addInstance("alice", "web"), await door.addInstance("bob", "web")];
  const line = `X-Access-Token: ${await token("own", alice)}`;
  const host = "8080-web--alice.apps.test";
  for (const [at, ...lines] of [
    [host, ...named("web--bob")],
    [host, ...named("web--alice", 9000)],
    [host, "E2b-Sandbox-Id: other"],
    ["web--alice.apps.test", ...named("web--alice")],
    ["nothing.apps.test", ...named("web--alice")],
    [`at-web-alice--${"0".repeat(24)}.apps.test`, ...named("web--alice")],
    ["127.0.0.1", ...named("web--alice"), "E2b-Sandbox-Id: web--bob"],
    ["127.0.0.1", ...named("web--alice"), "e2b-sandbox-id: web--alice"],
    ["127.0.0.1", ...named("web--alice"), "E2b-Sandbox-Port: 9000"],
    ["127.0.0.1", ...named("web--alice", "")],
    ["127.0.0.1", ...named("web--alice", 0)],
    ["127.0.0.1", ...named("web--alice", "08080")],
    ["127.0.0.1", ...named("web--alice", 65_536)],
    ["127.0.0.1", ...named("web--alice", "8080, 9000")],
    ["127.0.0.1", "E2b-Sandbox-Id : web--alice"],
  ] as const) {
    const answer = await door.ask(get(at, "/", ...lines, line));
    assert.is(statusOf(answer), "400", `${at} ${lines}: ${answer}`);
  }
  for (const { pod } of pods) assert.is(pod.received(), "");
});

test("neither a trailer nor the target nor Connection changes which sandbox is asked for", async () => {
  const { door } = await doorWith({});
  door.addWorkload("web", "public");
  const [of, other] = [await door.addInstance("alice", "web"), await door.addInstance("bob", "web")];
  const lines = named("web--alice");
  const trailer = "0\r\nE2b-Sandbox-Id: web--bob\r\nX-Access-Token: a\r\nX-API-Key: b\r\nX-Own: 1\r\n\r\n";
  const head = [
    "POST / HTTP/1.1",
    "Host: 127.0.0.1",
    ...lines,
    "Transfer-Encoding: chunked",
    "Connection: close",
    "",
    "",
  ];
  const wire = door.wire(`${head.join("\r\n")}${trailer}`);
  await wire.closed;
  assert.ok(isOpen(wire.received()));
  assert.match(of.pod.received(), "0\r\nX-Own: 1\r\n\r\n");
  const whole = (authority: string) => get("127.0.0.1", `http://${authority}/x`, ...lines);
  assert.ok(isOpen(await door.ask(whole("127.0.0.1"))));
  for (const authority of ["8080-web--bob.apps.test", "web--bob.apps.test", "bob@127.0.0.1"])
    assert.is(statusOf(await door.ask(whole(authority))), "400");
  assert.ok(isOpen(await door.ask(get("127.0.0.1", "/t/bob/web/", ...lines))));
  const named2 = get("127.0.0.1", "/", ...lines, "Connection: E2b-Sandbox-Id, E2b-Sandbox-Port, X-Api-Key");
  assert.match(
    await door
      .wire(named2)
      .seen("\r\n\r\n")
      .then(() => "ok"),
    "ok",
  );
  assert.match(of.pod.received(), "GET /t/bob/web/ HTTP/1.1");
  assert.not.match(of.pod.received(), /e2b|access-token|api-key/i);
  assert.is(other.pod.received(), "");
});

test("the host of a workload whose own name begins with a number stays its own", async () => {
  const { door, token } = await doorWith({ own: { role: "platform" } });
  door.addWorkload("web", "key");
  const { pod } = await door.addInstance("alice", "web");
  const line = `X-Access-Token: ${await token("own", alice)}`;
  const request = get("8080-web--alice.apps.test", "/", line);
  assert.ok(isOpen(await door.ask(request)));
  door.addWorkload("8080-web", "public");
  const own = await door.addInstance("alice", "8080-web");
  const before = pod.received();
  assert.ok(isOpen(await door.ask(request)));
  assert.is(pod.received(), before);
  assert.match(own.pod.received(), "GET / HTTP/1.1");
});

test("at other addresses no pod sees a key in X-API-Key or an access token; a program's own pass", async () => {
  const { door, key, token } = await doorWith({ own: { role: "tenant", tenants: ["bob"] } });
  door.addWorkload("app", "public");
  const { pod } = await door.addInstance("alice", "app");
  const access = await token("own", { tenantId: "bob", workloadRef: "app" });
  for (const line of [
    ...[`X-API-Key: ${key.own}`, `x-api-key: ${newKey().text}`, `X-Api-Key: ${KEY}`, `X-API-Key: of-mine ${key.own}`],
    ...[`X-Access-Token: ${access}`, `E2B-Traffic-Access-Token: ${access}`, `X-Access-Token: ${access.slice(0, -1)}x`],
  ])
    for (const request of [get("app--alice.apps.test", "/", line), get("apps.test", "/t/alice/app/", line)]) {
      const before = pod.received().length;
      assert.ok(isOpen(await door.ask(request)), line);
      assert.not.match(pod.received().slice(before), /access-token|api-key/i, line);
    }
  for (const line of ["X-API-Key: of-the-program", "X-Access-Token: a.b", "E2b-Sandbox-Port: 1"]) {
    assert.ok(isOpen(await door.ask(get("app--alice.apps.test", "/", line))));
    assert.match(pod.received(), `\r\n${line}\r\n`);
  }
});

test.run();
