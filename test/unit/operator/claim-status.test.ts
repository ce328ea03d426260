import { test } from "uvu";
import * as assert from "uvu/assert";
import type { Claim, ClaimStatus } from "../../../crds/claim.ts";
import { type ClaimStatusPatch, hasCurrentConditions, patchClaimStatus } from "../../../operator/claim/claim-status.ts";
import type { OperatorContext } from "../../../operator/context.ts";

const endpoint = { host: "10.0.0.1", port: 8080 };
const saved = {
  type: "FilesSaved",
  status: "False",
  reason: "SaveFailed",
  message: "m",
  lastTransitionTime: "2026-01-01T00:00:00Z",
} as const;

/** The claim as a patch of its status leaves it. */
async function patched(status: ClaimStatus | undefined, patch: ClaimStatusPatch, generation = 1): Promise<Claim> {
  const claim: Claim = {
    metadata: { name: "c", namespace: "n", generation },
    spec: { tenantId: "t", workloadRef: "w" },
    ...(status !== undefined && { status }),
  };
  const context = {
    client: {
      async patch(_resource: unknown, _reference: unknown, { body }: { body: { status: object } }) {
        const merged = Object.entries({ ...claim.status, ...body.status }).filter(([, value]) => value !== null);
        return { ...claim, status: Object.fromEntries(merged) };
      },
    },
    informers: { claims: { put: () => undefined } },
  };
  return patchClaimStatus(claim, patch, context as unknown as OperatorContext);
}

const cases: [title: string, status: ClaimStatusPatch, ready: string, reason: string][] = [
  ["Active with an endpoint", { phase: "Active", endpoint }, "True", "Active"],
  ["Active with files that it was not given", { phase: "Active", endpoint, message: "has files" }, "True", "Active"],
  ["Active without an endpoint", { phase: "Active", endpoint: null }, "False", "NoEndpoint"],
  ["Active, its program failing", { phase: "Active", endpoint, reason: "CrashLooping" }, "False", "CrashLooping"],
  ["Pending", { phase: "Pending" }, "False", "Pending"],
  ["Pending for want of a node", { phase: "Pending", reason: "Unschedulable", message: "m" }, "False", "Unschedulable"],
  ["Releasing", { phase: "Releasing" }, "False", "Releasing"],
  ["Error", { phase: "Error", reason: "Duplicate", message: "m" }, "False", "Duplicate"],
];
for (const [title, status, ready, reason] of cases) {
  test(`patchClaimStatus: Ready is ${ready} of a claim that is ${title}`, async () => {
    const [condition, ...more] = (await patched(undefined, status)).status?.conditions ?? [];
    assert.equal(more, []);
    assert.equal([condition?.type, condition?.status, condition?.reason], ["Ready", ready, reason]);
    // Kubernetes 1.20 refuses empty text.
    assert.ok(condition?.message);
  });
}

test("patchClaimStatus: lastTransitionTime moves with the status alone, and other conditions stay", async () => {
  const lastTransitionTime = "2026-01-01T00:00:00Z";
  const ready = { type: "Ready", status: "False", reason: "Pending", message: "m", lastTransitionTime } as const;
  const before: ClaimStatus = { phase: "Pending", conditions: [ready, saved] };
  const waiting = await patched(before, { phase: "Pending", reason: "Unschedulable" });
  assert.equal(
    waiting.status?.conditions?.map((condition) => condition.lastTransitionTime),
    [lastTransitionTime, lastTransitionTime],
  );
  assert.equal(waiting.status?.conditions?.[1], saved);
  const active = await patched(waiting.status, { phase: "Active", reason: null, endpoint });
  assert.ok(Date.parse(active.status?.conditions?.[0]?.lastTransitionTime ?? "") > Date.parse(lastTransitionTime));
});

test("hasCurrentConditions: not of a version that wrote none, and not of another generation", async () => {
  const claim = await patched(undefined, { phase: "Active", endpoint }, 2);
  assert.ok(hasCurrentConditions(claim));
  assert.not.ok(hasCurrentConditions({ ...claim, metadata: { ...claim.metadata, generation: 3 } }));
  assert.not.ok(hasCurrentConditions({ ...claim, status: { phase: "Active", endpoint } }));
});

test.run();
