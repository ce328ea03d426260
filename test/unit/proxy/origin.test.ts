// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createOriginReader, parseNetwork } from "../../../edge/proxy/entry/origin.ts";
import type { Field } from "../../../edge/proxy/http/message-head.ts";
import { get, KEY, startDoor } from "./front-door.ts";
import { closeAll } from "./start-proxy.ts";

const test = suite("the origin of requests");
test.after.each(closeAll);

const networks = ["10.0.0.0/8", "192.0.2.7", "fd00::/8"].map((text) => {
  const network = parseNetwork(text);
  if (network === undefined) throw new Error(`Cannot parse ${text}`);
  return network;
});
const originOf = createOriginReader({ trusted: networks, scheme: "https" });
const fieldsOf = (lines: readonly (readonly [string, string])[]): Field[] =>
  lines.map(([name, value]) => [name, value, name.toLowerCase()]);
const clientOf = (peer: string, ...lines: string[]): string =>
  originOf(peer)(fieldsOf(lines.map((line) => ["X-Forwarded-For", line]))).address;

test("from outside the networks nothing is believed", () => {
  const said = fieldsOf([
    ["X-Forwarded-For", "198.51.100.1"],
    ["X-Forwarded-Proto", "http"],
    ["X-Request-Id", "theirs"],
  ]);
  for (const peer of ["203.0.113.9", "11.0.0.1", "192.0.2.8", "fe80::1", "unknown"]) {
    assert.equal(originOf(peer)(said), { address: peer, scheme: "https", requestId: undefined });
  }
  const nobody = createOriginReader({ trusted: [], scheme: "http" });
  assert.equal(nobody("10.0.0.1")(said), { address: "10.0.0.1", scheme: "http", requestId: undefined });
});

test("the client is the last that is no balancer, whatever it says of itself", () => {
  assert.is(clientOf("10.0.0.1"), "10.0.0.1");
  assert.is(clientOf("10.0.0.1", "198.51.100.1"), "198.51.100.1");
  assert.is(clientOf("10.0.0.1", "1.1.1.1, 10.9.9.9, 198.51.100.1"), "198.51.100.1");
  assert.is(clientOf("10.0.0.1", "1.1.1.1, 198.51.100.1, 10.2.3.4, 192.0.2.7"), "198.51.100.1");
  assert.is(clientOf("10.0.0.1", "1.1.1.1", "198.51.100.1,10.2.3.4", "10.2.3.5"), "198.51.100.1", "of several lines");
  assert.is(clientOf("10.0.0.1", "10.0.0.3, 10.0.0.2"), "10.0.0.3", "all are ours");
  assert.is(clientOf("fd12::1", "198.51.100.1, fd00::5"), "198.51.100.1");
  assert.is(clientOf("10.0.0.1", "2001:DB8:0:0:0:0:0:1"), "2001:db8::1");
});

test("an entry that is no address ends the search at who wrote it", () => {
  for (const entry of [
    "unknown",
    "_hidden",
    "999.1.1.1",
    "1.2.3",
    "<script>",
    "10.0.0.1/8",
    "::1]",
    "1.1.1.1:x",
    "for=1.1.1.1",
  ]) {
    assert.is(clientOf("10.0.0.1", `198.51.100.1, ${entry}`), "10.0.0.1", entry);
    assert.is(clientOf("10.0.0.1", `198.51.100.1, ${entry}, 10.0.0.2`), "10.0.0.2", entry);
  }
  assert.is(clientOf("10.0.0.1", " ,198.51.100.1,, "), "198.51.100.1", "empty ones are none");
});

test("addresses are read with a port, with a zone and as IPv4 in IPv6", () => {
  assert.is(clientOf("10.0.0.1", "198.51.100.1:4711"), "198.51.100.1");
  assert.is(clientOf("10.0.0.1", "[2001:db8::1]:4711"), "2001:db8::1");
  assert.is(clientOf("10.0.0.1", "[2001:db8::1]"), "2001:db8::1");
  assert.is(clientOf("::ffff:10.0.0.1", "198.51.100.1, ::ffff:10.0.0.2"), "198.51.100.1");
  assert.is(clientOf("::ffff:a00:1", "::ffff:c633:6401"), "198.51.100.1");
  assert.is(clientOf("0:0:0:0:0:ffff:10.0.0.1", "198.51.100.1"), "198.51.100.1");
  assert.is(clientOf("::ffff:203.0.113.9", "198.51.100.1"), "203.0.113.9");
  assert.is(clientOf("fd00::1%eth0", "198.51.100.1"), "198.51.100.1");
});

test("scheme and request id are the balancer's where they can be", () => {
  const read = (name: string, ...lines: string[]) => originOf("10.0.0.1")(fieldsOf(lines.map((line) => [name, line])));
  const proto = (...lines: string[]): string => read("X-Forwarded-Proto", ...lines).scheme;
  assert.is(proto(), "https");
  assert.is(proto("http"), "http");
  assert.is(proto("HTTPS"), "https");
  assert.is(proto("https, http"), "http", "what the last one saw");
  assert.is(proto("https", "ws"), "http");
  assert.is(proto("ftp"), "https");
  assert.is(proto("constructor"), "https");
  const id = (...lines: string[]): string | undefined => read("X-Request-Id", ...lines).requestId;
  assert.is(id("7f3c-01=/+"), "7f3c-01=/+");
  for (const lines of [[], [""], ["a b"], ["a,b"], ["x".repeat(129)], ["a", "b"], ["\xe9"]]) {
    assert.is(id(...lines), undefined);
  }
});

test("the pod, the answer and the log get what a balancer said", async () => {
  const believed = await startDoor({ config: { trusted: [{ address: "127.0.0.0", prefix: 8, family: "ipv4" }] } });
  const doubted = await startDoor({ config: { trusted: networks } });
  const lines = [
    `Authorization: Bearer ${KEY}`,
    "X-Forwarded-For: 1.1.1.1, 198.51.100.1",
    "X_Forwarded_For: 1.1.1.1",
    "X-Forwarded-Proto: https",
    "X-Forwarded-Host: elsewhere",
    "X-Request-Id: theirs",
  ];
  const seen: string[] = [];
  for (const door of [believed, doubted]) {
    door.addWorkload("app", "key");
    const { pod } = await door.addInstance("alice", "app");
    await door.ask(get("app--alice.apps.test", "/", ...lines));
    await door.ask(get("app--bob.apps.test", "/", ...lines.slice(1)));
    seen.push(pod.received());
  }
  const [toPod = "", toOther = ""] = seen;
  assert.match(
    toPod,
    "\r\nX-Forwarded-For: 198.51.100.1\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: app--alice.apps.test\r\n",
  );
  assert.match(toPod, "\r\nX-Request-Id: theirs\r\n");
  assert.not.match(toPod, "1.1.1.1");
  assert.not.match(toPod, "elsewhere");
  assert.match(toOther, "\r\nX-Forwarded-For: 127.0.0.1\r\nX-Forwarded-Proto: http\r\n");
  assert.not.match(toOther, "theirs");
  assert.equal(new Set(believed.accessed.map(({ requestId }) => requestId)), new Set(["theirs"]));
  assert.not.ok(doubted.accessed.some(({ requestId }) => requestId === "theirs"));
});

test.run();
