// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { systemClock } from "../../../crds/client/clock.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import { sleep } from "../../../crds/waits.ts";
import { readSandboxId } from "../../../edge/e2b/sandbox-id.ts";
import { eventually } from "../../eventually.ts";
import { active } from "../edge/claim-calls.ts";
import { snapshotsFolder } from "../edge/snapshots-folder.ts";
import { type TestEdge, testEdge } from "../edge/test-edge.ts";
import { serveStore } from "../snapshots/store-server.ts";
import { allClaims, ask, create, keyOf, ROOT } from "./sandbox-calls.ts";

const test = suite("POST /e2b/v2/sandboxes");

function edgeWithApp(): TestEdge {
  const edge = testEdge({ apiKey: ROOT, hasKeys: true });
  edge.cluster.addWorkload("app", { entrypoint: { start: "OnClaim" }, filesystem: { overlayDirs: ["/data"] } });
  return edge;
}

interface Made {
  readonly sandboxID: string;
  readonly envdAccessToken?: string;
  readonly trafficAccessToken?: string;
}

test("a sandbox is a claim of a tenant that is made for it, with an end, variables and metadata", async () => {
  const edge = edgeWithApp();
  const metadata = { user: "ü" };
  const { answer, claim } = await create(edge, { metadata, envVars: { A: "b" }, timeout: 60, secure: true });
  const made = answer.json as Made;
  const key = readSandboxId(made.sandboxID);
  assert.equal(key, { workloadRef: "app", tenantId: claim.spec.tenantId });
  assert.match(claim.spec.tenantId, /^e2b-[a-z2-7]{16}$/);
  assert.equal(claim.spec.inputs, { env: { A: "b" } });
  assert.is(claim.spec.expiresAt, "2026-01-01T00:01:00Z");
  assert.is(claim.spec.resume, false);
  const by = { kind: "root", id: "root", ref: "root" };
  const record = { metadata, autoPause: false, made: true, by };
  assert.equal(JSON.parse(claim.metadata.annotations?.[annotation.e2b] ?? ""), record);
  assert.ok(made.envdAccessToken);
  assert.is(made.trafficAccessToken, made.envdAccessToken);
  const { json } = await ask(edge, `GET /sandboxes/${made.sandboxID}`);
  const { envdAccessToken, trafficAccessToken, ...rest } = made;
  const expected = {
    ...rest,
    ...{ state: "running", metadata, cpuCount: 1, memoryMB: 512, diskSizeMB: 1024, volumeMounts: [] },
    ...{ startedAt: "2026-01-01T00:00:00Z", endAt: "2026-01-01T00:01:00Z" },
    lifecycle: { onTimeout: "kill", autoResume: false },
  };
  assert.equal(json, expected);
});

test("a start that takes longer than a claim call is waited for", async () => {
  const edge = testEdge({ apiKey: ROOT, waitLimitMs: 200, clock: systemClock });
  edge.cluster.addWorkload("app", {});
  let isAnswered = false;
  const creating = ask(edge, "POST /v2/sandboxes", { body: { templateID: "app" } }).finally(() => {
    isAnswered = true;
  });
  await eventually(() => allClaims(edge).length === 1);
  const [claim] = allClaims(edge);
  // Several limits of a claim call.
  await sleep(500, { clock: systemClock });
  assert.is(isAnswered, false);
  const name = claim?.metadata.name ?? "";
  edge.cluster.setStatus(name, { ...active, instanceId: `inst-${name}` });
  edge.cluster.podOf(edge.cluster.claim(name));
  const { status, text } = await creating;
  assert.is(status, 201, text);
});

test("parts of a CPU are rounded up, since E2B counts whole ones", async () => {
  const edge = testEdge({ apiKey: ROOT, hasKeys: true });
  edge.cluster.addWorkload("app", { entrypoint: { start: "OnClaim" }, resources: { milliCpus: 1500 } });
  const { sandboxID } = (await create(edge, {})).answer.json as Made;
  const { json: sandbox } = await ask(edge, `GET /sandboxes/${sandboxID}`);
  const { json: templates } = await ask(edge, "GET /templates");
  const counted = [sandbox, ...(templates as object[])] as { cpuCount: number }[];
  assert.equal(
    counted.map(({ cpuCount }) => cpuCount),
    [2, 2],
  );
});

test("the tenant is one that the key reaches", async () => {
  const edge = edgeWithApp();
  const tenantOf = async (key: string, metadata = {}) => (await create(edge, { key, metadata })).claim.spec.tenantId;
  const started = await keyOf(edge, { role: "tenant", tenants: ["acme-*"] });
  assert.match(await tenantOf(started), /^acme-e2b-[a-z2-7]{16}$/);
  assert.is(await tenantOf(started, { tenant: "acme-1" }), "acme-1");
  const word = await keyOf(edge, { role: "tenant", tenants: ["exact", "acme*"] });
  assert.match(await tenantOf(word), /^acme-e2b-[a-z2-7]{16}$/);
  const exact = await keyOf(edge, { role: "tenant", tenants: ["bob", "eve"] });
  assert.is(await tenantOf(exact), "bob");
  assert.is(await tenantOf(exact, { tenant: "eve" }), "eve");
  const count = allClaims(edge).length;
  for (const [key, metadata, status] of [
    [exact, { tenant: "acme-1" }, 404],
    [started, { tenant: "bob" }, 404],
    [ROOT, { tenant: "a/b" }, 400],
    [ROOT, { tenant: `e2b-${"a".repeat(16)}` }, 400],
    [await keyOf(edge, { role: "tenant", tenants: [`${"long-".repeat(10)}*`] }), {}, 400],
    [await keyOf(edge, { role: "reader" }), {}, 403],
  ] as const) {
    const answer = await ask(edge, "POST /v2/sandboxes", { key, body: { templateID: "app", metadata } });
    assert.is(answer.status, status, answer.text);
  }
  const other = await keyOf(edge, { role: "tenant", tenants: ["a*"], workloads: ["web"] });
  assert.is((await ask(edge, "POST /sandboxes", { key: other, body: { templateID: "app" } })).status, 404);
  assert.is(allClaims(edge).length, count);
});

test("an access token is of the key that asked, and ends with it", async () => {
  const edge = edgeWithApp();
  const key = await keyOf(edge, { role: "tenant", tenants: ["acme-*"] });
  const { answer } = await create(edge, { key });
  const { sandboxID, envdAccessToken } = answer.json as Made;
  const again = async (by: string) =>
    (await ask(edge, `POST /sandboxes/${sandboxID}/connect`, { key: by })).json as Made;
  assert.is((await again(key)).envdAccessToken, envdAccessToken);
  assert.is.not((await again(ROOT)).envdAccessToken, envdAccessToken);
});

test("names of templates: tags and teams are left out", async () => {
  const edge = edgeWithApp();
  for (const templateID of ["app:latest", "team/app", "team/app:v1"])
    assert.is((await create(edge, { templateID })).claim.spec.workloadRef, "app");
  for (const [templateID, status] of [
    ["none", 404],
    ["a/b/c", 400],
    ["app--a", 400],
    ["", 400],
    ["App", 400],
    ["..", 400],
    ["x".repeat(5000), 400],
    ["app--a:v1", 404],
  ] as const)
    assert.is((await ask(edge, "POST /sandboxes", { body: { templateID } })).status, status, templateID);
});

test("what a sandbox would not have is refused, and what the SDKs send by default is not", async () => {
  const edge = edgeWithApp();
  edge.cluster.addWorkload("open", { network: { access: "unrestricted", expose: "public" } });
  edge.cluster.addWorkload("destroys", { idle: { action: "destroy" }, filesystem: { overlayDirs: ["/data"] } });
  const network = { allowOut: [], denyOut: [], rules: {}, egressProxy: null, httpsPorts: [] };
  const defaults = { secure: true, allow_internet_access: true, autoPause: false, network, iam: { tokens: {} } };
  await create(edge, { ...defaults, mcp: null, volumeMounts: [], autoResume: { enabled: false }, metadata: null });
  await create(edge, { autoPause: true, allow_internet_access: false, network: { allowPublicTraffic: false } });
  await create(edge, { templateID: "open", network: { allowPublicTraffic: true } });
  const count = allClaims(edge).length;
  for (const [more, status, message] of [
    [{ templateID: "open", allow_internet_access: false }, 501, /^allow_internet_access: false is not implemented/],
    [{ network: { denyOut: ["0.0.0.0/0"] } }, 501, /^network is not implemented/],
    [{ network: { maskRequestHost: "x" } }, 501, /^network is/],
    [{ network: { allowPublicTraffic: true } }, 501, /^network.allowPublicTraffic: true is/],
    [{ iam: { tokens: { a: {} } } }, 501, /^iam.tokens is/],
    [{ mcp: { server: {} } }, 501, /^mcp is/],
    [{ volumeMounts: [{ name: "a", path: "/b" }] }, 501, /^volumeMounts is/],
    [{ autoPauseMemory: true }, 501, /^autoPauseMemory: true is/],
    [{ autoResume: { enabled: true } }, 501, /^autoResume is/],
    [{ templateID: "open", autoPause: true }, 400, /overlayDirs/],
    [{ templateID: "destroys", autoPause: true }, 400, /idle.action/],
    [{ templateID: "open", envVars: { A: "b" } }, 400, /^body.envVars: the program of workload "open" starts before/],
    [{ envVars: { TENANCY_X: "b" } }, 400, /^body.envVars/],
    [{ metadata: { long: "x".repeat(17_000) } }, 400, /^body.metadata: is too large/],
  ] as const) {
    const answer = await ask(edge, "POST /v2/sandboxes", { body: { templateID: "app", ...more } });
    assert.is(answer.status, status, answer.text);
    const { code, message: said } = answer.json as { code: number; message: string };
    assert.is(code, status);
    assert.match(said, message);
  }
  assert.is(allClaims(edge).length, count);
});

test("bodies of another form are errors of E2B's form", async () => {
  const edge = edgeWithApp();
  let deep: unknown = {};
  for (let level = 0; level < 70; level += 1) deep = { a: deep };
  const wrong = [1, "text", [], null, [{}], { templateID: 1 }, { templateID: ["app"] }, {}].map((body) => [body, 400]);
  for (const [body, status] of [
    ...wrong,
    ...[0, -1, 1.5, "60", 1e300, [], true].map((timeout) => [{ templateID: "app", timeout }, 400]),
    ...[["a"], "a", { a: 1 }, { a: null }, 5].map((metadata) => [{ templateID: "app", metadata }, 400]),
    ...[["a"], { a: {} }].map((envVars) => [{ templateID: "app", envVars }, 400]),
    ...[1, [], "x", { allowOut: "a" }, { rule: [] }].map((network) => [{ templateID: "app", network }, 400]),
    [{ templateID: "app", unknown: true }, 400],
    [{ templateID: "app", mcp: deep }, 400],
    ["{", 400],
    ["", 400],
    [{ templateID: "app", metadata: { a: "x".repeat(2 ** 20) } }, 413],
  ] as const) {
    const answer = await ask(edge, "POST /sandboxes", { body: typeof body === "string" ? body : JSON.stringify(body) });
    assert.is(answer.status, status, `${JSON.stringify(body)?.slice(0, 100)}: ${answer.text}`);
    const { code, message, ...rest } = answer.json as { code: number; message: string };
    assert.is(code, status);
    assert.type(message, "string");
    assert.equal(rest, {});
  }
  assert.equal(allClaims(edge), []);
});

test("a key is taken from X-API-KEY or Authorization, and a request without one is refused", async () => {
  const edge = edgeWithApp();
  const call = (headers: Record<string, string>) => edge.call("GET /e2b/v2/sandboxes?state=running", { headers });
  assert.is((await call({ "x-api-key": ROOT })).status, 200);
  assert.is((await call({ authorization: `Bearer ${ROOT}` })).status, 200);
  for (const headers of [{}, { "x-api-key": "wrong" }, { "x-api-key": `${ROOT} x` }, { "x-api-key": "" }]) {
    const { status, json } = await call(headers as Record<string, string>);
    assert.is(status, 401);
    assert.is((json as { code: number }).code, 401);
  }
  // The key that the SDK sends counts, not one that a proxy has added.
  assert.is((await call({ "x-api-key": "wrong", authorization: `Bearer ${ROOT}` })).status, 401);
  const open = testEdge();
  assert.is((await ask(open, "GET /v2/sandboxes?state=running", { key: "any" })).status, 200);
  const page = { origin: "https://evil.example", "x-api-key": "any", "sec-fetch-site": "cross-site" };
  assert.is((await open.call("POST /e2b/sandboxes", { headers: page, body: { templateID: "app" } })).status, 403);
});

test("nothing stays of a sandbox that does not start", async () => {
  const volume = snapshotsFolder();
  const served = await serveStore(volume.path);
  const edge = testEdge({ apiKey: ROOT, store: served.store });
  edge.cluster.addSnapshots();
  edge.cluster.addWorkload("app");
  try {
    const answer = ask(edge, "POST /sandboxes", { body: { templateID: "app" } });
    while (allClaims(edge).length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
    const [claim] = allClaims(edge);
    const { name = "" } = claim?.metadata ?? {};
    edge.cluster.setStatus(name, { phase: "Error", reason: "ImagePullFailed", message: "no such image" });
    while (edge.cluster.read(claims, name).metadata.deletionTimestamp === undefined)
      await new Promise((resolve) => setTimeout(resolve, 1));
    edge.cluster.removeClaim(name);
    const { status, json } = await answer;
    assert.is(status, 500);
    assert.match((json as { message: string }).message, /no such image/);
  } finally {
    await served.close();
    volume.remove();
  }
});

test.run();
