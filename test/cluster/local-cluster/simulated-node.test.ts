// @own-cluster
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { findBinaries } from "../../../scripts/cluster/binaries.ts";
import { type ControlPlane, startControlPlane } from "../../../scripts/cluster/control-plane.ts";
import { type ApiClient, createApiClient } from "../../../scripts/cluster/kubernetes/api-client.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { CONTROL_PLANE_PROGRAMS } from "../../../scripts/cluster/programs.ts";
import { type SimulatedNodes, startSimulatedNodes } from "../../../scripts/cluster/simulated/simulated-node.ts";

interface Pod {
  metadata: { name: string; uid: string; deletionTimestamp?: string };
  spec: { nodeName?: string };
  status: {
    phase: string;
    podIP?: string;
    reason?: string;
    conditions?: { type: string; status: string; reason?: string }[];
    containerStatuses?: {
      ready: boolean;
      restartCount: number;
      state: Record<string, { reason?: string; message?: string }>;
    }[];
  };
}

interface Context {
  cluster: ControlPlane;
  client: ApiClient;
  nodes: SimulatedNodes;
  troubles: unknown[];
}

const PODS = "/api/v1/namespaces/default/pods";
const ANNOTATION = "simulated.tenancy.dev/behaviour";
const test = suite<Context>("startSimulatedNodes");

test.before(async (context) => {
  const binaries = await findBinaries({ need: CONTROL_PLANE_PROGRAMS });
  context.cluster = await startControlPlane({ name: `test-simulated-${process.pid}`, binaries });
  context.client = createApiClient(context.cluster.kubeconfigPath);
  context.troubles = [];
  context.nodes = await startSimulatedNodes({
    ...{ kubeconfigPath: context.cluster.kubeconfigPath, nodes: 3, podsPerNode: 100, podNetwork: "127.64" },
    onTrouble: (error) => context.troubles.push(error),
  });
});
test.after(async ({ cluster, client, nodes }) => {
  await nodes.stop();
  client.close();
  await cluster.stop();
});

async function create(
  client: ApiClient,
  name: string,
  { image = "some/image:1", spec = {}, annotation }: { image?: string; spec?: object; annotation?: string } = {},
): Promise<void> {
  const annotations = annotation === undefined ? {} : { annotations: { [ANNOTATION]: annotation } };
  const body = { metadata: { name, ...annotations }, spec: { containers: [{ name: "main", image }], ...spec } };
  const { status, text } = await client.call({ method: "POST", path: PODS, body });
  assert.is(status, 201, text);
}

async function get(client: ApiClient, name: string): Promise<Pod | undefined> {
  const { status, text } = await client.call({ method: "GET", path: `${PODS}/${name}` });
  return status === 404 ? undefined : (JSON.parse(text) as Pod);
}

function isReady(pod: Pod | undefined): boolean {
  return pod?.status.conditions?.some(({ type, status }) => type === "Ready" && status === "True") ?? false;
}

function until(client: ApiClient, name: string, what: string, check: (pod: Pod | undefined) => boolean): Promise<Pod> {
  let last: Pod | undefined;
  return waitUntil(
    async () => {
      last = await get(client, name);
      return check(last) && (last ?? ({} as Pod));
    },
    { what: `${name} to be ${what}`, limitMs: 60_000, intervalMs: 20, explain: () => JSON.stringify(last?.status) },
  );
}

function waitingReason(pod: Pod | undefined): string | undefined {
  return pod?.status.containerStatuses?.[0]?.state.waiting?.reason;
}

async function remove(client: ApiClient, name: string, gracePeriodSeconds?: number): Promise<void> {
  const body = gracePeriodSeconds === undefined ? {} : { body: { gracePeriodSeconds } };
  assert.is((await client.call({ method: "DELETE", path: `${PODS}/${name}`, ...body })).status, 200);
}

test("readies 60 pods, each with an address of its own, spread over the nodes", async ({ client, nodes }) => {
  const started = performance.now();
  await Promise.all(Array.from({ length: 60 }, (_, index) => create(client, `many-${index}`)));
  const list = async (): Promise<Pod[]> =>
    (JSON.parse((await client.call({ method: "GET", path: PODS })).text) as { items: Pod[] }).items;
  const pods = await waitUntil(
    async () => {
      const items = await list();
      return items.length === 60 && items.every(isReady) && items;
    },
    { what: "60 ready pods", limitMs: 60_000, intervalMs: 100 },
  );
  console.log(`note: 60 simulated pods ready after ${((performance.now() - started) / 1000).toFixed(1)} s`);
  assert.is(new Set(pods.map(({ status }) => status.podIP)).size, 60);
  assert.is(new Set(pods.map(({ spec }) => spec.nodeName)).size, 3);
  assert.ok(pods.every(({ status }) => status.phase === "Running" && status.podIP?.startsWith("127.64.")));
  await client.call({ method: "DELETE", path: PODS, limitMs: 60_000 });
  await waitUntil(async () => (await list()).length === 0, { what: "no pods", limitMs: 60_000 });
  await waitUntil(() => nodes.podCount() === 0, { what: "the simulation to forget the pods", limitMs: 60_000 });
});

test("cordoned nodes take no new pods until one is not cordoned any more", async ({ client }) => {
  const cordon = async (node: number, unschedulable: boolean): Promise<void> => {
    const path = `/api/v1/nodes/simulated-${node}`;
    const contentType = "application/merge-patch+json";
    const { status, text } = await client.call({
      method: "PATCH",
      path,
      contentType,
      body: { spec: { unschedulable } },
    });
    assert.is(status, 200, text);
  };
  for (const node of [1, 2, 3]) await cordon(node, true);
  // The simulation hears of it a moment later.
  let made = 0;
  const waits = await waitUntil(
    async () => {
      const name = `cordoned-${made++}`;
      await create(client, name);
      const scheduled = ({ status }: Pod) => status.conditions?.find(({ type }) => type === "PodScheduled");
      const pod = await until(client, name, "looked at", (found) => found !== undefined && Boolean(scheduled(found)));
      return scheduled(pod)?.reason === "Unschedulable" && name;
    },
    { what: "a pod that no node takes", limitMs: 60_000 },
  );
  await cordon(2, false);
  assert.is((await until(client, waits, "ready", isReady)).spec.nodeName, "simulated-2");
  for (const node of [1, 3]) await cordon(node, false);
});

test("ends a deleted pod soon, one that stops slowly after its whole grace period", async ({ client }) => {
  await create(client, "quick");
  await create(client, "slow", { image: "simulated/slow-stop:1" });
  await Promise.all(["quick", "slow"].map((name) => until(client, name, "ready", isReady)));
  const { text } = await client.call({ method: "GET", path: PODS });
  const { resourceVersion } = (JSON.parse(text) as { metadata: { resourceVersion: string } }).metadata;
  const started = performance.now();
  await Promise.all([remove(client, "quick"), remove(client, "slow", 2)]);
  await until(client, "slow", "gone", (pod) => pod === undefined);
  assert.ok(performance.now() - started >= 2000);
  const ended = await endedSince(client, resourceVersion, 2);
  assert.equal(
    ended.map(({ metadata }) => metadata.name),
    ["quick", "slow"],
  );
  assert.ok(ended[1]?.metadata.deletionTimestamp);
  assert.ok(isReady(ended[1]), "it is ready until it ends");
});

/** The pods that have gone since a version, in their order and as they last were. */
function endedSince(client: ApiClient, resourceVersion: string, count: number): Promise<Pod[]> {
  return new Promise((resolve, reject) => {
    const abort = new AbortController();
    const ended: Pod[] = [];
    const onLine = (line: Buffer): void => {
      const { type, object } = JSON.parse(line.toString("utf8")) as { type: string; object: Pod };
      if (type === "DELETED") ended.push(object);
      if (ended.length < count) return;
      abort.abort();
      resolve(ended);
    };
    client.lines(`${PODS}?watch=1&resourceVersion=${resourceVersion}`, onLine, abort.signal).catch((error: Error) => {
      if (!abort.signal.aborted) reject(error);
    });
  });
}

test("takes a pod that is deleted without grace for gone at once", async ({ client }) => {
  await create(client, "forced", { image: "simulated/slow-stop:1" });
  await until(client, "forced", "ready", isReady);
  await remove(client, "forced", 0);
  assert.is(await get(client, "forced"), undefined);
});

test("leaves a pod with a finalizer to whoever set it", async ({ client }) => {
  await create(client, "held");
  await until(client, "held", "ready", isReady);
  const patch = (finalizers: string[]) => ({
    ...{ method: "PATCH" as const, path: `${PODS}/held`, contentType: "application/merge-patch+json" },
    body: { metadata: { finalizers } },
  });
  await client.call(patch(["example.com/hold"]));
  await remove(client, "held");
  const held = await until(client, "held", "being deleted", (pod) => pod?.metadata.deletionTimestamp !== undefined);
  assert.ok(held);
  await client.call(patch([]));
  await until(client, "held", "gone", (pod) => pod === undefined);
});

for (const [image, reason, message] of [
  ["simulated/missing:1", "ImagePullBackOff", /Back-off pulling image "simulated\/missing:1"/],
  ["simulated/crash:1", "CrashLoopBackOff", /restarting failed container/],
] as const) {
  test(`holds ${image} in ${reason}`, async ({ client }) => {
    const name = reason.toLowerCase();
    await create(client, name, { image });
    const pod = await until(client, name, reason, (found) => waitingReason(found) === reason);
    assert.match(pod.status.containerStatuses?.[0]?.state.waiting?.message ?? "", message);
    assert.not.ok(isReady(pod));
    await remove(client, name);
  });
}

test("restarts a crashing container again and again", async ({ client }) => {
  await create(client, "crashes", { image: "simulated/crash:1" });
  await until(client, "crashes", "restarted 3 times", (pod) => pod?.status.containerStatuses?.[0]?.restartCount === 3);
  await remove(client, "crashes");
});

test("refuses to run an image as root where the pod forbids it, and runs it where it does not", async ({ client }) => {
  const image = "simulated/root:1";
  await create(client, "root-refused", { image, spec: { securityContext: { runAsNonRoot: true } } });
  await create(client, "root-allowed", { image });
  const refused = await until(
    client,
    "root-refused",
    "refused",
    (pod) => waitingReason(pod) === "CreateContainerConfigError",
  );
  assert.match(
    refused.status.containerStatuses?.[0]?.state.waiting?.message ?? "",
    /^container has runAsNonRoot and image will run as root \(pod: "root-refused_default\(.+\)", container: main\)$/,
  );
  await until(client, "root-allowed", "ready", isReady);
  await Promise.all([remove(client, "root-refused"), remove(client, "root-allowed")]);
});

test("lets an annotation break a pod that is ready, and mend it", async ({ client }) => {
  await create(client, "moody");
  await until(client, "moody", "ready", isReady);
  const annotate = (behaviour: string) =>
    client.call({
      ...{ method: "PATCH", path: `${PODS}/moody`, contentType: "application/merge-patch+json" },
      body: { metadata: { annotations: { [ANNOTATION]: behaviour } } },
    });
  await annotate("never-ready");
  await until(client, "moody", "unready", (pod) => pod?.status.phase === "Running" && !isReady(pod));
  await annotate("crash-loop");
  await until(client, "moody", "crashing", (pod) => waitingReason(pod) === "CrashLoopBackOff");
  await annotate("normal");
  await until(client, "moody", "ready", isReady);
  await annotate("evicted");
  const evicted = await until(client, "moody", "evicted", (pod) => pod?.status.phase === "Failed");
  assert.is(evicted.status.reason, "Evicted");
  await remove(client, "moody");
});

test("leaves a pod pending that does not fit, until another one makes room", async ({
  client,
  cluster,
  nodes,
  troubles,
}) => {
  await nodes.stop();
  const small = await startSimulatedNodes({
    ...{ kubeconfigPath: cluster.kubeconfigPath, nodes: 1, podsPerNode: 1, nodePrefix: "small" },
    onTrouble: (error) => troubles.push(error),
  });
  try {
    await create(client, "first");
    await until(client, "first", "ready", isReady);
    await create(client, "second");
    const refused = await until(client, "second", "unschedulable", (pod) =>
      Boolean(pod?.status.conditions?.some(({ reason }) => reason === "Unschedulable")),
    );
    assert.is(refused.status.phase, "Pending");
    await remove(client, "first");
    await until(client, "second", "ready", isReady);
    await remove(client, "second");
    await until(client, "second", "gone", (pod) => pod === undefined);
  } finally {
    await small.stop();
  }
});

test("goes on after the API server has been away", async ({ client, cluster }) => {
  const patient: unknown[] = [];
  const nodes = await startSimulatedNodes({
    ...{ kubeconfigPath: cluster.kubeconfigPath, nodes: 1, nodePrefix: "patient" },
    onTrouble: (error) => patient.push(error),
  });
  try {
    await cluster.apiServer.kill();
    await cluster.apiServer.start();
    await create(client, "after");
    await until(client, "after", "ready", isReady);
  } finally {
    await nodes.stop();
  }
});

test("had no trouble with any of it", ({ troubles }) => {
  assert.equal(troubles.map(String), []);
});

test.run();
