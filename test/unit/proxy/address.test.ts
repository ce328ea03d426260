// @runtimes bun
import fc from "fast-check";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { readAddress } from "../../../edge/proxy/entry/address.ts";

const test = suite("readAddress");
const read = (host: string, target = "/") =>
  readAddress({ host, target, fields: [] }, "apps.test", { hasWorkload: () => true });

test("a tenant's host, with a port, a final dot and a port of the workload", () => {
  const instance = { workload: "app", tenantId: "alice" };
  for (const host of [
    "app--alice.apps.test",
    "app--alice.apps.test:8443",
    "app--alice.apps.test.",
    "app--alice.apps.test.:80",
  ])
    assert.equal(read(host, "/x?y"), {
      form: "host",
      instance,
      label: "app--alice",
      derived: undefined,
      target: "/x?y",
    });
  assert.equal(read("app-90--alice.apps.test")?.instance, { ...instance, port: 90 });
  assert.equal(read("app--alice.apps.test", "*")?.target, "*");
});

test("a derived label has to be looked up", () => {
  const digits = "0123456789abcdef01234567";
  for (const port of [undefined, 90]) {
    const label = `at${port ?? ""}-app-alice--${digits}`;
    const derived = { kind: "derived", digits, ...(port !== undefined && { port }) };
    assert.equal(read(`${label}.apps.test`), { form: "host", instance: undefined, label, derived, target: "/" });
  }
});

test("below the domain there is nothing else, paths neither", () => {
  for (const host of ["alice.apps.test", "a.app--alice.apps.test", ".apps.test", "-.apps.test", "app--.apps.test"])
    assert.is(read(host, "/t/alice/app/"), undefined, host);
});

test("a path at any other host, its prefix as it was sent", () => {
  const instance = { workload: "app", tenantId: "alice" };
  for (const host of ["apps.test", "127.0.0.1:8081", "", "xapps.test"]) {
    const found = { form: "path", instance, prefix: "/t/alice/app" };
    assert.equal(read(host, "/t/alice/app"), { ...found, target: "/" });
    assert.equal(read(host, "/t/alice/app?x"), { ...found, target: "/?x" });
    assert.equal(read(host, "/t/alice/app/../%2e%2e//b?c"), { ...found, target: "/../%2e%2e//b?c" });
  }
  const encoded = read("", "/t/%61lice/app%3A90/x");
  assert.equal(encoded, {
    form: "path",
    instance: { ...instance, port: 90 },
    prefix: "/t/%61lice/app%3A90",
    target: "/x",
  });
  assert.equal(read("", "/t/A_b.c/my.app:1/")?.instance, { workload: "my.app", tenantId: "A_b.c", port: 1 });
});

test("what is no id is no path", () => {
  for (const target of [
    ...["/t", "/t/", "/t/alice", "/t/alice/", "/t//app/", "/T/alice/app/", "/x/t/alice/app/", "*"],
    ...["/t/../app/", "/t/./app/", "/t/alice/../x", "/t/a%2fb/app/", "/t/%2561/app/", "/t/%zz/app/", "/t/alice/App/"],
    ...[
      "/t/alice/app:0/",
      "/t/alice/app:65536/",
      "/t/alice/app:/",
      "/t/alice/app:x/",
      "/t/alice/app:080/",
      "/t/ä/app/",
    ],
  ]) {
    assert.is(read("apps.test", target), undefined, target);
  }
});

test("a label that is an address with and without a workload's name is the same tenant's", () => {
  const part = fc.stringMatching(/^[a-z0-9-]{1,12}$/);
  const label = fc.tuple(
    fc.constantFrom("8080-", "1-", "8080--", "at8080-", ""),
    part,
    fc.constantFrom("--", "-"),
    part,
  );
  fc.assert(
    fc.property(label, (parts) => {
      const head = { host: `${parts.join("")}.apps.test`, target: "/", fields: [] };
      const [one, other] = [true, false].map((has) => readAddress(head, "apps.test", { hasWorkload: () => has }));
      // The host is the origin of one tenant, whichever workloads there are.
      if (one?.instance && other?.instance) assert.is(one.instance.tenantId, other.instance.tenantId);
      if (one !== undefined) assert.ok(other);
    }),
    { numRuns: 5000, endOnFailure: true },
  );
});

test("the daemon's port and the highest one are ports of a sandbox, what is longer or out of range is none", () => {
  const port = (label: string) =>
    readAddress({ host: `${label}.apps.test`, target: "/", fields: [] }, "apps.test", { hasWorkload: () => false })
      ?.sandbox;
  assert.is(port("49983-web--alice"), "web--alice");
  assert.is(port("65535-web--alice"), "web--alice");
  assert.is(port("8080-web-90--alice--x"), "web-90--alice--x");
  for (const label of ["0-web--a", "08-web--a", "65536-web--a", "8080-web", "8080---a", `8080-web--${"a".repeat(54)}`])
    assert.is(port(label), undefined, label);
});

test.run();
