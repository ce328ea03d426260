// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Tokens } from "../../../edge/access/tokens.ts";
import { createApiKeyCheck } from "../../../edge/http/api-key.ts";
import { createClientAddress } from "../../../edge/http/client-address.ts";
import { HttpError } from "../../../edge/http/http-error.ts";
import { parseNetwork } from "../../../edge/proxy/entry/origin.ts";
import { createRecorder } from "../tracing/recorder.ts";
import { testEdge } from "./test-edge.ts";

const test = suite("API key");
const KEY = "s3cret-Key/+=";

const routes: [target: string, isPublic: boolean, withKey: number][] = [
  ["GET /api/v1/health", true, 200],
  ["HEAD /api/v1/health", true, 200],
  ["POST /api/v1/health", true, 405],
  ["GET /api/v1/stats", true, 200],
  ["GET /api/v1/workloads", false, 200],
  ["POST /api/v1/workloads", false, 400],
  ["GET /api/v1/workloads/x", false, 404],
  ["HEAD /api/v1/workloads/x", false, 404],
  ["PUT /api/v1/workloads/x", false, 400],
  ["DELETE /api/v1/workloads/x", false, 404],
  ["PATCH /api/v1/workloads/x", false, 405],
  ["GET /api/v1/workloads/x/snapshots", false, 404],
  ["GET /api/v1/snapshots", false, 200],
  ["DELETE /api/v1/tenants/a/snapshots/x", false, 404],
  ["POST /api/v1/tenants/a/claim", false, 400],
  ["POST /api/v1/tenants/a/release", false, 400],
  ["GET /api/v1/tenants/a", false, 200],
  ["GET /api/v1/tenants/%zz", false, 400],
  ["GET /api/v1/tenants", false, 200],
  ["GET /api/v1/tenants/a/snapshots/app/versions", false, 404],
  ["GET /api/v1/tenants/a/snapshots/app/archive", false, 404],
  ["HEAD /api/v1/tenants/a/snapshots/app/archive", false, 404],
  ["PUT /api/v1/tenants/a/snapshots/app/archive", false, 404],
  ["POST /api/v1/tenants/a/snapshots/app/rollback", false, 400],
  ["POST /api/v1/tenants/a/snapshots/app/copy", false, 400],
  ["DELETE /api/v1/tenants/a/snapshots/app", false, 404],
  ["GET /api/v1/tenants/..%2Fb/snapshots/app/archive", false, 400],
  ["GET /api/v1/tenants/a/snapshots/..%2F..%2Fb%2Fapp/archive", false, 400],
  ["GET /nothing", false, 404],
  ["GET /api/v1/health/", false, 404],
  ["GET /api/v1/healthy", false, 404],
];

test("every route but health and stats wants the key, unknown ones too", async () => {
  for (const [target, isPublic, withKey] of routes) {
    const edge = testEdge({ apiKey: KEY });
    const stranger = await edge.call(target);
    assert.is(stranger.status, isPublic ? withKey : 401, `${target} without a key`);
    if (!isPublic) {
      assert.is(stranger.headers.get("www-authenticate"), 'Bearer realm="tenancy"');
      assert.equal(edge.cluster.calls, [], `${target} called the cluster`);
    }
    const friend = await edge.call(target, { headers: { authorization: `Bearer ${KEY}` } });
    assert.is(friend.status, withKey, `${target} with the key`);
  }
});

test("without a key set, nothing is asked for", async () => {
  const edge = testEdge();
  for (const [target, , status] of routes) assert.is((await edge.call(target)).status, status, target);
});

test("the scheme is read in any case, and nothing else passes for the key", async () => {
  const edge = testEdge({ apiKey: KEY });
  const statusOf = async (authorization: string) =>
    (await edge.call("GET /api/v1/tenants", { headers: { authorization } })).status;
  for (const header of [`Bearer ${KEY}`, `bearer ${KEY}`, `BEARER   ${KEY}`])
    assert.is(await statusOf(header), 200, header);
  const wrong = [
    "",
    "Bearer",
    "Bearer ",
    KEY,
    `Basic ${KEY}`,
    `Bearer ${KEY}x`,
    `Bearer ${KEY.slice(0, -1)}`,
    `Bearer ${KEY.toLowerCase()}`,
  ];
  for (const header of [...wrong, `Bearer ${KEY} ${KEY}`, `Bearer x, Bearer ${KEY}`, `Bearer\t${KEY}`]) {
    assert.is(await statusOf(header), 401, JSON.stringify(header));
  }
});

test("neither the answer nor the log shows a key", async () => {
  const edge = testEdge({ apiKey: KEY });
  const answers = [
    await edge.call("GET /api/v1/tenants", { headers: { authorization: "Bearer wrong-one" } }),
    await edge.call("GET /api/v1/tenants", { headers: { authorization: `Bearer ${KEY}` } }),
  ];
  edge.cluster.onNext("list", new Error("boom"));
  answers.push(await edge.call("GET /api/v1/workloads", { headers: { authorization: `Bearer ${KEY}` } }));
  const shown = JSON.stringify([answers.map(({ text }) => text), edge.log, edge.answers]);
  assert.not.ok(shown.includes(KEY));
  assert.not.ok(shown.includes("wrong-one"));
});

test("without a key, what a page of another site sends is refused, reading aside", async () => {
  for (const site of ["cross-site", "same-site"]) {
    const headers = { "sec-fetch-site": site };
    for (const target of [
      "POST /api/v1/workloads",
      "DELETE /api/v1/workloads/x",
      "POST /api/v1/tenants/a/claim",
      "PUT /nothing",
    ]) {
      const edge = testEdge();
      const answer = await edge.call(target, { headers });
      assert.is(answer.status, 403, `${target} ${site}`);
      assert.equal(edge.cluster.calls, []);
    }
    assert.is((await testEdge().call("GET /api/v1/tenants", { headers })).status, 200);
    const withKey = { ...headers, authorization: `Bearer ${KEY}` };
    assert.is((await testEdge({ apiKey: KEY }).call("DELETE /api/v1/workloads/x", { headers: withKey })).status, 404);
  }
  for (const site of ["same-origin", "none"]) {
    assert.is(
      (await testEdge().call("DELETE /api/v1/workloads/x", { headers: { "sec-fetch-site": site } })).status,
      404,
    );
  }
});

test("the address that limits unknown tokens is the client's, on every way that a token arrives", async () => {
  const addresses: (string | undefined)[] = [];
  const tokens: Tokens = {
    actorOf(_, from) {
      addresses.push(from?.());
      throw new HttpError(401, "refused");
    },
    ...{ holds: () => undefined, login: undefined, close: () => undefined },
  };
  for (const tracer of [undefined, createRecorder().tracer]) {
    const edge = testEdge({ apiKey: KEY, tokens, ...(tracer && { tracer }) });
    const headers = { authorization: "Bearer eyJ.eyJ.x" };
    assert.is((await edge.call("GET /api/v1/tenants", { headers, peer: "192.0.2.1" })).status, 401);
    assert.is((await edge.call("GET /none", { headers, peer: "::ffff:192.0.2.2" })).status, 401);
    const handshake = {
      upgrade: "websocket",
      "sec-websocket-version": "13",
      "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    };
    const request = new Request("http://edge.test/ws?type=workload", { headers: { ...headers, ...handshake } });
    const socket = await edge.handler(request, { peerOf: () => "192.0.2.3", upgrade: () => new Response() });
    assert.is(socket.status, 401);
  }
  assert.equal(
    addresses,
    [1, 2, 3, 1, 2, 3].map((host) => `192.0.2.${host}`),
  );
  const trusted = [parseNetwork("10.0.0.0/8")].flatMap((network) => network ?? []);
  const check = createApiKeyCheck(() => undefined, undefined, tokens, createClientAddress({ trusted }));
  const headers = { authorization: "Bearer eyJ.eyJ.x", "x-forwarded-for": "198.51.100.1" };
  const request = new Request("http://edge.test/", { headers });
  for (const peer of ["10.0.0.1", "192.0.2.1"]) assert.throws(() => check(request, { peerOf: () => peer }), "refused");
  assert.equal(addresses.slice(6), ["198.51.100.1", "192.0.2.1"]);
});

test.run();
