// @runtimes bun node deno
// What is refused is not read from the table of routes: what matters is what answers contain, and what is unchanged.
import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { systemClock } from "../../../crds/client/clock.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import { controlRoutes } from "../../../edge/e2b/control/routes.ts";
import type { Route } from "../../../edge/http/router.ts";
import { active } from "../edge/claim-calls.ts";
import { type SnapshotsFolder, snapshotsFolder } from "../edge/snapshots-folder.ts";
import { type TestEdge, testEdge } from "../edge/test-edge.ts";
import { call, everything, save } from "../snapshots/store-contract.ts";
import { type ServedStore, serveStore } from "../snapshots/store-server.ts";
import { ask, keyOf, ROOT } from "./sandbox-calls.ts";

const test = suite("what a key sees of other tenants' sandboxes");

/** Letters, since some texts are names. */
const random = (): string => `s${randomBytes(8).toString("hex")}`;
const planted = { metadata: random(), version: random(), environment: random(), instance: `inst-${random()}` };
const volume: SnapshotsFolder = snapshotsFolder();
let served: ServedStore;
let edge: TestEdge;
let routes: readonly Route[];
const keys: Record<string, string> = {};

test.before(async () => {
  served = await serveStore(volume.path);
  edge = testEdge({ apiKey: ROOT, hasKeys: true, clock: systemClock, waitLimitMs: 1, store: served.store });
  const { cluster } = edge;
  const { cache, namespace } = cluster;
  cluster.addSnapshots();
  for (const name of ["app", "web"])
    cluster.addWorkload(name, { entrypoint: { start: "OnClaim" }, filesystem: { overlayDirs: ["/data"] } });
  routes = controlRoutes({ cache, namespace, clock: systemClock } as never);
  for (const [tenantId, text] of [
    ["a", () => "of-a"],
    ["b", (one: string) => one],
  ] as const) {
    const metadata = { user: text(planted.metadata) };
    const by = { kind: "root", id: "root", ref: "root" };
    const annotations = { [annotation.e2b]: JSON.stringify({ metadata, by, autoPause: false }) };
    const instanceId = tenantId === "b" ? planted.instance : "inst-a";
    cluster.podOf(
      cluster.add(claims, {
        metadata: { name: `claim-${tenantId}-app`, namespace, annotations, finalizers: ["tenancy.dev/release"] },
        spec: { tenantId, workloadRef: "app", resume: false, inputs: { env: { SECRET: text(planted.environment) } } },
        status: { ...active, instanceId },
      }),
    );
    for (const workloadRef of ["app", "web"]) {
      const key = { tenantId, workloadRef };
      const { metadata } = await save(served.store, `${tenantId} ${workloadRef}`, key);
      await served.store.setName(key, { sha256: metadata.sha256, name: text(planted.version) }, call);
    }
  }
  keys.tenant = await keyOf(edge, { role: "tenant", tenants: ["a", "a-*"] });
  keys.exact = await keyOf(edge, { role: "tenant", tenants: ["a"] });
  keys.readerOfSome = await keyOf(edge, { role: "reader", tenants: ["a", "a-*"] });
  keys.ofWorkload = await keyOf(edge, { role: "tenant", tenants: ["a", "b"], workloads: ["other"] });
});

test.after(async () => {
  await served?.close();
  volume.remove();
});

async function stateOfB(): Promise<unknown> {
  const kept = (workloadRef: string) => everything(served.store, { tenantId: "b", workloadRef });
  const { cluster } = edge;
  return [
    cluster.read(claims, "claim-b-app"),
    cluster.read(pods, planted.instance),
    await kept("app"),
    await kept("web"),
  ];
}

/** The planted texts that an answer has and its request had not. */
function foundIn(answer: { text: string; headers: Headers }, sent: string): string[] {
  const got = `${answer.text}\n${[...answer.headers].join("\n")}`;
  return Object.entries(planted).flatMap(([name, value]) =>
    got.includes(value) && !sent.includes(value) ? [name] : [],
  );
}

test("the planted texts are there to be seen, with the key for everything", async () => {
  const seen = [];
  for (const path of ["/v2/sandboxes", "/snapshots", "/sandboxes/app--b"])
    seen.push(...foundIn(await ask(edge, `GET ${path}`), ""));
  assert.equal([...new Set(seen)].sort(), ["metadata", "version"]);
});

for (const name of ["tenant", "exact", "readerOfSome", "ofWorkload"])
  test(`${name}: another's sandbox is answered as one that does not exist, by every route`, async () => {
    const before = await stateOfB();
    const key = keys[name] ?? "";
    for (const { method, path } of routes) {
      if (!path.includes(":sandbox")) continue;
      const answers = [];
      for (const id of ["app--b", "web--b", "app--x", "none--b", "nothing"]) {
        const target = `${method} ${path.replace("/e2b", "").replace(":sandbox", id)}`;
        const body =
          method === "GET" || method === "DELETE" ? undefined : path.endsWith("timeout") ? { timeout: 60 } : {};
        const answer = await ask(edge, target, { key, body });
        assert.ok(
          answer.status === 404 || (name === "readerOfSome" && answer.status === 403),
          `${target}: ${answer.text}`,
        );
        answers.push(`${answer.status} ${answer.text.replace(id, "ID")}`);
      }
      assert.is(new Set(answers).size, 1, answers.join("\n"));
    }
    assert.equal(await stateOfB(), before);
  });

test("another's snapshot is no template, and cannot be deleted", async () => {
  const before = await stateOfB();
  for (const name of ["tenant", "exact", "ofWorkload"]) {
    const answers = [];
    for (const id of [`web--b:${planted.version}`, "web--x:v1"]) {
      const key = keys[name] ?? "";
      for (const [target, body] of [
        [`DELETE /templates/${encodeURIComponent(id)}`, undefined],
        ["POST /v2/sandboxes", { templateID: id }],
      ] as const) {
        const { status, text } = await ask(edge, target, { key, body });
        assert.is(status, 404, text);
        answers.push(text.replace(id, "ID"));
      }
    }
    assert.equal(answers.slice(0, 2), answers.slice(2));
  }
  assert.equal(await stateOfB(), before);
});

const ids = [
  "app--a",
  "app--b",
  "web--b",
  "web--a",
  "app--a-1",
  "--",
  "app--",
  "--b",
  "app--%62",
  "app--b%00",
  "a%2Fb",
  "*",
];
const words = fc.constantFrom(
  ...ids,
  "a",
  "b",
  "a-1",
  "app",
  "web",
  "",
  "..",
  "0",
  "1",
  "running",
  "paused",
  "asc",
  "user=x",
);
const templates = fc.constantFrom(
  "app",
  "web",
  "app:x",
  "t/app",
  "app--a:of-a",
  `web--b:${planted.version}`,
  "none",
  "",
);
const value = fc.oneof(
  { arbitrary: words, weight: 4 },
  fc.constantFrom<unknown>(
    1,
    0,
    -1,
    60,
    true,
    false,
    null,
    [],
    {},
    ["a"],
    { a: "b" },
    { tenant: "b" },
    { tenant: "a-1" },
  ),
);
const names = [
  ...[
    "templateID",
    "timeout",
    "metadata",
    "envVars",
    "autoPause",
    "secure",
    "network",
    "mcp",
    "memory",
    "name",
    "count",
  ],
  ...["duration", "volumeMounts", "iam", "autoResume", "allow_internet_access", "constructor", "__proto__"],
];
const bodies = fc.oneof(
  fc.record({
    templateID: templates,
    metadata: fc.constantFrom({}, { tenant: "a" }, { tenant: "b" }, { tenant: "a-2" }),
  }),
  fc.record({ timeout: fc.constantFrom(0, 1, 60), memory: fc.constantFrom(true, false, null) }, { requiredKeys: [] }),
  fc.constant({}),
  fc.dictionary(fc.constantFrom(...names), value, { maxKeys: 4 }),
);

function requestOf({ method, path, query }: Route) {
  const values = fc.array(path.includes(":template") ? fc.oneof(templates, words) : words, {
    minLength: 3,
    maxLength: 3,
  });
  const asked = query === undefined || query === "any" ? ["limit"] : Object.keys(query);
  const pairs = fc.array(fc.tuple(fc.constantFrom(...asked), words), { maxLength: 2 });
  return fc.record({ values, pairs, body: bodies }).map(({ values, pairs, body }) => {
    let at = 0;
    const filled = path.replace("/e2b", "").replaceAll(/:\w+/g, () => values[at++] ?? "");
    const text = pairs.map(([name, one]) => `${name}=${encodeURIComponent(one)}`).join("&");
    const target = `${method} ${filled}${text && `?${text}`}`;
    return { target, body: method === "GET" || method === "DELETE" ? undefined : body };
  });
}

const runs = { numRuns: Number(process.env.TENANCY_MODEL_SEQUENCES ?? 1000) };

for (const name of ["tenant", "exact", "readerOfSome", "ofWorkload"])
  test(`${name}: no answer has another tenant's texts, none is a failure, and nothing of another changes`, async () => {
    const before = await stateOfB();
    await fc.assert(
      fc.asyncProperty(fc.oneof(...routes.map(requestOf)), async ({ target, body }) => {
        const answer = await ask(edge, target, { key: keys[name] ?? "", body });
        const sent = `${decodeURIComponent(target.replaceAll("%00", ""))} ${JSON.stringify(body)}`;
        assert.equal(foundIn(answer, sent), [], `${sent}: ${answer.status} ${answer.text}`);
        assert.is.not(answer.status, 500, `${sent}: ${answer.text}`);
        if (answer.status < 400) return;
        const { code, message } = answer.json as { code: number; message: string };
        assert.is(code, answer.status);
        assert.type(message, "string");
      }),
      runs,
    );
    assert.equal(await stateOfB(), before);
  });

test.run();
