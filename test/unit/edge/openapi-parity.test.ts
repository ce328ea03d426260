// @runtimes bun
import fc from "fast-check";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { systemClock } from "../../../crds/client/clock.ts";
import { badSpecs, goodSpecs } from "../crds/specs.ts";
import { isValid, type Schema } from "./json-schema.ts";
import { type TestEdge, testEdge } from "./test-edge.ts";

const test = suite("the document and the server take the same requests");

interface Operation {
  readonly parameters: readonly {
    readonly name: string;
    readonly in: "path" | "query" | "header";
    readonly schema: Schema;
  }[];
  readonly requestBody?: { readonly content: Readonly<Record<string, { readonly schema: Schema }>> };
}
interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, Schema>> };
}

const specsOf = (kind: string) =>
  goodSpecs.filter((one) => one.kind === kind).map(({ spec }) => ({ name: "new", spec }));
/** Good bodies, from which the others are made. */
const bodies: Readonly<Record<string, readonly object[]>> = {
  "POST /api/v1/workloads": specsOf("workload"),
  "PUT /api/v1/workloads/{name}": specsOf("workload").map(({ spec }) => ({ spec, status: { phase: "Ready" } })),
  "POST /api/v1/pools": specsOf("pool"),
  "PUT /api/v1/pools/{name}": specsOf("pool").map(({ spec }) => ({ spec })),
  "POST /api/v1/triggers": specsOf("trigger"),
  "PUT /api/v1/triggers/{id}": specsOf("trigger").map(({ spec }) => ({ spec })),
  "POST /api/v1/tenants/{id}/claim": [
    { workload: "app" },
    { workloadRef: "app", resume: true },
    { workload: "app", resume: { version: "0123456789abcdef" } },
    { workload: "app", resume: { version: "before-upgrade" } },
    { workload: "app", expiresInSeconds: 60, labels: { team: "red", "a.b_c": "" } },
  ],
  "POST /api/v1/tenants/{id}/extend": [
    { workload: "app", seconds: 1 },
    { workloadRef: "app", seconds: 31_536_000, uid: "0a-1" },
  ],
  "POST /api/v1/tenants/{id}/release": [{ workload: "app" }, { workloadRef: "app", uid: "0a-1" }],
  "POST /api/v1/tenants/{id}/checkpoint": [
    { workload: "app" },
    { workloadRef: "app", name: "before-upgrade_1.2", uid: "0a-1" },
  ],
  "POST /api/v1/tenants/{id}/discard": [{ workload: "app" }, { workloadRef: "app", uid: "0a-1" }],
  "POST /api/v1/tenants/{id}/links": [{ workload: "app" }, { workload: "app", expiresInSeconds: 60, port: 8080 }],
  "POST /api/v1/tenants/{id}/snapshots/{workload}/rollback": [
    { version: "0123456789abcdef" },
    { version: "0123456789abcdef", newest: "0123456789abcdef" },
  ],
  "POST /api/v1/tenants/{id}/snapshots/{workload}/copy": [
    { tenantId: "a" },
    { tenantId: "a.b", workload: "app", version: "0123456789abcdef", replaces: "0123456789abcdef" },
  ],
  "POST /api/v1/keys": [
    { name: "a key", role: "tenant", tenants: ["alice", "team-*"] },
    { name: "a key", role: "reader", expiresInSeconds: 315_360_000 },
    { name: "😀", role: "admin" },
  ],
  "POST /api/v1/instances/{id}/exec": [{ command: ["ls", "-l"] }, { command: ["a", ""], timeoutSeconds: 3600 }],
};
for (const base of ["/api/v1/instances/{id}", "/api/v1/tenants/{id}/instances/{workload}"])
  Object.assign(bodies, {
    [`POST ${base}/processes`]: [
      { command: ["ls", "-l"], env: { A: "1", "b.c": "" }, cwd: "/data", stdin: "text", timeoutSeconds: 1 },
      { command: ["sh"], tty: { cols: 80, rows: 24 }, background: true },
    ],
    [`POST ${base}/processes/{pid}/signal`]: [{ signal: "TERM" }, { signal: "SIGUSR1" }],
  });
/** What no schema can say: only the server refuses it. */
const unsayable = [
  /\]: occurs twice/,
  /lies inside .*: remove it/,
  /portNames: each name must be of another one of ports/,
  /spec\.volumes: no mountPath may lie inside/,
  /requests\.(milliCpus|memoryMb) must not be higher than the limit/,
  /timezone: must be an IANA name/,
  /\.cron: (cannot parse|.* never matches)/,
  /inSize: must not be greater than maxSize/,
  /config\.url: required for an api guard/,
  /is an alias of body\.workload and differs/,
  /names cannot change/,
  /is named twice: remove one/,
  /is a file, and has another below it/,
  /ask for one thing/,
];

const junk = fc.constantFrom<unknown[]>(
  ...[null, true, 0, -1, 1, 1.5, 1024, 70_000, 2 ** 40, "", " ", "a", "A", "new", "app", "a b", "a\nb", "\u0000", "é"],
  ...["x".repeat(63), "x".repeat(64), "😀".repeat(64), "x".repeat(600), "/", "/data", "/data/", "/data/sub", "/proc/1"],
  ...[
    "/.tenancy",
    "..",
    "../a",
    "a/../b",
    "10.0.0.1",
    "a.b",
    "*.a.b",
    "*",
    "restricted",
    "none",
    "unrestricted",
    "cron",
  ],
  ...["webhook", "messenger", "allowlist", "api", "chatId", "driver-a", "0 0 * * *", "0 0 0 * * *", "Europe/Berlin"],
  ...["Mars", "http://x", "http://[", "0123456789abcdef", [], {}, ["a"], [""], ["", "a"], ["a", "a"], ["/a", "/a/b"]],
  ...[
    { a: 1 },
    { a: "1" },
    { "a=b": "1" },
    { version: "x" },
    { name: "s", key: "k" },
    [{ domain: "a.b", headers: [] }],
  ],
);
const change = fc.record({
  at: fc.nat(),
  how: fc.constantFrom("replace", "replace", "remove", "add", "repeat"),
  field: fc.constantFrom(
    "x",
    "name",
    "resume",
    "workload",
    "access",
    "allowlist",
    "schedule",
    "from",
    "static",
    "preSave",
  ),
  value: junk,
});
type Change = typeof change extends fc.Arbitrary<infer Value> ? Value : never;

/** The value with one place of it changed. */
function changed(value: object, { at, how, field, value: other }: Change): object {
  const copy = structuredClone(value);
  const places: [holder: Record<string, unknown>, key: string][] = [];
  (function visit(holder: Record<string, unknown>): void {
    for (const [key, held] of Object.entries(holder)) {
      places.push([holder, key]);
      if (typeof held === "object" && held !== null) visit(held as Record<string, unknown>);
    }
  })(copy as Record<string, unknown>);
  const [holder, key] = places[at % Math.max(1, places.length)] ?? [copy as Record<string, unknown>, field];
  const held = holder[key];
  if (how === "replace") holder[key] = other;
  else if (how === "remove" && Array.isArray(holder)) holder.splice(Number(key), 1);
  else if (how === "remove") delete holder[key];
  else if (how === "repeat" && Array.isArray(held)) held.push(held[0] ?? other);
  else if (typeof held === "object" && held !== null && !Array.isArray(held))
    (held as Record<string, unknown>)[field] = other;
  else if (Array.isArray(held)) held.push(other);
  else if (!Array.isArray(holder)) holder[field] = other;
  return copy;
}

async function documentOf(): Promise<Document> {
  return (await testEdge().call("GET /api/v1/openapi.json")).json as Document;
}

/** An edge that has what is asked for, and waits for nothing. */
function edgeWithAll(): TestEdge {
  const edge = testEdge({ clock: systemClock, waitLimitMs: 1, hasKeys: true });
  edge.cluster.addWorkload("app");
  return edge;
}

for (const [route, good] of Object.entries(bodies)) {
  test(`bodies of ${route}`, async () => {
    const { paths, components } = await documentOf();
    const [method = "", path = ""] = route.split(" ");
    const schema = paths[path]?.[method.toLowerCase()]?.requestBody?.content["application/json"]?.schema ?? false;
    const target = `${method} ${path
      .replace("{id}", "inst-a")
      .replace("{pid}", "1")
      .replace(/\{(name|workload)\}/, "app")}`;
    const edge = edgeWithAll();
    const seen = { both: 0, neither: 0 };
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...good), fc.array(change, { maxLength: 3 }), async (body, changes) => {
        const sent = changes.reduce(changed, body);
        const documented = isValid(sent, schema, components.schemas);
        const { status, text } = await edge.call(target, { body: sent });
        const isTaken = status !== 400;
        if (documented === isTaken) seen[isTaken ? "both" : "neither"] += 1;
        else
          assert.ok(
            documented && unsayable.some((message) => message.test(text)),
            `${documented ? "documented" : "not documented"}, answered ${status} ${text}: ${JSON.stringify(sent)}`,
          );
      }),
      { numRuns: 500 },
    );
    assert.ok(seen.both > 50 && seen.neither > 50, JSON.stringify(seen));
  });
}

test("bodies with one known mistake", async () => {
  const { components } = await documentOf();
  const edge = edgeWithAll();
  for (const { kind, spec, title } of badSpecs) {
    const route = `POST /api/v1/${kind}s`;
    const { status, text } = await edge.call(route, { body: { name: "new", spec } });
    assert.is(status, 400, title);
    const schema = { $ref: `#/components/schemas/${kind[0]?.toUpperCase()}${kind.slice(1)}Spec` };
    const isDocumented = isValid(spec, schema, components.schemas);
    assert.is(isDocumented, isDocumented && unsayable.some((message) => message.test(text)), `${title}: ${text}`);
  }
});

const words = [
  ...["a", "app", "A", "-a", "a-", "a.b", "a_b", "a..b", "é", "a b", "x".repeat(63), "x".repeat(64), "x".repeat(253)],
  ...["x".repeat(254), "0", "1", "200", "100000", "100001", "-1", "1.5", "true", "false", "True", "", "instance"],
  ...[
    "claim.active",
    "instance,claim.active",
    "instance,",
    "claimXactive",
    "pod",
    "test-1",
    "1000",
    "1001",
    "Active",
    "Error,Pending",
    "Running",
  ],
];

test("parameters", async () => {
  const { paths, components } = await documentOf();
  const edge = edgeWithAll();
  let taken = 0;
  for (const [path, methods] of Object.entries(paths)) {
    for (const [method, { parameters }] of Object.entries(methods)) {
      for (const one of [...parameters, { name: "unknown", in: "query" as const, schema: false }]) {
        for (const word of words) {
          if (one.in === "header" || (one.in === "path" && word === "")) continue;
          const filled = path.replaceAll(/\{(\w+)\}/g, (_, name) =>
            one.in === "path" && name === one.name ? encodeURIComponent(word) : name === "pid" ? "1" : "app",
          );
          const query = one.in === "query" ? `?${one.name}=${encodeURIComponent(word)}` : "";
          const documented = isValid(read(word, one.schema), one.schema, components.schemas);
          const answered = await answer(edge, { method: method.toUpperCase(), target: `${filled}${query}`, path });
          const { status } = answered;
          const what = `${method} ${filled}${query} is ${documented ? "" : "not "}documented, answered ${status}`;
          const isUnsayable = documented && unsayable.some((message) => message.test(answered.text));
          assert.is(status !== 400 || isUnsayable, documented, what);
          if (documented) taken += 1;
        }
      }
    }
  }
  assert.ok(taken > 100);
});

/** What a word in an address stands for, by the type that the schema gives it. */
function read(word: string, schema: Schema): unknown {
  const type = typeof schema === "object" ? schema.type : undefined;
  if (type === "integer") return /^(?:0|-?[1-9]\d*)$/.test(word) ? Number(word) : word;
  return type === "boolean" && (word === "true" || word === "false") ? word === "true" : word;
}

async function answer(
  edge: TestEdge,
  { method, target, path }: { method: string; target: string; path: string },
): Promise<{ status: number; text: string }> {
  const body = { ...bodies[`${method} ${path}`]?.[0] };
  const headers: Record<string, string> = {
    "content-type": "application/json",
    ...(/\/(ws|attach|terminal)$/.test(path) && {
      ...{ connection: "upgrade", upgrade: "websocket", "sec-websocket-version": "13" },
      "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }),
  };
  const init = { method, headers, ...(method === "POST" || method === "PUT" ? { body: JSON.stringify(body) } : {}) };
  const upgrade = () => new Response(null, { status: 204 });
  const response = await edge.handler(new Request(`http://edge.test${target}`, init), { upgrade });
  return { status: response.status, text: await response.text() };
}

test.run();
