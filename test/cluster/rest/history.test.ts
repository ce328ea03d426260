import { suite } from "uvu";
import * as assert from "uvu/assert";
import { annotation } from "../../../crds/labels.ts";
import type { ApiTypes } from "../../../edge/api/openapi/schemas.ts";
import { startTenancy, type Tenancy } from "../tenancy.ts";
import { type RestEdge, startRestEdge } from "./rest-edge.ts";

const test = suite("what an edge remembers of the last hour");
let tenancy: Tenancy;
let edge: RestEdge;

test.before(async () => {
  tenancy = await startTenancy("history");
  tenancy.startOperator();
  await tenancy.createWorkload("app");
  await tenancy.createPool("warm", { workloadRef: "app", size: 2 });
  await tenancy.untilPool("warm", ({ status }) => status?.ready === 2);
  edge = await startRestEdge("bun", { KUBECONFIG: tenancy.cluster.kubeconfigPath });
});
test.after(async () => {
  await edge?.stop();
  await tenancy?.stop();
});

const claim = async (tenant: string) => {
  const annotations = { [annotation.requestedAt]: new Date().toISOString() };
  const { metadata } = await tenancy.createClaim(tenant, "app", { annotations });
  return (await tenancy.untilClaim(metadata.name, { phase: "Active" })).status?.source;
};
const poolHistory = async () =>
  (await edge.call("GET /api/v1/pools/{name}/history", { path: "/api/v1/pools/warm/history" }))
    .json as ApiTypes["PoolHistory"];
const sum = (numbers: readonly number[]) => numbers.reduce((total, one) => total + one, 0);

test("a claim from a pool is a hit, the pod that follows a refill, a claim without a pod a miss, a failure an error", async () => {
  const first = await poolHistory();
  assert.equal([first.ready.at(-1), sum(first.hits), sum(first.refilled)], [2, 0, 0]);
  assert.is(await claim("alice"), "pool");
  const refilled = await tenancy.until("the refill", async () => {
    const now = await poolHistory();
    return sum(now.refilled) === 1 && now.ready.at(-1) === 2 && now;
  });
  assert.is(sum(refilled.hits), 1);
  assert.ok(refilled.lowest.includes(1));
  assert.is(refilled.since, first.since);

  await edge.call("PUT /api/v1/pools/{name}", {
    path: "/api/v1/pools/warm",
    body: { spec: { workloadRef: "app", size: 0 } },
  });
  await tenancy.until("no warm pod", async () => (await poolHistory()).ready.at(-1) === 0);
  assert.is(await claim("bob"), "cold");
  await tenancy.until("the miss", async () => sum((await poolHistory()).misses) === 1);
  const { ready, lowest, warming, hits, misses } = await poolHistory();
  assert.is(new Set([ready, lowest, warming, hits, misses].map(({ length }) => length)).size, 1);
  assert.is(sum(hits), 1, "pods that a smaller size deletes are given to nobody");

  const { json } = await edge.call("GET /api/v1/history/claims");
  const { sources, errors, replica } = json as ApiTypes["ClaimHistory"];
  assert.equal(
    sources.map(({ source, hour }) => [source, hour.claims]),
    [
      ["pool", 1],
      ["pool+data", 0],
      ["cold", 1],
      ["cold+data", 0],
    ],
  );
  assert.ok(Number(sources[0]?.hour.p50Ms) >= 1);
  assert.is(sum(errors), 0);
  assert.is(replica, refilled.replica);
  assert.equal(edge.problems, []);
});

test.run();
