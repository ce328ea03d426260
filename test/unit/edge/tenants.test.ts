// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim, ClaimStatus } from "../../../crds/claim.ts";
import { type TestEdge, testEdge } from "./test-edge.ts";

const test = suite("tenants and stats");

test("a tenant shows its claims by workload, an unknown one shows none", async () => {
  const edge = testEdge();
  edge.cluster.addClaim({
    tenantId: "a",
    workloadRef: "z",
    status: { phase: "Active", instanceId: "i", source: "cold" },
  });
  edge.cluster.addClaim({ tenantId: "a", workloadRef: "b" });
  edge.cluster.addClaim({ tenantId: "A", workloadRef: "z", name: "other" });
  assert.equal((await edge.call("GET /api/v1/tenants/a")).json, {
    tenantId: "a",
    claims: [
      { tenantId: "a", phase: "Pending", workloadRef: "b" },
      { tenantId: "a", phase: "Active", instanceId: "i", source: "cold", workloadRef: "z" },
    ],
  });
  const unknown = await edge.call("GET /api/v1/tenants/nobody");
  assert.is(unknown.status, 200);
  assert.equal(unknown.json, { tenantId: "nobody", claims: [] });
  assert.equal(edge.cluster.calls, []);
});

test("an endpoint is shown only where the pod has it", async () => {
  const status: ClaimStatus = { phase: "Active", instanceId: "i", endpoint: { host: "10.0.0.9", port: 8080 } };
  const shown = async (change: (edge: TestEdge, made: Claim) => unknown) => {
    const edge = testEdge();
    const made = edge.cluster.addClaim({ tenantId: "a", workloadRef: "z", status });
    change(edge, made);
    const one = (await edge.call("GET /api/v1/tenants/a")).json as { claims: { endpoint?: object }[] };
    assert.equal((await edge.call("GET /api/v1/tenants")).json, [one]);
    return one.claims[0]?.endpoint;
  };
  assert.equal(await shown(() => undefined), status.endpoint);
  for (const lose of [
    (edge: TestEdge) => edge.cluster.removePod("i"),
    (edge: TestEdge, made: Claim) => edge.cluster.podOf(made, { podIP: undefined }),
    (edge: TestEdge, made: Claim) => edge.cluster.podOf(made, { podIP: "10.0.0.77" }),
    (edge: TestEdge, made: Claim) => edge.cluster.podOf(made, { tenantId: "b", uid: "another" }),
    (edge: TestEdge) => edge.cluster.setStatus("claim-a-z", { ...status, phase: "Releasing" }),
    (edge: TestEdge, made: Claim) =>
      edge.cluster.addClaim({ ...made.spec, uid: made.metadata.uid ?? "", status, destroyed: "i" }),
  ]) {
    assert.is(await shown(lose), undefined, String(lose));
  }
});

test("the list of tenants is derived from claims, in order", async () => {
  const edge = testEdge();
  assert.equal((await edge.call("GET /api/v1/tenants")).json, []);
  edge.cluster.addClaim({ tenantId: "b", workloadRef: "x" });
  edge.cluster.addClaim({ tenantId: "__proto__", workloadRef: "x", name: "odd" });
  edge.cluster.addClaim({ tenantId: "a", workloadRef: "y" });
  edge.cluster.addClaim({ tenantId: "b", workloadRef: "a" });
  const list = (await edge.call("GET /api/v1/tenants")).json as {
    tenantId: string;
    claims: { workloadRef: string }[];
  }[];
  assert.equal(
    list.map(({ tenantId, claims }) => [tenantId, ...claims.map(({ workloadRef }) => workloadRef)]),
    [
      ["__proto__", "x"],
      ["a", "y"],
      ["b", "a", "x"],
    ],
  );
});

test("stats count instances and claims by phase", async () => {
  const edge = testEdge();
  assert.equal((await edge.call("GET /api/v1/stats")).json, {
    instances: { total: 0, byPhase: {} },
    claims: { total: 0, byPhase: {} },
    snapshots: { archives: 0, bytes: 0 },
  });
  edge.cluster.addPod("p1", "Running");
  edge.cluster.addPod("p2", "Running");
  edge.cluster.addPod("p3", "Pending");
  edge.cluster.addClaim({ tenantId: "a", workloadRef: "x" });
  edge.cluster.addClaim({ tenantId: "b", workloadRef: "x", status: { phase: "Active" } });
  assert.equal((await edge.call("GET /api/v1/stats")).json, {
    instances: { total: 3, byPhase: { Running: 2, Pending: 1 } },
    claims: { total: 2, byPhase: { Pending: 1, Active: 1 } },
    snapshots: { archives: 0, bytes: 0 },
  });
  edge.cluster.setStatus("claim-a-x", { phase: "Error" });
  edge.cluster.removeClaim("claim-b-x");
  assert.equal(((await edge.call("GET /api/v1/stats")).json as { claims: object }).claims, {
    total: 1,
    byPhase: { Error: 1 },
  });
});

test.run();
