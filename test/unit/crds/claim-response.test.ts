// @runtimes bun node deno
import { test } from "uvu";
import * as assert from "uvu/assert";
import { claimResponse } from "../../../crds/claims/claim-response.ts";

const metadata = { name: "claim-alice-desktop" };
const spec = { tenantId: "alice", workloadRef: "desktop" };

test("claimResponse: has its fields and the workload", () => {
  const status = {
    phase: "Active" as const,
    instanceId: "inst-alice-desktop-x",
    endpoint: { host: "10.0.0.1", port: 8080 },
    source: "pool+data" as const,
    claimedAt: "2026-01-01T00:00:00Z",
    attempt: "1",
    podIncarnation: 1,
  };
  const { attempt, podIncarnation, ...shown } = status;
  assert.equal(claimResponse({ metadata, spec, status }), { tenantId: "alice", workloadRef: "desktop", ...shown });
});

test("claimResponse: leaves out what is not known yet", () => {
  assert.equal(claimResponse({ metadata, spec }), { tenantId: "alice", phase: "Pending", workloadRef: "desktop" });
});

test("claimResponse: shows no endpoint of a claim whose pod was destroyed, or that is not Active", () => {
  const status = { phase: "Active" as const, instanceId: "inst-1", endpoint: { host: "10.0.0.1", port: 8080 } };
  const { endpoint, ...rest } = status;
  const destroyed = { ...metadata, annotations: { "tenancy.dev/destroyed": "inst-1" } };
  assert.equal(claimResponse({ metadata: destroyed, spec, status }), { ...spec, ...rest });
  const before = { ...metadata, annotations: { "tenancy.dev/destroyed": "inst-0" } };
  assert.equal(claimResponse({ metadata: before, spec, status }), { ...spec, ...status });
  for (const phase of ["Pending", "Releasing", "Released", "ReleaseFailed", "Error"] as const)
    assert.equal(claimResponse({ metadata, spec, status: { ...status, phase } }), { ...spec, ...rest, phase });
});

test("claimResponse: says why a claim failed", () => {
  const status = { phase: "Error" as const, reason: "WorkloadNotFound", message: "no workload desktop" };
  assert.equal(claimResponse({ metadata, spec, status }), { tenantId: "alice", workloadRef: "desktop", ...status });
});

test.run();
