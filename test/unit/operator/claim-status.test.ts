import { test } from "uvu";
import * as assert from "uvu/assert";
import type { Claim, ClaimStatus } from "../../../crds/claim.ts";
import { claims } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import { type ClaimStatusPatch, hasCurrentConditions, patchClaimStatus } from "../../../operator/claim/claim-status.ts";
import { testOperator } from "./test-operator.ts";

const endpoint = { host: "10.0.0.1", port: 8080 };
const saved = {
  type: "FilesSaved",
  status: "False",
  reason: "SaveFailed",
  message: "m",
  lastTransitionTime: "2026-01-01T00:00:00Z",
} as const;

/** The claim as a patch of its status leaves it. */
async function patched(
  status: ClaimStatus | undefined,
  patch: ClaimStatusPatch,
  metadata: Partial<Claim["metadata"]> = {},
): Promise<Claim> {
  const { api, context } = testOperator();
  const spec = { tenantId: "t", workloadRef: "w" };
  const claim: Claim = { metadata: { name: "c", ...metadata }, spec, ...(status !== undefined && { status }) };
  return patchClaimStatus(api.add(claims, claim), patch, context);
}

const cases: [title: string, status: ClaimStatusPatch, holds: "Ready" | "Reconciling" | "Stalled", reason: string][] = [
  ["Active with an endpoint", { phase: "Active", endpoint }, "Ready", "Active"],
  ["Active with files that it was not given", { phase: "Active", endpoint, message: "has files" }, "Ready", "Active"],
  ["Active without an endpoint", { phase: "Active", endpoint: null }, "Reconciling", "NoEndpoint"],
  ["Active, its program failing", { phase: "Active", endpoint, reason: "CrashLooping" }, "Stalled", "CrashLooping"],
  [
    "Active, its program started again",
    { phase: "Active", endpoint, reason: "ProgramEnded" },
    "Reconciling",
    "ProgramEnded",
  ],
  ["Pending", { phase: "Pending" }, "Reconciling", "Pending"],
  ["Pending for want of a node", { phase: "Pending", reason: "Unschedulable" }, "Reconciling", "Unschedulable"],
  ["Releasing", { phase: "Releasing" }, "Reconciling", "Releasing"],
  ["ReleaseFailed and tried again", { phase: "ReleaseFailed", reason: "SaveFailed" }, "Reconciling", "SaveFailed"],
  ["ReleaseFailed for long", { phase: "ReleaseFailed", reason: "RetryLimitExceeded" }, "Stalled", "RetryLimitExceeded"],
  ["Error", { phase: "Error", reason: "Duplicate", message: "m" }, "Stalled", "Duplicate"],
  [
    "Error until its workload is there",
    { phase: "Error", reason: "WorkloadNotFound" },
    "Reconciling",
    "WorkloadNotFound",
  ],
];
test("patchClaimStatus: the condition of an Active claim tells how it came to its instance", async () => {
  const timeline: ClaimStatus["timeline"] = [
    { step: "Requested", at: "2026-01-01T00:00:00.000Z" },
    { step: "Active", at: "2026-01-01T00:00:03.460Z" },
  ];
  const given: ClaimStatusPatch = { instanceId: "inst-t-w-abc", source: "cold", timeline };
  const claim = await patched(undefined, { phase: "Active", endpoint, ...given });
  const ready = claim.status?.conditions?.find(({ type }) => type === "Ready");
  assert.is(ready?.message, "instance inst-t-w-abc runs for the tenant (source cold, ready 3.5 s after the request)");
  assert.ok(hasCurrentConditions(claim));
});

for (const [title, status, holds, reason] of cases) {
  test(`patchClaimStatus: ${holds} holds of a claim that is ${title}`, async () => {
    const conditions = (await patched(undefined, status)).status?.conditions ?? [];
    assert.equal(
      conditions.map((condition) => [condition.type, condition.status, condition.reason]),
      holds === "Ready"
        ? [["Ready", "True", reason]]
        : [
            ["Ready", "False", reason],
            [holds, "True", reason],
          ],
    );
    // Kubernetes 1.20 refuses empty text.
    for (const { message } of conditions) assert.ok(message);
  });
}

test("patchClaimStatus: a claim whose pod was destroyed is Stalled, since it waits to be claimed again", async () => {
  const annotations = { [annotation.destroyed]: "inst-1" };
  const { status } = await patched({ phase: "Active", instanceId: "inst-1" }, { endpoint: null }, { annotations });
  assert.equal(
    status?.conditions?.map(({ type }) => type),
    ["Ready", "Stalled"],
  );
});

test("patchClaimStatus: lastTransitionTime moves with the status alone, and other conditions stay", async () => {
  const lastTransitionTime = "2026-01-01T00:00:00Z";
  const ready = { type: "Ready", status: "False", reason: "Pending", message: "m", lastTransitionTime } as const;
  const before: ClaimStatus = { phase: "Pending", conditions: [ready, saved] };
  const waiting = await patched(before, { phase: "Pending", reason: "Unschedulable" });
  const [still, reconciling, ...others] = waiting.status?.conditions ?? [];
  assert.is(still?.lastTransitionTime, lastTransitionTime);
  assert.is(reconciling?.type, "Reconciling");
  assert.ok(Date.parse(reconciling?.lastTransitionTime ?? "") > Date.parse(lastTransitionTime));
  assert.equal(others, [saved]);
  const active = await patched(waiting.status, { phase: "Active", reason: null, endpoint });
  assert.ok(Date.parse(active.status?.conditions?.[0]?.lastTransitionTime ?? "") > Date.parse(lastTransitionTime));
});

test("hasCurrentConditions: not of a version that wrote none, and not of another generation", async () => {
  const claim = await patched(undefined, { phase: "Active", endpoint }, { generation: 2 });
  assert.ok(hasCurrentConditions(claim));
  assert.not.ok(hasCurrentConditions({ ...claim, metadata: { ...claim.metadata, generation: 3 } }));
  assert.not.ok(hasCurrentConditions({ ...claim, status: { phase: "Active", endpoint } }));
});

test.run();
