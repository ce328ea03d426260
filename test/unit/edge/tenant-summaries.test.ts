// @runtimes bun node deno
import * as assert from "uvu/assert";
import { readQuotas, type TenantQuotas } from "../../../crds/quotas/tenant-quotas.ts";
import type { SnapshotStore } from "../../../crds/snapshots/snapshot-store.ts";
import { tenantOrder } from "../../../crds/snapshots/store-pages.ts";
import { save } from "../snapshots/store-contract.ts";
import { volumeSuite } from "../snapshots/volume-suite.ts";
import { type TestEdge, testEdge } from "./test-edge.ts";

const test = volumeSuite("GET /api/v1/tenant-summaries");

interface Summary {
  readonly tenantId: string;
  readonly saved: { readonly workloads: number; readonly versions: number; readonly bytes: number };
  readonly class?: string;
  readonly limits: object;
}

function quotasOf(value: object): { current: () => TenantQuotas; problem: () => undefined } {
  const quotas = readQuotas({ data: { "quotas.yaml": JSON.stringify(value) } });
  if (typeof quotas === "string") throw new Error(quotas);
  return { current: () => quotas, problem: () => undefined };
}

const noQuotas = quotasOf({});

function edgeOf({ store }: { store: SnapshotStore }, quotas = noQuotas): TestEdge {
  const edge = testEdge({ store, quotas });
  edge.cluster.addSnapshots();
  return edge;
}

async function saveFor(store: SnapshotStore, tenants: readonly string[]): Promise<void> {
  for (const tenantId of tenants) await save(store, "saved", { tenantId, workloadRef: "app" });
}

/** The ids of all pages, and the size of each page. */
async function idsOf(edge: TestEdge, query: string): Promise<{ ids: string[]; sizes: number[] }> {
  const ids: string[] = [];
  const sizes: number[] = [];
  for (let after = ""; ; ) {
    const { json, headers, status, text } = await edge.call(`GET /api/v1/tenant-summaries?${query}${after}`);
    assert.is(status, 200, text);
    const page = (json as Summary[]).map(({ tenantId }) => tenantId);
    ids.push(...page);
    sizes.push(page.length);
    const next = headers.get("x-tenancy-next");
    if (next === null) return { ids, sizes };
    after = `&after=${next}`;
  }
}

test("a summary has the tenant's versions, their bytes, its class, and what it uses of its limits", async (context) => {
  const { store } = context;
  const quotas = quotasOf({
    classes: { paid: { activeClaims: 3, snapshotMb: 2 }, free: { startsPerMinute: 1 } },
    default: "free",
    tenants: { alice: "paid", carol: { vcpus: 4 } },
  });
  const edge = edgeOf(context, quotas);
  edge.cluster.addWorkload("app");
  const active = { phase: "Active", instanceId: "inst-a" } as const;
  edge.cluster.addClaim({ tenantId: "alice", workloadRef: "app", status: active });
  edge.cluster.addClaim({ tenantId: "bob", workloadRef: "app", status: active });
  for (const content of ["one", "three"])
    await save(store, content, { tenantId: "alice", workloadRef: "app" }, { keep: "replaced" });
  await save(store, "one", { tenantId: "alice", workloadRef: "notes" });
  const { json } = await edge.call("GET /api/v1/tenant-summaries");
  const [alice, ...others] = json as Summary[];
  assert.ok(alice);
  assert.is(alice.saved.workloads, 2);
  assert.is(alice.saved.versions, 3);
  assert.ok(alice.saved.bytes > 0);
  assert.is(alice.class, "paid");
  assert.equal(alice.limits, { activeClaims: { limit: 3, used: 1 }, snapshotMb: { limit: 2, used: 1 } });
  const none = { workloads: 0, versions: 0, bytes: 0 };
  assert.equal(others, [
    { tenantId: "bob", saved: none, class: "free", limits: { startsPerMinute: { limit: 1 } } },
    { tenantId: "carol", saved: none, limits: { vcpus: { limit: 4, used: 0 } } },
  ]);
});

test("pages have each tenant once, by the order of the saved files, whatever it is known by", async (context) => {
  const saved = ["a", "a-b", "a.b", "ab", "B", "b_c", "z9", "0"];
  const claiming = ["a-c", "b", "a"];
  const edge = edgeOf(context, quotasOf({ classes: { c: {} }, tenants: { named: "c", a: "c", "many*": "c" } }));
  await saveFor(context.store, saved);
  for (const tenantId of claiming) edge.cluster.addClaim({ tenantId, workloadRef: "app" });
  const all = [...new Set([...saved, ...claiming, "named"])];
  all.sort((a, b) => (tenantOrder(a) < tenantOrder(b) ? -1 : 1));
  for (const limit of [1, 2, 3, 100]) {
    const { ids, sizes } = await idsOf(edge, `limit=${limit}`);
    assert.equal(ids, all, String(limit));
    assert.ok(
      sizes.slice(0, -1).every((size) => size === limit),
      String(sizes),
    );
  }
});

test("a prefix finds those whose ids begin with it, in the store and elsewhere", async (context) => {
  const saved = ["acme", "acme-1", "acme-2.x", "acme.z", "acmd", "acmdz", "acmf", "acme_0", "acme0", "acmeZ", "9"];
  const edge = edgeOf(context);
  await saveFor(context.store, saved);
  edge.cluster.addClaim({ tenantId: "acme-claims", workloadRef: "app" });
  const all = [...saved, "acme-claims"];
  const longest = "a".repeat(63);
  for (const prefix of [
    "a",
    "acme",
    "acme-",
    "acme.",
    "acme_",
    "acme0",
    "acmeZ",
    "9",
    "0",
    "zz",
    "acme-2.x",
    longest,
  ]) {
    for (const limit of [1, 100]) {
      const { ids } = await idsOf(edge, `prefix=${prefix}&limit=${limit}`);
      const expected = all.filter((id) => id.startsWith(prefix));
      assert.equal([...ids].sort(), expected.sort(), `${prefix} ${limit}`);
    }
  }
});

test("a prefix reads only its part of the store", async (context) => {
  const { store } = context;
  await saveFor(store, [...Array.from({ length: 20 }, (_, at) => `b${at}`), "c1", "c2", "d"]);
  const listed: string[] = [];
  const list: SnapshotStore["list"] = async (...given) => {
    const page = await store.list(...given);
    listed.push(...page.items.map(({ tenantId }) => tenantId));
    return page;
  };
  const { ids } = await idsOf(edgeOf({ store: { ...store, list } }), "prefix=c");
  assert.equal(ids, ["c1", "c2"]);
  assert.equal(listed, ["c1", "c2", "d"]);
});

test("named tenants are answered whatever they have, and no others", async (context) => {
  const edge = edgeOf(context);
  await saveFor(context.store, ["alice", "bob"]);
  assert.equal((await idsOf(edge, "tenants=nemo,bob,bob")).ids, ["bob", "nemo"]);
  assert.equal((await idsOf(edge, "tenants=nemo,bob&limit=1")).sizes, [1, 1]);
  const ids = Array.from({ length: 101 }, (_, at) => `t${at}`);
  assert.is((await idsOf(edge, `tenants=${ids.slice(1).join()}`)).ids.length, 100);
  for (const query of [`tenants=${ids.join()}`, "tenants=", "tenants=a,-b", "prefix=-", "prefix=a/", "after=-"])
    assert.is((await edge.call(`GET /api/v1/tenant-summaries?${query}`)).status, 400, query);
});

test("without a snapshots volume the tenants with claims are listed", async ({ store }) => {
  const edge = testEdge({ store });
  edge.cluster.addClaim({ tenantId: "alice", workloadRef: "app" });
  assert.equal((await idsOf(edge, "")).ids, ["alice"]);
});

test.run();
