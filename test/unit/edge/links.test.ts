// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Exposure } from "../../../crds/network.ts";
import type { Actor } from "../../../edge/access/actor.ts";
import { holdsTokenRef, tokenRef } from "../../../edge/access/token-ref.ts";
import { createLinks, findFrontDoor } from "../../../edge/proxy/entry/front-door.ts";
import { createLinkTokens } from "../../../edge/proxy/entry/link-token.ts";
import { readKeys } from "../../../edge/proxy/entry/signing-keys.ts";
import { type TestEdge, testEdge } from "./test-edge.ts";

const test = suite("POST /api/v1/tenants/{id}/links");

const NOW = Date.parse("2026-01-01T00:00:00Z");
const secret = { data: { "2026": Buffer.alloc(32, "k").toString("base64") } };
const http = { scheme: "http", listen: { hostname: "127.0.0.1", port: 8081 } } as const;

function linksFor(keys = readKeys(secret)) {
  const domain = { name: "localhost", port: undefined };
  const tokens = createLinkTokens({ keys: () => keys.keys, now: () => NOW });
  const frontDoor = findFrontDoor({ ...http, domain }, () => 9999);
  if (frontDoor === undefined) throw new Error("no front door");
  return { tokens, links: createLinks({ frontDoor, tokens, problem: () => keys.problem, maxSeconds: 7200 }) };
}

function edgeWith(expose: Exposure, links = linksFor().links): TestEdge {
  const edge = testEdge({ links });
  edge.cluster.addWorkload("app", { network: { expose, ports: [8080, 9000] } });
  return edge;
}

const ask = (edge: TestEdge, body: object, tenant = "alice") =>
  edge.call(`POST /api/v1/tenants/${tenant}/links`, { body });

test("answers an address with a token for the instance, which ends when it says", async () => {
  const { tokens, links } = linksFor();
  const edge = edgeWith("link", links);
  for (const [body, tenantId, host, grant] of [
    [{}, "alice", "app--alice", { expiresAt: NOW / 1000 + 3600 }],
    [{ expiresInSeconds: 60, port: 8080 }, "alice", "app--alice", { expiresAt: NOW / 1000 + 60 }],
    [{ port: 9000 }, "bob", "app-9000--bob", { port: 9000, expiresAt: NOW / 1000 + 3600 }],
  ] as const) {
    const answer = await ask(edge, { workload: "app", ...body }, tenantId);
    assert.is(answer.status, 201);
    const { url, ...rest } = answer.json as { url: string };
    const expiresAt = new Date(grant.expiresAt * 1000).toISOString();
    assert.equal(rest, { expiresAt, tenantId, workloadRef: "app" });
    const [, address, token] = /^(.*)\?tenancy-token=(.*)$/.exec(url) ?? [];
    assert.is(address, `http://${host}.localhost:9999/`);
    const { signedBy: _, ...read } = tokens.read("link", token) ?? {};
    assert.equal(read, { tenantId, workload: "app", ...grant });
    assert.is(answer.headers.get("cache-control"), "no-store");
  }
});

test("a link that a token asked for ends with the token", async () => {
  const { tokens, links } = linksFor();
  const endsAt = NOW + 90_500;
  const person = { kind: "person", id: "p", role: "platform", tenants: undefined, endsAt } as const;
  const ref = tokenRef(person, { settings: "0123456789abcdef", endsAt });
  const actor: Actor = { ...person, ref, ended: new AbortController().signal };
  const edge = testEdge({
    apiKey: "root",
    links,
    tokens: { actorOf: () => actor, holds: () => true, login: undefined, close: () => undefined },
  });
  edge.cluster.addWorkload("app", { network: { expose: "link", ports: [8080] } });
  const headers = { authorization: "Bearer eyJ" };
  const { json } = await edge.call("POST /api/v1/tenants/alice/links", { body: { workload: "app" }, headers });
  const { url, expiresAt } = json as { url: string; expiresAt: string };
  assert.is(Date.parse(expiresAt), NOW + 90_000);
  const [, text] = url.split("tenancy-token=");
  const holding = (settings: string, now = NOW) =>
    createLinkTokens({
      keys: () => readKeys(secret).keys,
      isApiKey: (by) => holdsTokenRef(by, { settings: [settings], now }),
      now: () => now,
    }).read("link", text);
  assert.is(holding("0123456789abcdef")?.by, ref);
  // A front door with other settings, or without them.
  assert.is(holding("fedcba9876543210"), undefined);
  assert.is(tokens.read("link", text), undefined);
  assert.is(holdsTokenRef(ref, { settings: ["0123456789abcdef"], now: endsAt }), false);
});

test("refuses what would be a dead address", async () => {
  for (const expose of ["none", "key"] as const) {
    const { status, error } = await ask(edgeWith(expose), { workload: "app" });
    assert.is(status, 409);
    assert.match(error ?? "", `network.expose of workload "app" is ${expose}`);
  }
  const edge = edgeWith("link");
  assert.is((await ask(edge, { workload: "other" })).status, 404);
  assert.match((await ask(edge, { workload: "app", port: 1 })).error ?? "", "is not in the workload's network.ports");
  assert.match((await ask(edge, { workload: "app", expiresInSeconds: 7201 })).error ?? "", "must be at most 7200");
  for (const expiresInSeconds of [0, -1, 1.5, "60"])
    assert.is((await ask(edge, { workload: "app", expiresInSeconds })).status, 400);
  assert.is((await ask(edge, { workload: "app" }, "a%2fb")).status, 400);
  edge.cluster.isFresh = false;
  assert.is((await ask(edge, { workload: "app" })).status, 503);
});

test("says what is missing where there is no key or no front door", async () => {
  const withoutKeys = await ask(edgeWith("link", linksFor(readKeys(undefined)).links), { workload: "app" });
  assert.is(withoutKeys.status, 503);
  assert.match(withoutKeys.error ?? "", "Secret tenancy-proxy-keys does not exist");
  const { status, error } = await ask(testEdge(), { workload: "app" });
  assert.is(status, 409);
  assert.match(error ?? "", "TENANCY_PROXY_DOMAIN");
});

test("a claim tells its address at the front door where its workload is exposed, and gives no token away", async () => {
  const urlOf = async (edge: TestEdge) => {
    edge.cluster.addClaim({ tenantId: "alice", workloadRef: "app" });
    return ((await edge.call("GET /api/v1/tenants/alice/claims/app")).json as { url?: string }).url;
  };
  for (const expose of ["key", "link", "public"] as const)
    assert.is(await urlOf(edgeWith(expose)), "http://app--alice.localhost:9999/");
  assert.is(await urlOf(edgeWith("none")), undefined);
  const without = testEdge();
  without.cluster.addWorkload("app", { network: { expose: "public" } });
  assert.is(await urlOf(without), undefined);
});

test("the front door's address has the port that visitors need", () => {
  const at = (port: number | undefined, scheme: "http" | "https", listens?: number) =>
    findFrontDoor({ ...http, scheme, domain: { name: "x.org", port } }, () => listens)?.().port;
  assert.is(at(undefined, "http"), 8081);
  assert.is(at(undefined, "http", 1234), 1234);
  assert.is(at(undefined, "https", 1234), undefined);
  assert.is(at(8443, "https", 1234), 8443);
  assert.is(
    findFrontDoor({ ...http, domain: undefined }, () => 1),
    undefined,
  );
});

test.run();
