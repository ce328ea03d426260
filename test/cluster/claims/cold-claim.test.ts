import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims, workloads } from "../../../crds/kinds.ts";
import { annotation, finalizer, label } from "../../../crds/labels.ts";
import { claimName, hashedClaimName } from "../../../crds/names.ts";
import { stepsOf } from "../steps-of.ts";
import { NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("cold claim");
let tenancy: Tenancy;
let operator: RunningOperator;

test.before(async () => {
  tenancy = await startTenancy("test-cold-claim");
  operator = tenancy.startOperator();
  await tenancy.createWorkload("hello", { network: { ports: [7070, 9090] } });
});
test.after(() => tenancy?.stop());

test("a claim made with kubectl gets the finalizer, its tenant's label and a running pod", async () => {
  const { metadata } = await tenancy.createClaim("alice", "hello");
  const claim = await tenancy.untilClaim(metadata.name, { phase: "Active" });
  assert.equal(claim.metadata.finalizers, [finalizer.release]);
  assert.is(claim.metadata.labels?.[label.tenant], "alice");
  const [pod, ...others] = await tenancy.podsOf(claim);
  assert.is(others.length, 0);
  assert.match(pod?.metadata.name ?? "", /^inst-alice-hello-[a-z0-9]{6}$/);
  assert.equal(claim.status?.endpoint, { host: pod?.status?.podIP, port: 7070 });
  assert.is(claim.status?.instanceId, pod?.metadata.name);
  assert.is(claim.status?.source, "cold");
  assert.ok(!Number.isNaN(Date.parse(claim.status?.claimedAt ?? "")));
  assert.equal(stepsOf(claim), ["Seen", "Bound", "Scheduled", "Started", "Ready", "Active"]);
  assert.equal(
    [
      pod?.metadata.labels?.[label.managed],
      pod?.metadata.labels?.[label.workload],
      pod?.metadata.labels?.[label.tenant],
    ],
    ["true", "hello", "alice"],
  );
});

test("the pod is hardened", async () => {
  const claim = await tenancy.untilClaim("claim-alice-hello", { phase: "Active" });
  const spec = (await tenancy.podsOf(claim))[0]?.spec;
  const container = spec?.containers[0];
  assert.is(spec?.automountServiceAccountToken, false);
  assert.is(spec?.enableServiceLinks, false);
  assert.equal(spec?.securityContext, { seccompProfile: { type: "RuntimeDefault" } });
  assert.equal(container?.securityContext, {
    allowPrivilegeEscalation: false,
    capabilities: { drop: ["ALL"] },
    runAsNonRoot: true,
  });
  assert.equal(Object.keys(container?.resources?.limits ?? {}).sort(), ["cpu", "ephemeral-storage", "memory"]);
});

test("two tenants that claim at once get two pods; Alice is not alice", async () => {
  const names = ["bob", "carol", "Bob"].map((tenantId) => claimName({ tenantId, workloadRef: "hello" }));
  await Promise.all(["bob", "carol", "Bob"].map((tenantId) => tenancy.createClaim(tenantId, "hello")));
  const active = await Promise.all(names.map((name) => tenancy.untilClaim(name, { phase: "Active" })));
  assert.is(new Set(active.map((claim) => claim.status?.instanceId)).size, 3);
});

test("a claim costs three writes: itself, the pod, the status", async () => {
  // The answers to the writes of the claims so far may still be on their way: two for each, and more where a start was
  // slow.
  const patches = () =>
    operator.requests.filter(
      ({ verb, resource, status }) => verb === "patch" && resource === "tenancyclaims" && status === 200,
    );
  const claimsSoFar = [...tenancy.claims.store.values()].length;
  await tenancy.until("the answers to all writes so far", () => patches().length >= 2 * claimsSoFar);
  operator.requests.length = 0;
  const { uid, generation } = (await tenancy.client.get(workloads, { namespace: NAMESPACE, name: "hello" })).metadata;
  // As the REST API creates a claim; one without the workload that its caller has seen costs a look at the workload.
  const prepared = {
    finalizers: [finalizer.release],
    labels: { [label.tenant]: "counted", [label.workload]: "hello" },
    annotations: { [annotation.workloadSeen]: `${uid}/${generation}` },
  };
  const claim = await tenancy.createClaim("counted", "hello", prepared);
  await tenancy.untilClaim(claim.metadata.name, { phase: "Active" });
  const requests = await tenancy.until("the answer to the last write", () => {
    const made = operator.requests.filter(({ resource }) => resource !== "leases");
    return made.some(({ resource }) => resource === "tenancyclaims") && made;
  });
  assert.equal(
    requests.map(({ verb, resource }) => `${verb} ${resource}`),
    ["create pods", "patch tenancyclaims"],
  );
});

test("a second claim object for the same pair ends in Duplicate and says which one to use", async () => {
  await tenancy.untilClaim("claim-alice-hello", { phase: "Active" });
  const name = hashedClaimName({ tenantId: "alice", workloadRef: "hello" });
  await tenancy.createClaim("alice", "hello", { name });
  const duplicate = await tenancy.untilClaim(name, { phase: "Error" });
  assert.is(duplicate.status?.reason, "Duplicate");
  assert.match(duplicate.status?.message ?? "", /claim-alice-hello/);
  assert.is((await tenancy.podsOf(duplicate)).length, 0);
  await tenancy.release(name);
  assert.is((await tenancy.untilClaim("claim-alice-hello", { phase: "Active" })).status?.phase, "Active");
});

test("two claim objects made for one pair at once: exactly one becomes Active, and one pod is left", async () => {
  const pair = { tenantId: "twin", workloadRef: "hello" };
  const names = [claimName(pair), hashedClaimName(pair)];
  const made = await Promise.all(names.map((name) => tenancy.createClaim("twin", "hello", { name })));
  await tenancy.until("one Active, one Duplicate, one pod", async () => {
    const phases = names.map((name) => tenancy.claims.store.get(`${NAMESPACE}/${name}`)?.status?.phase);
    const pods = (await Promise.all(made.map((claim) => tenancy.podsOf(claim)))).flat();
    return [...phases].sort().join() === "Active,Error" && pods.length === 1;
  });
});

test("a claim whose pod is deleted gets another one and says so", async () => {
  const before = await tenancy.untilClaim("claim-bob-hello", { phase: "Active" });
  const [pod] = await tenancy.podsOf(before);
  await tenancy.client.delete(
    pods,
    { namespace: NAMESPACE, name: pod?.metadata.name ?? "" },
    { gracePeriodSeconds: 0 },
  );
  const after = await tenancy.untilClaim(
    "claim-bob-hello",
    (claim) => claim?.status?.phase === "Active" && claim.status.instanceId !== pod?.metadata.name,
  );
  assert.is(after.status?.podIncarnation, 1);
  assert.is((await tenancy.podsOf(after)).length, 1);
  assert.ok(tenancy.phases.get("claim-bob-hello")?.join(" ").endsWith("Active Pending Active"));
  await tenancy.until("an Event that says so", async () =>
    (await tenancy.eventsOf("claim-bob-hello")).some(({ reason }) => reason === "PodLost"),
  );
});

test("a claim whose pod was destroyed on purpose keeps its phase, gets no other pod, and can be released", async () => {
  const claim = await tenancy.createClaim("destroyed", "hello");
  const { name } = claim.metadata;
  const active = await tenancy.untilClaim(name, { phase: "Active" });
  const instanceId = active.status?.instanceId ?? "";
  const body = { metadata: { annotations: { [annotation.destroyed]: instanceId } } };
  await tenancy.client.patch(claims, { namespace: NAMESPACE, name }, { type: "merge", body });
  await tenancy.client.delete(pods, { namespace: NAMESPACE, name: instanceId }, { gracePeriodSeconds: 0 });
  await tenancy.until("no pod", async () => (await tenancy.podsOf(active)).length === 0);
  // What the operator does for another claim after that shows that it is done with this one.
  await tenancy.createClaim("after", "hello");
  await tenancy.untilClaim("claim-after-hello", { phase: "Active" });
  assert.equal(tenancy.phases.get(name), ["Pending", "Active"]);
  assert.is((await tenancy.everPodsOf(active)).length, 1);
  await tenancy.release(name);
});

test("a pod whose claim was deleted by force is removed", async () => {
  const claim = await tenancy.createClaim("forced", "hello");
  const active = await tenancy.untilClaim(claim.metadata.name, { phase: "Active" });
  assert.is((await tenancy.podsOf(active)).length, 1);
  const patch = { type: "merge" as const, body: { metadata: { finalizers: null } } };
  const reference = { namespace: NAMESPACE, name: claim.metadata.name };
  await tenancy.client.delete(claims, reference);
  await tenancy.client
    .patch(claims, reference, patch)
    .catch((error: { status?: number }) => assert.is(error.status, 404));
  await tenancy.until("no pod of the forced claim", async () => (await tenancy.podsOf(active)).length === 0);
});

test("a claim that comes before its workload is Ready waits for it", async () => {
  await operator.stop();
  await tenancy.createWorkload("late");
  await tenancy.createClaim("alice", "late");
  operator = tenancy.startOperator();
  await tenancy.untilClaim("claim-alice-late", { phase: "Active" });
  assert.not.ok(tenancy.phases.get("claim-alice-late")?.includes("Error"), `${tenancy.phases.get("claim-alice-late")}`);
});

test("a claim that was applied before its workload becomes Active when that comes", async () => {
  const claim = await tenancy.createClaim("early", "comes-later");
  const { name } = claim.metadata;
  assert.is((await tenancy.untilClaim(name, { phase: "Error" })).status?.reason, "WorkloadNotFound");
  await tenancy.createWorkload("comes-later");
  const active = await tenancy.untilClaim(name, { phase: "Active" });
  assert.is(active.status?.reason, undefined);
});

test("an Active claim whose program begins to fail says so, stays Active with its pod, and takes it back", async () => {
  const claim = await tenancy.createClaim("troubled", "hello");
  const { name } = claim.metadata;
  const active = await tenancy.untilClaim(name, { phase: "Active" });
  const pod = { namespace: NAMESPACE, name: active.status?.instanceId ?? "" };
  const behave = (behaviour: string) =>
    tenancy.client.patch(pods, pod, {
      type: "merge",
      body: { metadata: { annotations: { "simulated.tenancy.dev/behaviour": behaviour } } },
    });
  await behave("crash-loop");
  const troubled = await tenancy.untilClaim(name, { reason: "CrashLooping" });
  assert.equal([troubled.status?.phase, troubled.status?.instanceId], ["Active", pod.name]);
  await behave("normal");
  await tenancy.untilClaim(name, (found) => found?.status?.phase === "Active" && found.status.reason === undefined);
  assert.equal(await tenancy.everPodsOf(active), [pod.name]);
});

test("an Error claim that is claimed again becomes Active", async () => {
  await tenancy.createWorkload("mended", { image: { ref: "simulated/hello::bad" } });
  const claim = await tenancy.createClaim("again", "mended");
  const failed = await tenancy.untilClaim(claim.metadata.name, { phase: "Error" });
  assert.is(failed.status?.reason, "WorkloadNotReady");
  const spec = { image: { ref: "simulated/hello:1" } };
  await tenancy.client.patch(workloads, { namespace: NAMESPACE, name: "mended" }, { type: "merge", body: { spec } });
  await tenancy.client.patch(
    claims,
    { namespace: NAMESPACE, name: claim.metadata.name },
    {
      type: "merge",
      body: { metadata: { annotations: { [annotation.attempt]: "2" } } },
    },
  );
  const active = await tenancy.untilClaim(claim.metadata.name, { phase: "Active" });
  assert.is(active.status?.attempt, "2");
  assert.is(active.status?.reason, undefined);
});

test.run();
