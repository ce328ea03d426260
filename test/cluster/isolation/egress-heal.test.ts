import { suite } from "uvu";
import * as assert from "uvu/assert";
import { isNotFound } from "../../../crds/client/api-error.ts";
import { configMaps, secrets } from "../../../crds/client/built-in-resources.ts";
import { type Informer, startInformer } from "../../../crds/client/watch/informer.ts";
import { workloads } from "../../../crds/kinds.ts";
import type { ConfigMap, KubernetesObject, Secret } from "../../../crds/kubernetes.ts";
import { label } from "../../../crds/labels.ts";
import { metadataOf } from "../../../crds/resource.ts";
import { operatorConfig } from "../../../operator/config.ts";
import { parseDomainPattern } from "../../../operator/egress/domain-pattern.ts";
import { leafFile } from "../../../operator/egress/egress-certificates.ts";
import { egressNames } from "../../../operator/egress/egress-names.ts";
import { stopProcess } from "../../../scripts/cluster/process/stop-process.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { startControllerManager } from "../controller-manager.ts";
import { NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("what a workload's proxy lives by comes back");
let tenancy: Tenancy;
let operator: RunningOperator;
const stop = new AbortController();
const { egress } = operatorConfig({ TENANCY_PROXY_IMAGE: "simulated/proxy:1" });
let seen: Informer<KubernetesObject, never>;

/** Less than the ten minutes after which the operator looks at everything again. */
const limit = { limitMs: 120_000, intervalMs: 50 };
const WORKLOADS = 8;
const names = egressNames("agent-0");
const settings = { namespace: NAMESPACE, name: names.settings };
const leaves = { namespace: NAMESPACE, name: names.leaves };
const authority = { namespace: NAMESPACE, name: names.authority };
const leaf = leafFile(parseDomainPattern("api.example"));

test.before(async () => {
  tenancy = await startTenancy("egress-heal", { nodes: false });
  operator = tenancy.startOperator({ config: { egress } });
  const headers = [{ name: "Authorization", valueFrom: { secretKeyRef: { name: "vault", key: "token" } } }];
  await tenancy.client.create(secrets, {
    metadata: { name: "vault", namespace: NAMESPACE },
    stringData: { token: "planted" },
  });
  for (let index = 0; index < WORKLOADS; index++) {
    await tenancy.createWorkload(`agent-${index}`, {
      network: { access: "restricted", allowlist: ["a.example"], credentials: [{ domain: "api.example", headers }] },
    });
  }
  const list = () => tenancy.client.list(workloads, { namespace: NAMESPACE });
  await waitUntil(async () => (await list()).items.every(({ status }) => status?.phase === "Ready"), {
    ...{ what: "all workloads Ready", ...limit },
  }).catch(async (error: Error) => {
    console.log(error.message, JSON.stringify((await list()).items.map(({ status }) => status)));
    throw error;
  });
  seen = startInformer({
    client: tenancy.client,
    resource: metadataOf(secrets),
    namespace: NAMESPACE,
    indexes: {},
    signal: stop.signal,
  });
  await seen.synced;
});
test.after(async () => {
  stop.abort();
  await seen?.done;
  await tenancy?.stop();
});

const configMap = () => tenancy.client.get(configMaps, settings);
const secret = (reference: { namespace: string; name: string }) => tenancy.client.get(secrets, reference);

/** Waits until something is so of an object that may not be there at this moment. */
async function until<T>(what: string, read: () => Promise<T>, is: (object: T) => boolean): Promise<T> {
  let last: T | undefined;
  const look = async () => {
    last = await read().catch((error: unknown) => {
      if (isNotFound(error)) return undefined;
      throw error;
    });
    return last !== undefined && is(last);
  };
  await waitUntil(look, { what, ...limit });
  return last as T;
}

test("a ConfigMap that was deleted, edited, emptied or stripped of its labels is put right", async () => {
  const { data, metadata } = await configMap();
  const isRight = (found: ConfigMap) =>
    Object.entries(data ?? {}).every(([key, value]) => found.data?.[key] === value) &&
    Object.entries(metadata.labels ?? {}).every(([key, value]) => found.metadata.labels?.[key] === value);
  assert.ok(data?.["haproxy.cfg"]?.includes("a.example"));
  await tenancy.client.delete(configMaps, settings);
  await until("the deleted one", configMap, isRight);
  for (const body of [
    { data: { "haproxy.cfg": data?.["haproxy.cfg"]?.replaceAll("a.example", "evil.example") } },
    { data: null },
    { metadata: { labels: { [label.managed]: null } } },
    { metadata: { labels: { [label.workload]: "agent-1" } } },
  ]) {
    const edited = await tenancy.client.patch(configMaps, settings, { type: "merge", body });
    assert.not.ok(isRight(edited));
    await until(`the edited one ${JSON.stringify(body).slice(0, 40)}`, configMap, isRight);
  }
});

test("Secrets that were deleted or edited are made again, and the authority stays where it can", async () => {
  const before = await secret(authority);
  const firstLeaf = (await secret(leaves)).data?.[leaf];
  await tenancy.client.delete(secrets, leaves);
  const made = await until(
    "the deleted leaves",
    () => secret(leaves),
    ({ data }) => data?.[leaf] !== undefined,
  );
  assert.is.not(made.data?.[leaf], firstLeaf);
  const body = { data: { [leaf]: Buffer.from("not a certificate").toString("base64") } };
  await tenancy.client.patch(secrets, leaves, { type: "merge", body });
  await until(
    "the edited leaf",
    () => secret(leaves),
    ({ data }) => pem(data?.[leaf]).includes("BEGIN PRIVATE KEY"),
  );
  assert.equal((await secret(authority)).data, before.data);
  const stripped = { metadata: { labels: { [label.managed]: null } } };
  for (const reference of [leaves, authority]) {
    await tenancy.client.patch(secrets, reference, { type: "merge", body: stripped });
    const isLabelled = ({ metadata }: Secret) => metadata.labels?.[label.managed] === "true";
    await until(`the labels of ${reference.name}`, () => secret(reference), isLabelled);
  }
  assert.equal((await secret(authority)).data, before.data);

  await tenancy.client.delete(secrets, authority);
  const other = await until(
    "the deleted authority",
    () => secret(authority),
    ({ data }) => data?.["ca.key"] !== undefined,
  );
  assert.is.not(other.data?.["ca.key"], before.data?.["ca.key"]);
  await until(
    "the bundle of the other authority",
    configMap,
    ({ data }) => data?.["ca.pem"] === pem(other.data?.["ca.crt"]),
  );
});

function pem(content: string | undefined): string {
  return Buffer.from(content ?? "", "base64").toString();
}

test("a change costs a few calls for its own workload, and the operator's own writes cost none", async () => {
  let from = 0;
  const calls = () =>
    operator.requests
      .slice(from)
      .filter(({ verb, resource }) => ["get", "apply", "create"].includes(verb) && resource !== "leases")
      .map(({ verb, resource }) => `${verb} ${resource}`);
  // The test before has waited for a ConfigMap, which is not the last call of its change.
  await waitUntil(() => calls().at(-1) === "create pods", { what: "the last call of the change before", ...limit });
  from = operator.requests.length;
  // The Secrets are its own two, and the one that its credential names.
  const perChange = ["apply configmaps", "create pods", "get secrets", "get secrets", "get secrets"];
  // What came of the first one's own writes is there before the second.
  for (const [index, workload] of ["agent-0", "agent-1"].entries()) {
    await tenancy.client.delete(configMaps, { namespace: NAMESPACE, name: egressNames(workload).settings });
    await waitUntil(() => calls().filter((one) => one === "create pods").length > index, {
      what: "the last call",
      ...limit,
    });
  }
  console.log(`note: two changes beside ${WORKLOADS} workloads cost ${calls().join(", ")}`);
  assert.equal(calls().sort(), [...perChange, ...perChange].sort());
});

test("a watch of the metadata of Secrets, as the operator has one, brings no values", async () => {
  const held = [...seen.store.values()] as Secret[];
  assert.is(held.length, WORKLOADS * 2 + 1);
  for (const one of held) {
    assert.is(one.data, undefined);
    assert.ok(one.metadata.resourceVersion);
  }
  assert.ok(held.some(({ metadata }) => metadata.name === "vault"));
  await tenancy.client.patch(secrets, leaves, { type: "merge", body: { metadata: { labels: { own: "yes" } } } });
  const changed = await until(
    "the change by the watch",
    async () => seen.store.get(`${NAMESPACE}/${names.leaves}`) as Secret | undefined,
    (found) => found?.metadata.labels?.own === "yes",
  );
  assert.is(changed?.data, undefined);
});

/** Names of what there is of the workloads' proxies. */
async function left(...workloadNames: string[]): Promise<string[]> {
  const labelSelector = `${label.workload} in (${workloadNames})`;
  const at = { namespace: NAMESPACE, labelSelector };
  const [made, kept] = await Promise.all([tenancy.client.list(configMaps, at), tenancy.client.list(secrets, at)]);
  return [...made.items, ...kept.items].map(({ metadata }) => metadata.name);
}

test("what belongs to a workload that is gone, or has no proxy now, goes, also where proxies are switched off", async () => {
  const { client } = tenancy;
  // As an earlier version made them.
  const unowned = { metadata: { ownerReferences: null } };
  const isOwned = ({ metadata }: KubernetesObject) => metadata.ownerReferences?.[0]?.kind === workloads.kind;
  const before = await secret(authority);
  await client.patch(configMaps, settings, { type: "merge", body: unowned });
  for (const reference of [leaves, authority]) await client.patch(secrets, reference, { type: "merge", body: unowned });
  await until("the settings have an owner again", configMap, isOwned);
  await until("the leaves have an owner again", () => secret(leaves), isOwned);
  await until("the authority has an owner again", () => secret(authority), isOwned);
  assert.equal((await secret(authority)).data, before.data);

  await operator.stop();
  operator = tenancy.startOperator();
  const collector = await startControllerManager(tenancy.cluster, { controllers: "garbagecollector" });
  try {
    await client.delete(workloads, { namespace: NAMESPACE, name: "agent-0" });
    await waitUntil(async () => (await left("agent-0")).length === 0, { what: "nothing is left of agent-0", ...limit });
  } finally {
    await stopProcess(collector.identity, { name: collector.name });
  }
  const edit = { type: "merge", body: { spec: { network: { access: "none", allowlist: null, credentials: null } } } };
  await client.patch(workloads, { namespace: NAMESPACE, name: "agent-1" }, edit as { type: "merge"; body: object });
  await tenancy.untilWorkload(
    "agent-1",
    ({ metadata, status }) => status?.phase === "Ready" && status.observedGeneration === metadata.generation,
  );
  await client.create(secrets, {
    metadata: {
      ...{ name: egressNames("gone").authority, namespace: NAMESPACE },
      labels: { [label.managed]: "true", [label.workload]: "gone" },
    },
  });
  await operator.stop();
  assert.is((await left("agent-1")).length, 3);
  operator = tenancy.startOperator({ config: { egress } });
  await waitUntil(async () => (await left("agent-1", "gone")).length === 0, {
    what: "nothing is left of agent-1 and of gone",
    ...limit,
  });
  assert.is((await left("agent-2")).length, 3);
});

test.run();
