import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ApiError, ifFound } from "../../../crds/client/api-error.ts";
import { configMaps, jobs, networkPolicies } from "../../../crds/client/built-in-resources.ts";
import { createCluster } from "../../../crds/client/cluster.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { workloads } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import { createDeferred } from "../../../crds/waits.ts";
import type { Workload } from "../../../crds/workload.ts";
import { type BuilderContext, deleteJob } from "../../../operator/builds/build-jobs.ts";
import { renderBuildJob } from "../../../operator/builds/render-build.ts";
import { type BuildConfig, operatorConfig } from "../../../operator/config.ts";
import { heldBack } from "../held-back.ts";
import { exists, NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";
import { BUILDS, built, type PretendBuilders, type PretendEnd, startPretendBuilders } from "./pretend-builders.ts";

const test = suite("builds that others disturb");
const DIGEST = `sha256:${"1".repeat(64)}`;
const builds = operatorConfig({ TENANCY_REGISTRY: "registry.example.com/built" }).builds as BuildConfig;
let tenancy: Tenancy;
let builders: PretendBuilders;
let operator: RunningOperator;

test.before(async () => {
  tenancy = await startTenancy("test-builds-hazards", { nodes: false });
  builders = await startPretendBuilders(tenancy.client);
  operator = tenancy.startOperator({ config: { builds }, exec: builders.exec, contexts: builders.contexts });
});
test.after(async () => {
  await builders?.stop();
  await tenancy?.stop();
});

async function createBuilt(name: string, data = { Dockerfile: "FROM scratch\n" }): Promise<Workload> {
  await tenancy.client.create(configMaps, { metadata: { name, namespace: NAMESPACE }, data });
  const image = { dockerfile: "Dockerfile", context: { configMapRef: { name } } };
  return tenancy.createWorkload(name, { image });
}

const untilReady = (name: string) => tenancy.untilWorkload(name, ({ status }) => status?.phase === "Ready");
const jobsOf = (name: string) => [...builders.everJobs.keys()].filter((job) => job.startsWith(`build-${name}-`));

test("of five workloads two are built at once, in the order in which they asked", async () => {
  const next: (() => void)[] = [];
  let most = 0;
  builders.ends(async () => {
    const going = createDeferred<PretendEnd>();
    next.push(() => going.resolve(built(DIGEST)));
    return going.promise;
  });
  const names = ["one", "two", "three", "four", "five"];
  for (const name of names) {
    await createBuilt(name);
    await tenancy.untilWorkload(name, ({ status }) => status?.build !== undefined);
  }
  const waits = await tenancy.untilWorkload("five", ({ status }) => status?.build?.state === "Pending");
  assert.is(waits.status?.phase, "Building");
  assert.match(waits.status?.message ?? "", "TENANCY_BUILD_CONCURRENCY");
  for (const [index] of names.entries()) {
    await tenancy.until(`build ${index} to be under way`, () => next.length > index);
    most = Math.max(most, builders.unfinished().length);
    if (index === 0) await tenancy.until("two builds", () => next.length === 2);
    next[index]?.();
    const begun = Math.min(index + 3, names.length);
    await tenancy.until(`Job ${begun}`, () => names.flatMap(jobsOf).length === begun);
  }
  for (const name of names) await untilReady(name);
  assert.is(most, 2);
  const order = [...builders.everJobs.keys()].map((job) => job.split("-")[1]);
  assert.equal(order.slice(2), names.slice(2));
  for (const name of names) assert.is(jobsOf(name).length, 1);
});

test("a build whose pod is lost is begun anew, and nobody has to do anything", async () => {
  let pods = 0;
  builders.ends(async () => (++pods === 1 ? { message: "", exitCode: 143 } : built(DIGEST)));
  await createBuilt("lost");
  const { status } = await tenancy.untilWorkload("lost", (found) => found.status?.build?.reason === "BuildLost");
  assert.is(status?.phase, "Building");
  assert.is(status?.build?.state, "Pending");
  assert.is(status?.build?.tries, 1);
  assert.match(status?.message ?? "", /exit code 143.*tried again after/);
  await untilReady("lost");
  assert.is(pods, 2);
});

test("the policy of builds comes back while one runs", async () => {
  const going = createDeferred<PretendEnd>();
  builders.ends(() => going.promise);
  await createBuilt("open");
  await tenancy.untilWorkload("open", ({ status }) => status?.build?.state === "Building");
  const ref = { namespace: BUILDS, name: "tenancy-builds" };
  const { spec, metadata } = await tenancy.client.get(networkPolicies, ref);
  assert.is(spec?.ingress, undefined);
  await tenancy.client.delete(networkPolicies, ref);
  await tenancy.until("another one", async () => {
    const { items } = await tenancy.client.list(networkPolicies, { namespace: BUILDS });
    return items.length === 1 && items[0]?.metadata.uid !== metadata.uid;
  });
  await tenancy.client.patch(networkPolicies, ref, { type: "merge", body: { spec: { egress: [{}], ingress: [{}] } } });
  await tenancy.until("it to be closed again", async () => {
    const now = await tenancy.client.get(networkPolicies, ref);
    return JSON.stringify(now.spec) === JSON.stringify(spec);
  });
  going.resolve(built(DIGEST));
  await untilReady("open");
});

test("a ConfigMap that changes during the build ends it, and what it says then is built", async () => {
  const seen: (string | undefined)[] = [];
  builders.ends((_pod, { Dockerfile }) => {
    seen.push(Dockerfile);
    return Dockerfile === "FROM b\n" ? Promise.resolve(built(DIGEST)) : new Promise(() => undefined);
  });
  await createBuilt("changing", { Dockerfile: "FROM a\n" });
  await tenancy.until("the first build", () => seen.length === 1);
  const body = { data: { Dockerfile: "FROM b\n" } };
  await tenancy.client.patch(configMaps, { namespace: NAMESPACE, name: "changing" }, { type: "merge", body });
  await untilReady("changing");
  assert.equal(seen, ["FROM a\n", "FROM b\n"]);
  await tenancy.until("the first Job's end", () => builders.unfinished().length === 0);
});

test("a Job that a workload of the same name had left is not taken for this one's", async () => {
  builders.ends(async () => built(DIGEST));
  const former = await createBuilt("again");
  const ready = await untilReady("again");
  const key = ready.status?.build?.key ?? "";
  await tenancy.client.delete(workloads, { namespace: NAMESPACE, name: "again" });
  await tenancy.until("its end", async () => !(await exists(tenancy.client, workloads, "again")));
  const left = await tenancy.client.create(jobs, renderBuildJob(former, { key, tries: 0 }, builds));
  const { name } = left.metadata;
  await tenancy.createWorkload("again", former.spec);
  await untilReady("again");
  const now = await tenancy.client.get(jobs, { namespace: BUILDS, name });
  assert.is.not(now.metadata.uid, left.metadata.uid);
  assert.is.not(now.metadata.annotations?.[annotation.workloadUid], former.metadata.uid);
});

test("a Job that waits for a pod whose node is gone is deleted without it", async () => {
  const { client } = tenancy;
  const nobodys = { metadata: { name: "nobodys", uid: "0" }, spec: { image: { dockerfile: "Dockerfile" } } };
  const { metadata, ...rest } = renderBuildJob(nobodys, { key: "0".repeat(64), tries: 0 }, builds);
  // Without its label nobody plays its controllers.
  const made = await client.create(jobs, { ...rest, metadata: { ...metadata, labels: {} } });
  const cluster = createCluster({ client, namespace: NAMESPACE, fieldManager: "test" });
  const context = { builds, cluster, serverNow: client.transport.now } as unknown as BuilderContext;
  await deleteJob(made, context);
  const ref = { namespace: BUILDS, name: made.metadata.name };
  const held = await client.get(jobs, ref);
  assert.equal(held.metadata.finalizers, ["foregroundDeletion"]);
  await deleteJob(held, context);
  await client.get(jobs, ref);
  const deletionTimestamp = new Date(Date.now() - 120_000).toISOString();
  await deleteJob({ ...held, metadata: { ...held.metadata, deletionTimestamp } }, context);
  assert.is(await ifFound(client.get(jobs, ref)), undefined);
});

test("of the Jobs that ended three are kept, and the policy of builds is there", async () => {
  for (const count of [1, 2, 3, 4, 5]) {
    const body = { metadata: { annotations: { [annotation.rebuild]: String(count) } } };
    await tenancy.client.patch(workloads, { namespace: NAMESPACE, name: "one" }, { type: "merge", body });
    await tenancy.until(`build ${count}`, () => jobsOf("one").length === count + 1);
    await tenancy.until("its end", () => builders.unfinished().length === 0);
  }
  await tenancy.until("three Jobs", async () => {
    const { items } = await tenancy.client.list(jobs, { namespace: BUILDS, labelSelector: "tenancy.dev/workload=one" });
    return items.length === 3;
  });
  const policy = await tenancy.client.get(networkPolicies, { namespace: BUILDS, name: "tenancy-builds" });
  assert.equal(policy.spec?.policyTypes, ["Ingress", "Egress"]);
});

test("caches that are seconds late: never more than two at once, and each is built once", async () => {
  await operator.stop();
  const late = tenancy.startOperator({
    config: { builds },
    exec: builders.exec,
    contexts: builders.contexts,
    wrap: (client) => heldBack(heldBack(client, "jobs"), "tenancyworkloads"),
  });
  let most = 0;
  builders.ends(async () => {
    most = Math.max(most, builders.unfinished().length);
    return built(DIGEST);
  });
  const names = ["late-a", "late-b", "late-c", "late-d"];
  await Promise.all(names.map((name) => createBuilt(name)));
  for (const name of names) await untilReady(name);
  assert.ok(most <= 2, `${most} at once`);
  for (const name of names) assert.equal(jobsOf(name).flatMap((job) => builders.everJobs.get(job)).length, 1);
  await late.stop();
});

test("two that wait and are refused keep nobody waiting", async () => {
  const again = tenancy.startOperator({ config: { builds }, exec: builders.exec, contexts: builders.contexts });
  const going = createDeferred<PretendEnd>();
  builders.ends(() => going.promise);
  for (const name of ["held-a", "held-b"]) await createBuilt(name);
  await tenancy.until("two builds", () => builders.unfinished().length === 2);
  for (const name of ["held-c", "held-d"]) {
    await createBuilt(name);
    await tenancy.untilWorkload(name, ({ status }) => status?.build?.reason === "Queued");
    // There is no proxy here.
    const body = { spec: { network: { access: "restricted", allowlist: ["example.com"] } } };
    await tenancy.client.patch(workloads, { namespace: NAMESPACE, name }, { type: "merge", body });
    await tenancy.untilWorkload(name, ({ status }) => status?.phase === "Error");
  }
  await createBuilt("held-e");
  going.resolve(built(DIGEST));
  await untilReady("held-e");
  await again.stop();
});

test("without rights in the namespace of builds nothing is built, and all else goes on", async () => {
  const refused = tenancy.startOperator({
    config: { builds },
    exec: builders.exec,
    contexts: builders.contexts,
    wrap: withoutRights,
  });
  await tenancy.createWorkload("named");
  await untilReady("named");
  await createBuilt("forbidden");
  const { status } = await tenancy.untilWorkload("forbidden", (found) => found.status?.phase === "Error");
  assert.is(status?.reason, "BuilderUnavailable");
  assert.match(status?.message ?? "", "manifests/builds");
  await tenancy.client.delete(workloads, { namespace: NAMESPACE, name: "forbidden" });
  await tenancy.until("its end", async () => !(await exists(tenancy.client, workloads, "forbidden")));
  await refused.stop();
});

/** A client that may do nothing in the namespace of builds. */
function withoutRights(client: ClusterClient): ClusterClient {
  const refuse = () => Promise.reject(new ApiError("jobs.batch is forbidden", { status: 403, reason: "Forbidden" }));
  return {
    ...client,
    get: (resource, ref, options) => (ref.namespace === BUILDS ? refuse() : client.get(resource, ref, options)),
    list: (resource, options) => (options?.namespace === BUILDS ? refuse() : client.list(resource, options)),
  };
}

test("a namespace of builds that is not there is named as the reason", async () => {
  const other = tenancy.startOperator({ config: { builds: { ...builds, namespace: "nowhere" } } });
  await createBuilt("homeless");
  const { status } = await tenancy.untilWorkload("homeless", (found) => found.status?.reason === "BuilderUnavailable");
  assert.match(status?.message ?? "", /"nowhere", does not exist.*TENANCY_BUILD_NAMESPACE/);
  await other.stop();
});

test.run();
