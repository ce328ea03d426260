// @runtimes bun node
// The other side of test/unit/edge/route-access.test.ts: what is refused is not read from the table of routes or from the
// page of keys. Requests are made at random from the API's document, and what matters is what the answers contain.
import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { systemClock } from "../../../crds/client/clock.ts";
import { claims, triggers } from "../../../crds/kinds.ts";
import type { OpenApiDocument } from "../../../edge/api/openapi/document.ts";
import type { ApiTypes } from "../../../edge/api/openapi/schemas.ts";
import { rawTar } from "../archive/raw-tar.ts";
import { call, everything } from "../snapshots/store-contract.ts";
import { type ServedStore, serveStore } from "../snapshots/store-server.ts";
import { usageLines } from "../usage/usage-lines.ts";
import { type SnapshotsFolder, snapshotsFolder } from "./snapshots-folder.ts";
import { type TestEdge, testEdge } from "./test-edge.ts";

const test = suite("what a key sees of other tenants");

const ROOT = "the-root-key";
/** Letters, since some texts are names. */
const random = (): string => `s${randomBytes(8).toString("hex")}`;
const planted = {
  label: random(),
  message: random(),
  instance: `inst-${random()}`,
  address: "10.231.77.19",
  claimUid: random(),
  file: random(),
  content: random(),
  version: random(),
  usedWorkload: random(),
  environment: random(),
  trigger: random(),
  keyName: random(),
};
const volume: SnapshotsFolder = snapshotsFolder();
let served: ServedStore;
let edge: TestEdge;
let document: OpenApiDocument;
const keys: Record<string, string> = {};

test.before(async () => {
  served = await serveStore(volume.path);
  edge = testEdge({
    ...{ apiKey: ROOT, hasKeys: true, requireKey: true, clock: systemClock, waitLimitMs: 1 },
    ...{ store: served.store, contexts: served.contexts, usage: served.usage },
  });
  const { cluster } = edge;
  cluster.addSnapshots();
  cluster.addWorkload("app", {
    filesystem: { overlayDirs: ["/data"] },
    entrypoint: { env: { SECRET: planted.environment } },
  });
  const spec = { type: "cron", workloadRef: "app", tenant: { static: "b" }, config: { schedule: "0 0 * * *" } };
  cluster.add(triggers, {
    metadata: { name: "nightly", namespace: cluster.namespace, annotations: {} },
    spec: { ...spec, config: { ...spec.config, payload: planted.trigger } },
  } as never);
  const [secret, plain] = [planted, { ...planted, instance: "inst-a", address: "10.0.0.1", claimUid: "a-1" }];
  for (const [tenantId, { instance, address, claimUid }, text] of [
    ["a", plain, (_: string) => "of-a"],
    ["b", secret, (one: string) => one],
  ] as const) {
    const files = [{ name: `data/${text(secret.file)}`, content: Buffer.from(text(secret.content)) }];
    const archive = new Request(`http://edge.test/api/v1/tenants/${tenantId}/snapshots/app/archive`, {
      ...{ method: "PUT", body: rawTar([{ name: "data/", type: "5", mode: 0o755 }, ...files]) },
      headers: { authorization: `Bearer ${ROOT}`, "content-type": "application/x-tar" },
    });
    const response = await edge.handler(archive, {});
    const { sha256 } = (await response.json()) as ApiTypes["SnapshotVersion"];
    assert.is(response.status, 201);
    await served.store.setName({ tenantId, workloadRef: "app" }, { sha256, name: text(secret.version) }, call);
    cluster.addClaim({
      ...{ tenantId, workloadRef: "app", uid: claimUid, spec: { labels: { team: text(secret.label) } } },
      status: {
        ...{ phase: "Active", instanceId: instance, claimedAt: "2026-01-01T00:00:00Z" },
        ...{ endpoint: { host: address, port: 8080 }, message: text(secret.message) },
      },
    });
  }
  const [lines = ""] = usageLines([
    { tenantId: "b", workload: planted.usedWorkload, from: "2026-11-29T10:00:00Z", seconds: 60 },
  ]);
  await served.usage.append({ hour: "2026-11-29T10", name: "b-1", lines }, call);
  document = (await ask(ROOT, "GET /api/v1/openapi.json")).json as OpenApiDocument;
  for (const body of [
    { name: "tenant", role: "tenant", tenants: ["a", "a-*"] },
    { name: "readerOfSome", role: "reader", tenants: ["a", "a-*"] },
    { name: "platform", role: "platform" },
    { name: "reader", role: "reader" },
    { name: planted.keyName, role: "tenant", tenants: ["b"] },
  ]) {
    const { status, json, text } = await ask(ROOT, "POST /api/v1/keys", body);
    assert.is(status, 201, text);
    keys[body.name] = (json as ApiTypes["CreatedKey"]).key;
  }
});

test.after(async () => {
  await edge?.channels.close();
  await served?.close();
  volume.remove();
});

async function ask(key: string, target: string, body?: unknown) {
  return await edge.call(target, { headers: { authorization: `Bearer ${key}` }, ...(body !== undefined && { body }) });
}

/** What a client may try where a name, an id or any other text is expected. */
const names = [
  "a",
  "b",
  "a-1",
  "%62",
  "b%00",
  "a%2F..%2Fb",
  "*",
  "a-*",
  "A",
  "app",
  "nightly",
  "inst-a",
  "zz",
  "0",
  "1",
];
const words = fc.constantFrom(...names, "b/app", "data", "..", "");
/** Some of the planted ones too: only where a request stores nothing, since all answers could have them after that. */
const texts = fc.oneof(words, fc.constantFrom(planted.instance, planted.version, planted.claimUid));
const shown = ["tenant", "tenantId", "workload", "workloadRef", "uid", "instance", "id", "version", "name", "after"];

/** Those that would follow something, or wait for it, without an end. */
const ENDLESS = new Set(["follow", "watch", "wake", "wait"]);

interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly schema?: { readonly enum?: readonly string[]; readonly type?: string };
}

function queryValue({ name, schema }: Parameter): fc.Arbitrary<string> {
  if (ENDLESS.has(name)) return fc.constant("false");
  if (name === "tenant") return fc.constantFrom("a", "b", "a-1", "a&tenant=b", "%62", "");
  const typed =
    schema?.type === "boolean"
      ? ["true", "false"]
      : schema?.type === "integer"
        ? ["0", "1", "1000"]
        : [...(schema?.enum ?? [])];
  return typed.length > 0 ? fc.constantFrom(...typed) : texts.map(encodeURIComponent);
}

function pathValue(pattern: string, name: string): fc.Arbitrary<string> {
  if (pattern.includes("/instances/{id}") && name === "id")
    return fc.constantFrom("inst-a", planted.instance, `${planted.instance}%00`, "inst-warm");
  if (pattern.includes("/tenants/{id}") && name === "id")
    return fc.constantFrom("a", "a", "b", "b", "a-1", "%62", "b%20", "a%2F..%2Fb", "..%2Fb", "*");
  if (name === "workload" || name === "name") return fc.constantFrom("app", "app", "app%2F..%2F..%2Fb%2Fapp", "zz");
  return texts.map(encodeURIComponent);
}

/** A body with some of its texts replaced, or with fields that other bodies have. */
function changed(example: unknown): fc.Arbitrary<unknown> {
  if (typeof example === "string") return fc.oneof(fc.constant(example), words);
  if (Array.isArray(example)) return fc.tuple(...example.map(changed));
  if (typeof example !== "object" || example === null) return fc.constant(example);
  const own = fc.record(Object.fromEntries(Object.entries(example).map(([name, value]) => [name, changed(value)])));
  const more = fc.oneof(
    fc.constant({}),
    fc.tuple(fc.constantFrom(...shown), words).map(([name, value]) => ({ [name]: value })),
  );
  return fc.tuple(own, more).map((parts) => Object.assign({}, ...parts));
}

interface Sent {
  readonly target: string;
  readonly body: unknown;
}

function requestsOf(given: OpenApiDocument): fc.Arbitrary<Sent> {
  const operations = Object.entries(given.paths).flatMap(([pattern, methods]) =>
    // The audit log would count failed logins, for a minute.
    pattern === "/api/v1/session"
      ? []
      : Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), pattern, operation })),
  );
  const each = operations.map(({ method, pattern, operation }) => {
    const { parameters = [], requestBody } = operation as unknown as {
      parameters?: readonly Parameter[];
      requestBody?: { content: Readonly<Record<string, { example?: unknown }>> };
    };
    const inPath = [...pattern.matchAll(/\{(\w+)\}/g)].map(([, name = ""]) => name);
    const path = fc
      .tuple(...inPath.map((name) => pathValue(pattern, name)))
      .map((values) => inPath.reduce((text, name, at) => text.replace(`{${name}}`, values[at] ?? ""), pattern));
    const inQuery = parameters.filter((parameter) => parameter.in === "query");
    // With more, most requests would be refused for one of them.
    const query = fc
      .subarray(inQuery, { maxLength: Math.min(2, inQuery.length) })
      .chain((some) => fc.tuple(...some.map((one) => queryValue(one).map((value) => `${one.name}=${value}`))))
      .map((parts) => parts.join("&"));
    const { example } = requestBody?.content["application/json"] ?? {};
    const about = fc.constantFrom({}, { workload: "app" }, { workload: "app", uid: planted.claimUid });
    const body =
      example === undefined
        ? fc.constant(requestBody && "junk")
        : fc.tuple(changed(example), about).map((parts) => Object.assign({}, ...parts));
    return fc
      .record({ path, query, body, sent: fc.constantFrom(method, method, method, method === "GET" ? "HEAD" : "GET") })
      .map((one) => ({
        target: `${one.sent} ${one.path}${one.query && `?${one.query}`}`,
        body: one.sent === "GET" || one.sent === "HEAD" ? undefined : one.body,
      }));
  });
  return fc.oneof(...each);
}

const runs = { numRuns: Number(process.env.TENANCY_MODEL_SEQUENCES ?? 1500) };

/** What a client may do without a key of the role admin, whatever its role. */
const ADMIN_ONLY = /^\/(?:api\/v1\/)?(?:keys|debug|audit)(?:[/?]|$)/;

function checkAdminOnly({ target }: Sent, status: number): void {
  const path = new URL(target.split(" ")[1] ?? "/", "http://edge.test").pathname;
  if (ADMIN_ONLY.test(path.replace("/api/v1", ""))) assert.ok(status >= 400, `${target}: ${status}`);
}

/** The planted texts that an answer has and its request had not. */
function foundIn(answer: { text: string; headers: Headers }, { target, body }: Sent): string[] {
  const sent = `${decoded(target)} ${JSON.stringify(body)}`;
  const got = `${answer.text}\n${[...answer.headers].join("\n")}`;
  return Object.entries(planted).flatMap(([name, value]) =>
    got.includes(value) && !sent.includes(value) ? [name] : [],
  );
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

async function stateOfOther(): Promise<unknown> {
  const { cluster } = edge;
  const claim = cluster.read(claims, "claim-b-app");
  const pod = cluster.read(pods, planted.instance);
  return [claim, pod, await everything(served.store, { tenantId: "b", workloadRef: "app" })];
}

test("the planted texts are there to be seen, with the key for everything", async () => {
  const snapshots = "/api/v1/tenants/b/snapshots/app";
  const seen = [];
  for (const path of [
    ...["/api/v1/claims", "/api/v1/instances", "/api/v1/workloads", "/api/v1/triggers", "/api/v1/keys"],
    ...["/api/v1/tenants/b", `${snapshots}/files?recursive=true`, `${snapshots}/files/data/${planted.file}`],
    ...[`${snapshots}/versions`, "/api/v1/usage?by=workload&from=2026-11-29&to=2026-11-30", "/api/v1/debug/resources"],
    `/api/v1/instances/${planted.instance}?detail=true`,
  ]) {
    const answer = await ask(ROOT, `GET ${path}`);
    assert.is(answer.status, 200, `${path}: ${answer.text}`);
    seen.push(...foundIn(answer, { target: "", body: undefined }));
  }
  assert.equal([...new Set(seen)].sort(), Object.keys(planted).sort());
});

for (const role of ["tenant", "readerOfSome"])
  test(`${role}: no answer has another tenant's texts, and no request changes what is another tenant's`, async () => {
    const before = await stateOfOther();
    let answered = 0;
    await fc.assert(
      fc.asyncProperty(requestsOf(document), async (sent) => {
        const answer = await ask(keys[role] ?? "", sent.target, sent.body);
        assert.equal(foundIn(answer, sent), [], `${JSON.stringify(sent)}: ${answer.status} ${answer.text}`);
        checkAdminOnly(sent, answer.status);
        if (answer.status < 300) answered += 1;
      }),
      runs,
    );
    assert.equal(await stateOfOther(), before);
    // Of few, none may be.
    if (runs.numRuns >= 500) assert.ok(answered > runs.numRuns / 100, `${answered} of ${runs.numRuns} were answered`);
  });

for (const role of ["platform", "reader"])
  test(`${role}: keys, the dump and the audit log stay closed`, async () => {
    await fc.assert(
      fc.asyncProperty(requestsOf(document), async (sent) => {
        const answer = await ask(keys[role] ?? "", sent.target, sent.body);
        checkAdminOnly(sent, answer.status);
        const shownKeys = foundIn(answer, sent).filter((name) => name === "keyName");
        assert.equal(shownKeys, [], `${JSON.stringify(sent)}: ${answer.text}`);
      }),
      runs,
    );
  });

test.run();
