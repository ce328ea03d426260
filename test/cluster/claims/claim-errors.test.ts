import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { ApiError } from "../../../crds/client/api-error.ts";
import { events, pods, resourceQuotas } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import type { WorkloadSpec } from "../../../crds/workload.ts";
import { testAtOnce } from "../../at-once.ts";
import { startMs } from "../steps-of.ts";
import { NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("claim errors");
let tenancy: Tenancy;
let operator: RunningOperator;

test.before(async () => {
  tenancy = await startTenancy("test-claim-errors");
  operator = tenancy.startOperator({ config: { startTimeoutMs: 20_000 } });
});
test.after(() => tenancy?.stop());

const table: { name: string; spec?: Partial<WorkloadSpec>; reason: string; says: RegExp }[] = [
  {
    name: "missing-image",
    spec: { image: { ref: "simulated/missing:1" } },
    reason: "ImagePullFailed",
    says: /simulated\/missing:1.*fix the workload's spec\.image\.ref, then claim again/,
  },
  {
    name: "crashing",
    spec: { image: { ref: "simulated/crash:1" } },
    reason: "CrashLooping",
    says: /keeps exiting.*exit code 1.*fix the workload's spec\.entrypoint/,
  },
  {
    name: "never-ready",
    spec: { image: { ref: "simulated/never-ready:1" } },
    reason: "StartTimeout",
    says: /not ready 20 s after.*fix the workload's spec\.health/,
  },
  {
    name: "bad-image-name",
    spec: { image: { ref: "simulated/hello::bad" } },
    reason: "WorkloadNotReady",
    says: /spec\.image\.ref/,
  },
  {
    name: "dockerfile",
    spec: { image: { dockerfile: "./Dockerfile" } },
    reason: "WorkloadNotReady",
    says: /BuildUnavailable.*spec\.image\.ref/,
  },
  {
    name: "no-runtime",
    spec: { runtimeClassName: "gone" },
    reason: "WorkloadNotReady",
    says: /RuntimeClass "gone" not found.*: change spec\.runtimeClassName of the workload/,
  },
  {
    name: "unknown",
    reason: "WorkloadNotFound",
    says: /"unknown" does not exist in namespace "tenancy", the only one that is served here: create it there/,
  },
];

test("a start that takes no time is not looked into", async () => {
  await tenancy.createWorkload("quick");
  let tries = 0;
  // The operator looks after 5 s, which a start on a busy machine may take.
  await tenancy.until("a start of less than 3 s", async () => {
    const before = operator.requests.length;
    tries += 1;
    const { metadata } = await tenancy.createClaim(`quick-${tries}`, "quick");
    const claim = await tenancy.untilClaim(metadata.name, { phase: "Active" });
    if (startMs(claim) >= 3000) return false;
    const own = operator.requests.slice(before);
    assert.not.ok(own.some(({ verb, resource }) => verb === "list" && resource === "events"));
    return true;
  });
});

/** What the health check of the claim "refusing" is refused with. */
const refused = /connection refused on port 8081 \(spec\.health\.httpGet\.port\); the workload declares 8080/;

test("a claim that waits for its health check says so, and with the kubelet's Event why", async () => {
  await tenancy.createWorkload("refusing", {
    ...{ image: { ref: "simulated/never-ready:1" }, network: { ports: [8080] } },
    health: { httpGet: { path: "/", port: 8081 } },
  });
  const lists = () => operator.requests.filter(({ verb, resource }) => verb === "list" && resource === "events").length;
  const before = lists();
  const { metadata } = await tenancy.createClaim("alice", "refusing");
  const first = await tenancy.untilClaim(metadata.name, (claim) => claim?.status?.message !== undefined);
  assert.is(first.status?.phase, "Pending");
  assert.match(first.status?.message ?? "", /the container runs, and its health check has not passed yet/);
  assert.is(lists(), before + 1);
  const [pod] = await tenancy.podsOf(first);
  const now = new Date(Date.now() + 1000).toISOString().replace(/\.\d+/, "");
  await tenancy.client.create(events, {
    metadata: { name: "refused", namespace: NAMESPACE },
    involvedObject: { kind: "Pod", namespace: NAMESPACE, name: pod?.metadata.name ?? "", uid: pod?.metadata.uid ?? "" },
    ...{ type: "Warning", reason: "Unhealthy", firstTimestamp: now, lastTimestamp: now },
    message: 'Startup probe failed: Get "http://10.0.0.1:8081/": dial tcp 10.0.0.1:8081: connect: connection refused',
  });
  const told = await tenancy.untilClaim(metadata.name, { reason: "Unhealthy" });
  assert.match(told.status?.message ?? "", refused);
});

testAtOnce(
  test,
  table.map(({ name, spec, reason, says }) => [
    `${name}: Error ${reason} with a message that says what to do, an Event, and no pod left`,
    async () => {
      if (spec !== undefined) await tenancy.createWorkload(name, spec);
      const { metadata } = await tenancy.createClaim("alice", name);
      const claim = await tenancy.untilClaim(metadata.name, { phase: "Error" });
      assert.is(claim.status?.reason, reason);
      assert.match(claim.status?.message ?? "", says);
      assert.is(claim.status?.instanceId, undefined);
      await tenancy.until("no pod", async () => (await tenancy.podsOf(claim)).length === 0);
      await tenancy.until("an Event on the claim", async () => {
        const told = await tenancy.eventsOf(claim.metadata.uid);
        return told.some((event) => event.reason === reason && event.type === "Warning");
      });
    },
  ]),
);

test("a claim in a namespace that no operator serves says which is served", async () => {
  const spec = { tenantId: "alice", workloadRef: "quick" };
  const { status } = await tenancy.client.create<Claim>(claims, {
    metadata: { name: "elsewhere", namespace: "default" },
    spec,
  });
  assert.match(status?.conditions?.[0]?.message ?? "", /that they serve this namespace \(TENANCY_NAMESPACE/);
});

// Begun by the test above: all that time out here do so at the same time.
test("a claim whose health check was never passed names the field in the end", async () => {
  const failed = await tenancy.untilClaim("claim-alice-refusing", { phase: "Error" });
  assert.is(failed.status?.reason, "StartTimeout");
  assert.match(failed.status?.message ?? "", refused);
  assert.match(failed.status?.message ?? "", /fix the workload's spec\.health\.httpGet\.port, .*, then claim again$/);
});

test("a quota that is smaller than a pod: Error QuotaExceeded at once", async () => {
  await tenancy.createWorkload("small");
  const hard = { pods: "0" };
  await tenancy.client.create(resourceQuotas, { metadata: { name: "full", namespace: NAMESPACE }, spec: { hard } });
  // No controller manager runs here, whose part it is to fill in the status that admission goes by.
  const reference = { namespace: NAMESPACE, name: "full" };
  const body = { status: { hard, used: { pods: "0" } } };
  await tenancy.client.patch(resourceQuotas, reference, { type: "merge", subresource: "status", body });
  await tenancy.until("the quota to be in force", isRefused);
  const { metadata } = await tenancy.createClaim("alice", "small");
  const claim = await tenancy.untilClaim(metadata.name, { phase: "Error" });
  assert.is(claim.status?.reason, "QuotaExceeded");
  assert.match(claim.status?.message ?? "", /limits do not allow the instance at all: lower/);
  await tenancy.client.delete(resourceQuotas, reference);
  await tenancy.until("the quota to be gone", async () => !(await isRefused()));
});

/** Whether there is room for no pod: admission goes by what it has in view, which may be older. */
async function isRefused(): Promise<boolean> {
  const spec = { containers: [{ name: "c", image: "simulated/hello:1" }], automountServiceAccountToken: false };
  const probe = { metadata: { name: "probe", namespace: NAMESPACE }, spec };
  try {
    await tenancy.client.create(pods, probe, { dryRun: true });
    return false;
  } catch (error) {
    if (error instanceof ApiError && error.status === 403) return true;
    throw error;
  }
}

test("an image that runs as root: the first pod is replaced, and the next claim's pod is made without runAsNonRoot at once", async () => {
  await tenancy.createWorkload("rooted", { image: { ref: "simulated/root:1" } });
  const first = await tenancy.createClaim("alice", "rooted");
  const active = await tenancy.untilClaim(first.metadata.name, { phase: "Active" });
  assert.is(active.status?.podIncarnation, 1);
  const second = await tenancy.createClaim("bob", "rooted");
  const next = await tenancy.untilClaim(second.metadata.name, { phase: "Active" });
  assert.is(next.status?.podIncarnation ?? 0, 0);
  for (const claim of [active, next]) {
    const [pod] = await tenancy.until("one pod", async () => {
      const found = await tenancy.podsOf(claim);
      return found.length === 1 && found;
    });
    const security = pod?.spec.containers[0]?.securityContext;
    assert.is(security?.runAsNonRoot, undefined);
    assert.equal(security?.capabilities, { drop: ["ALL"] });
  }
});

test.run();
