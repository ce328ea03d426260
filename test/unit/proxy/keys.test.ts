// @runtimes bun node deno
// Keys with a role at the front door: what they open, and that no pod sees one.
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { readQuotas } from "../../../crds/quotas/tenant-quotas.ts";
import { createTenantRates } from "../../../edge/access/tenant-rates.ts";
import { newKey } from "../access/key-secrets.ts";
import { manualClock } from "../manual-clock.ts";
import { answerWith } from "./fake-pod.ts";
import { comparable, get, KEY } from "./front-door.ts";
import { doorWith, handshake, SWITCH } from "./keyed-door.ts";
import { closeAll } from "./start-proxy.ts";

const test = suite("keys with a role at the front door");
test.after.each(closeAll);

const bearer = (key: string | undefined): string => `Authorization: Bearer ${key}`;
const basic = (text: string): string => `Authorization: Basic ${Buffer.from(text).toString("base64")}`;
const isOpen = (answer: string): boolean => answer.startsWith("HTTP/1.1 200 ");

test("a key opens the instances that it reaches, by either header, at a host and by a path, and no pod sees it", async () => {
  const { door, key } = await doorWith({
    tenant: { role: "tenant", tenants: ["alice", "team-*"] },
    some: { role: "tenant", tenants: ["alice", "team-*"], workloads: ["key", "web-*"] },
    platform: { role: "platform" },
    admin: { role: "admin" },
  });
  for (const expose of ["key", "link", "public"] as const) door.addWorkload(expose, expose);
  for (const tenant of ["alice", "team-1"])
    for (const expose of ["key", "link", "public"] as const) {
      const { pod } = await door.addInstance(tenant, expose);
      for (const [name, text] of Object.entries(key)) {
        if (name === "some" && expose === "link") continue;
        for (const line of [bearer(text), `X-Tenancy-Key: ${text}`]) {
          assert.ok(isOpen(await door.ask(get(`${expose}--${tenant}.apps.test`, "/", line))), `${name} ${expose}`);
          assert.ok(isOpen(await door.ask(get("apps.test", `/t/${tenant}/${expose}/`, line))), `${name} ${expose}`);
        }
      }
      assert.not.match(pod.received(), /tk_|authorization|x-tenancy/i);
    }
  for (const text of Object.values(key)) assert.not.match(JSON.stringify(door.accessed), text.slice(-43));
});

test("what a key does not reach is as what does not exist, and costs no call", async () => {
  const { door, key, end } = await doorWith({
    tenant: { role: "tenant", tenants: ["alice"] },
    some: { role: "tenant", tenants: ["alice"], workloads: ["other"] },
    reader: { role: "reader" },
    ended: { role: "platform" },
  });
  end("ended");
  for (const [name, expose] of [
    ["keyed", "key"],
    ["linked", "link"],
    ["closed", "none"],
  ] as const) {
    door.addWorkload(name, expose);
    for (const tenant of ["alice", "bob"]) await door.addInstance(tenant, name);
  }
  const none = comparable(await door.ask(get("nothing--alice.apps.test")));
  const ask = async (host: string, name: string) =>
    assert.is(comparable(await door.ask(get(`${host}.apps.test`, "/", bearer(key[name])))), none, `${host} ${name}`);
  for (const workload of ["keyed", "linked", "closed"]) {
    await ask(`${workload}--bob`, "tenant");
    for (const name of ["some", "reader", "ended"]) await ask(`${workload}--alice`, name);
  }
  await ask("closed--alice", "tenant");
  const wrong = `${key.tenant?.slice(0, -1)}${key.tenant?.endsWith("A") ? "E" : "A"}`;
  assert.is(comparable(await door.ask(get("keyed--alice.apps.test", "/", bearer(wrong)))), none);
  for (const line of [basic(`:${key.tenant}`), `Sec-WebSocket-Protocol: ${key.tenant}`])
    assert.is(comparable(await door.ask(get("keyed--alice.apps.test", "/", line))), none);
  assert.equal(door.cluster.calls, []);
});

test("no pod sees the text of a key, valid or not, in any form of Authorization or as a subprotocol", async () => {
  const { door, key } = await doorWith({ own: { role: "tenant", tenants: ["bob"] } });
  door.addWorkload("app", "public");
  const { pod } = await door.addInstance("alice", "app");
  const texts = [key.own ?? "", newKey().text, `tk_${"a".repeat(16)}_${"-".repeat(43)}`];
  const base64 = (text: string) => Buffer.from(text).toString("base64url");
  for (const text of texts)
    for (const [line, passes] of [
      [bearer(text)],
      [`authorization: bEARER   ${text}`],
      [`Authorization: ${text}`],
      [`Authorization: Token token="${text}"`],
      [`Authorization: Digest username="${text}", realm="a"`],
      [basic(`${text}:`)],
      [basic(`:${text}`)],
      [basic(`user:${text}`)],
      [basic(text)],
      [basic(`user:${text}`).replace("Basic ", "Basic\t")],
      [`authorization: BASIC  ${base64(`user:${text}`)}`],
      [`Authorization: Basic dXNlcjpwYXNz\r\n${bearer(text)}`],
      [`Sec-WebSocket-Protocol: ${text}`],
      [`Sec-WebSocket-Protocol: tenancy.bearer.${base64(text)}`],
      [`sec-websocket-protocol: chat,tenancy.bearer.${base64(text)}, v2.chat`, "sec-websocket-protocol: chat, v2.chat"],
      [`Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.${base64(text)}`],
      [`Sec-WebSocket-Protocol: ${base64(text)}, ${text}`],
    ] as const)
      for (const target of [get("app--alice.apps.test", "/", line), get("apps.test", "/t/alice/app/", line)]) {
        const before = pod.received().length;
        assert.ok(isOpen(await door.ask(target)), line);
        const received = pod.received().slice(before);
        assert.not.match(received, text);
        assert.not.match(received, base64(text).slice(4, -4));
        assert.not.match(received, /^authorization:/im, line);
        if (passes === undefined) assert.not.match(received, /^sec-websocket-protocol:/im, line);
        else assert.match(received, `\r\n${passes}\r\n`);
      }
  assert.not.match(JSON.stringify(door.accessed), "tk_");
});

test("TENANCY_API_KEY is hidden in these forms too, and what is no key passes byte for byte", async () => {
  const { door } = await doorWith({});
  door.addWorkload("app", "public");
  const { pod } = await door.addInstance("alice", "app");
  const offered = Buffer.from(KEY).toString("base64url");
  for (const line of [
    basic(`user:${KEY}`),
    basic(`${KEY}:`),
    basic(KEY),
    `Authorization: ${KEY}`,
    `Authorization: Token ${KEY}`,
    `Authorization: Bearer\t${KEY}`,
    `Authorization: Digest username="${KEY}", realm="a"`,
    `Sec-WebSocket-Protocol: tenancy.bearer.${offered}`,
  ]) {
    assert.ok(isOpen(await door.ask(get("app--alice.apps.test", "/", line))));
    assert.not.match(pod.received(), line);
    assert.not.match(pod.received(), KEY);
  }
  for (const line of [
    basic("user:tk_a_b"),
    "Authorization: Bearer tk_of-the-program",
    "Authorization: Bearer ",
    "Sec-WebSocket-Protocol: chat ,v2.chat,  a.b.c",
  ]) {
    assert.ok(isOpen(await door.ask(get("app--alice.apps.test", "/", line))));
    assert.match(pod.received(), `\r\n${line.trimEnd()}`);
  }
});

test("what a key has opened ends with it; another key's goes on", async () => {
  const { door, key, end } = await doorWith({
    one: { role: "tenant", tenants: ["alice"] },
    other: { role: "tenant", tenants: ["alice"] },
  });
  door.addWorkload("app", "key");
  await door.addInstance("alice", "app", answerWith(SWITCH));
  const opened = async (name: string) => {
    const wire = door.wire(get("app--alice.apps.test", "/", ...handshake, bearer(key[name])));
    await wire.seen("101 Switching Protocols");
    return wire;
  };
  const [one, other] = [await opened("one"), await opened("other")];
  // Sleeps, so that the request waits.
  door.addWorkload("asleep", "key");
  const waiting = door.wire(get("asleep--alice.apps.test", "/", bearer(key.one)));
  await opened("other");
  end("one");
  await one.closed;
  await waiting.seen("404 Not Found");
  assert.match(comparable(await door.ask(get("app--alice.apps.test", "/", bearer(key.one)))), "404 Not Found");
  other.socket.write(Buffer.from("81850000000068656c6c6f", "hex"));
  assert.is(other.socket.destroyed, false);
});

test("while keys cannot be checked, their holders are asked to come again, also at a public workload", async () => {
  const { door, key, outage } = await doorWith({ own: { role: "tenant", tenants: ["alice"] } });
  door.addWorkload("app", "public");
  const { pod } = await door.addInstance("alice", "app");
  outage();
  const answers = new Set<string>();
  for (const host of ["app--alice", "nothing--alice", "app--bob"])
    for (const line of [bearer(key.own), `X-Tenancy-Key: ${newKey().text}`])
      answers.add(comparable(await door.ask(get(`${host}.apps.test`, "/", line))));
  assert.equal(answers.size, 1);
  assert.match([...answers][0] ?? "", /^HTTP\/1.1 503 [\s\S]*\r\nRetry-After: 1\r\n/);
  assert.is(pod.received(), "");
  for (const line of [bearer(KEY), "Accept: */*", "Authorization: Bearer other"])
    assert.ok(isOpen(await door.ask(get("app--alice.apps.test", "/", line))));
});

test("the rate of a key holds, and the quota of the tenant beside it", async () => {
  const quotas = readQuotas({
    data: { "quotas.yaml": JSON.stringify({ tenants: { alice: { requestsPerSecond: 3 } } }) },
  });
  if (typeof quotas === "string") throw new Error(quotas);
  const rates = createTenantRates({ quotas: { current: () => quotas }, clock: manualClock() });
  const { door, key, clock } = await doorWith(
    { two: { role: "tenant", tenants: ["alice"], requestsPerSecond: 2 }, any: { role: "tenant", tenants: ["alice"] } },
    { rates },
  );
  door.addWorkload("app", "key");
  await door.addInstance("alice", "app");
  const ask = async (name: string, host = "app--alice") =>
    await door.ask(get(`${host}.apps.test`, "/", bearer(key[name])));
  assert.ok(isOpen(await ask("two")));
  assert.match(await ask("two", "nothing--alice"), /^HTTP\/1.1 404 /);
  const refused = await ask("two");
  assert.match(refused, /^HTTP\/1.1 429 [\s\S]*\r\nRetry-After: 1\r\n/);
  assert.match(refused, "has used up its 2 requests a second (requestsPerSecond of the key)");
  assert.is(comparable(await ask("two", "nothing--alice")), comparable(refused));
  assert.ok(isOpen(await ask("any")));
  await clock.pass(1000);
  assert.ok(isOpen(await ask("two")));
  assert.match(await ask("any"), 'tenant \\"alice\\" has used up its 3 requests a second');
});

test.run();
