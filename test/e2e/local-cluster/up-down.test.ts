// @limit 1800
// @own-cluster
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { BUILD_NAMESPACE, BUILDKIT_CONFIG, ensureBuilds } from "../../../scripts/cluster/builds/ensure-builds.ts";
import { listRepositories, pushImages } from "../../../scripts/cluster/builds/push-images.ts";
import { ensureRegistry, REGISTRY, registryAddress } from "../../../scripts/cluster/builds/registry.ts";
import {
  type ClusterState,
  findProcess,
  type RecordedProcess,
  readClusterState,
} from "../../../scripts/cluster/cluster-state.ts";
import { downLocalCluster } from "../../../scripts/cluster/down-local-cluster.ts";
import { clusterFolder } from "../../../scripts/cluster/folders.ts";
import { busyboxFiles, findStaticBusybox } from "../../../scripts/cluster/images/busybox.ts";
import {
  BUSYBOX_IMAGE,
  CRASH_IMAGE,
  HELLO_IMAGE,
  HELLO_ROOT_IMAGE,
} from "../../../scripts/cluster/images/local-images.ts";
import { importImages } from "../../../scripts/cluster/images.ts";
import { createApiClient } from "../../../scripts/cluster/kubernetes/api-client.ts";
import { isRunning, type ProcessIdentity } from "../../../scripts/cluster/process/process-identity.ts";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";
import { stopProcess } from "../../../scripts/cluster/process/stop-process.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { slotOf } from "../../../scripts/cluster/slot.ts";
import { statusLocalCluster } from "../../../scripts/cluster/status-local-cluster.ts";
import { type LocalCluster, upLocalCluster } from "../../../scripts/cluster/up-local-cluster.ts";
import { listProcesses } from "../processes.ts";

const name = `test-e2e-${process.pid}`;
const test = suite<{ cluster: LocalCluster; served: Promise<string> | undefined }>("upLocalCluster");

async function links(...filter: string[]): Promise<string[]> {
  const found = JSON.parse(await runCommand("ip", ["-json", "link", "show", ...filter])) as { ifname?: string }[];
  return found.flatMap(({ ifname }) => (ifname === undefined ? [] : [ifname]));
}

function kubectl({ kubectlPath, kubeconfigPath }: LocalCluster, ...words: string[]): Promise<string> {
  return runCommand(kubectlPath, ["--kubeconfig", kubeconfigPath, ...words]);
}

async function nodeNames(kubeconfigPath: string): Promise<string> {
  const client = createApiClient(kubeconfigPath);
  try {
    const { status, text } = await client.call({ method: "GET", path: "/api/v1/nodes" });
    assert.is(status, 200, text);
    const { items } = JSON.parse(text) as { items: { metadata: { name: string } }[] };
    return items.map(({ metadata }) => metadata.name).join(" ");
  } finally {
    client.close();
  }
}

async function createPod(cluster: LocalCluster, pod: string, image: string, more: object = {}): Promise<void> {
  const client = createApiClient(cluster.kubeconfigPath);
  const { status, text } = await client.call({
    ...{ method: "POST", path: "/api/v1/namespaces/default/pods" },
    body: {
      metadata: { name: pod },
      spec: { automountServiceAccountToken: false, containers: [{ name: "main", image, ...more }] },
    },
  });
  client.close();
  assert.is(status, 201, text);
}

async function until(cluster: LocalCluster, pod: string, path: string, expected: RegExp): Promise<void> {
  let last = "";
  await waitUntil(
    async () => {
      last = await kubectl(cluster, "get", "pod", pod, "-o", `jsonpath=${path}`);
      return expected.test(last);
    },
    { what: `${path} of ${pod} to match ${expected}`, limitMs: 120_000, intervalMs: 100, explain: () => last },
  );
}

async function untilLogged(cluster: LocalCluster, pod: string, expected: RegExp): Promise<void> {
  await waitUntil(async () => expected.test(await kubectl(cluster, "logs", pod)), {
    ...{ what: `${pod} to have written ${expected}`, limitMs: 120_000, intervalMs: 100 },
  });
}

function fetchText(url: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { agent: false, timeout: 5000 }, (incoming) => {
      let text = "";
      incoming.on("data", (chunk: Buffer) => (text += chunk.toString("utf8")));
      incoming.once("end", () => resolve(text));
    });
    outgoing.once("error", reject);
    outgoing.end();
  });
}

const READY = '{.status.conditions[?(@.type=="Ready")].status}';

test.before(async (context) => {
  const started = performance.now();
  context.cluster = await upLocalCluster({
    ...{ name, log: (line) => console.log(line) },
    onServing(serving) {
      context.served = nodeNames(serving.kubeconfigPath);
      // Read by a test, after the rest of the cluster is up.
      context.served.catch(() => undefined);
    },
  });
  console.log(`note: cluster up after ${((performance.now() - started) / 1000).toFixed(1)} s`);
});
test.after(() => downLocalCluster({ name }));

test("tells when its API server answers, which is before its node is there", async ({ served }) => {
  assert.is(await served, "");
});

test("starts a pod that answers, within about a second", async ({ cluster }) => {
  const started = performance.now();
  await createPod(cluster, "hello", HELLO_IMAGE, { securityContext: { runAsNonRoot: true } });
  const client = createApiClient(cluster.kubeconfigPath);
  const pod = await waitUntil(
    async () => {
      const { text } = await client.call({ method: "GET", path: "/api/v1/namespaces/default/pods/hello" });
      const { status } = JSON.parse(text) as {
        status: { podIP: string; conditions?: { type: string; status: string }[] };
      };
      return (
        status.conditions?.some((condition) => condition.type === "Ready" && condition.status === "True") && status
      );
    },
    { what: "the pod to be ready", limitMs: 120_000, intervalMs: 10 },
  );
  client.close();
  console.log(`note: pod ready after ${Math.round(performance.now() - started)} ms`);
  // Without a probe it counts as ready before it listens.
  const url = `http://${pod.podIP}:8080/`;
  await waitUntil(() => fetchText(url).catch(() => undefined), { what: "the pod to answer", limitMs: 60_000 });
  assert.match(await fetchText(url), /hello from hello/);
  assert.is(await fetchText(`http://${pod.podIP}:8080/healthz`), "ok\n");
});

test("lets kubectl exec into a pod and read its log", async ({ cluster }) => {
  await createPod(cluster, "talk", BUSYBOX_IMAGE, { command: ["sh", "-c", "echo spoken; exec sleep 600"] });
  await until(cluster, "talk", READY, /True/);
  await untilLogged(cluster, "talk", /spoken/);
  assert.is(await kubectl(cluster, "exec", "talk", "--", "sh", "-c", "id -u; hostname"), "0\ntalk\n");
});

test("lets pods reach each other and this machine, and nothing beyond", async ({ cluster }) => {
  const address = await kubectl(cluster, "get", "pod", "hello", "-o", "jsonpath={.status.podIP}");
  const from = (...command: string[]) => kubectl(cluster, "exec", "talk", "--", ...command);
  // Debian's static busybox crashes on wget's own -T.
  assert.match(await from("timeout", "30", "wget", "-q", "-O-", `http://${address}:8080/healthz`), /ok/);
  assert.match(await from("ping", "-c", "1", "-W", "30", cluster.hostAddress), /1 packets received/);
  await from("ping", "-c", "1", "-W", "1", "192.0.2.1").then(
    () => assert.unreachable(),
    (error: Error) => assert.match(error.message, /status 1/),
  );
});

test("ends a pod of the hello image as soon as it is asked to", async ({ cluster }) => {
  // It returns when the pod is gone, and fails long before the grace period is over.
  await kubectl(cluster, "delete", "pod", "hello", "--grace-period=600", "--timeout=50s");
});

test("reports what the example images are made for", async ({ cluster }) => {
  await createPod(cluster, "crash", CRASH_IMAGE);
  await createPod(cluster, "root", HELLO_ROOT_IMAGE, { securityContext: { runAsNonRoot: true } });
  await until(cluster, "crash", "{.status.containerStatuses[0].restartCount}", /[1-9]/);
  await untilLogged(cluster, "crash", /tenancy-crash: ends with status 1/);
  await until(
    cluster,
    "root",
    "{.status.containerStatuses[0].state.waiting.message}",
    /^container has runAsNonRoot and image will run as root/,
  );
});

test("takes further images without a registry, and none twice", async ({ cluster }) => {
  const files = await busyboxFiles(await findStaticBusybox(() => undefined));
  const image = { name: "localhost/of-the-test:1", files, command: ["sh", "-c", "echo imported; sleep 600"] };
  assert.equal(await importImages(name, [image]), [image.name]);
  assert.equal(await importImages(name, [image]), []);
  await createPod(cluster, "imported", image.name);
  await until(cluster, "imported", READY, /True/);
  await untilLogged(cluster, "imported", /imported/);
});

test("finds a cluster that is up, and starts nothing of it again", async ({ cluster }) => {
  const { processes } = readClusterState(clusterFolder(name)) as ClusterState;
  const started = performance.now();
  let serving = "";
  const again = await upLocalCluster({ name, onServing: ({ kubeconfigPath }) => (serving = kubeconfigPath) });
  console.log(`note: up again after ${Math.round(performance.now() - started)} ms`);
  assert.ok(again.wasRunning);
  assert.is(serving, cluster.kubeconfigPath);
  assert.is(again.server, cluster.server);
  assert.equal(readClusterState(clusterFolder(name))?.processes, processes);
});

test("brings what builds take, and a registry that pods are pulled from, which starts again alone", async ({
  cluster,
}) => {
  const registry = () => findProcess(clusterFolder(name), REGISTRY);
  await ensureBuilds(name, { log: () => undefined });
  const address = registryAddress(name);
  const inBuilds = (...words: string[]) => kubectl(cluster, "-n", BUILD_NAMESPACE, ...words);
  assert.match(await inBuilds("get", "configmap", BUILDKIT_CONFIG, "-o", "yaml"), `mirrors = ["${address}/localhost"]`);
  const level = "jsonpath={.metadata.labels.pod-security\\.kubernetes\\.io/enforce}";
  assert.is(await kubectl(cluster, "get", "namespace", BUILD_NAMESPACE, "-o", level), "privileged");
  const files = await busyboxFiles(await findStaticBusybox(() => undefined));
  await pushImages(address, [{ name: "localhost/pushed:1", files, command: ["sh", "-c", "echo pulled; sleep 600"] }]);
  await createPod(cluster, "pulled", `${address}/localhost/pushed:1`);
  await until(cluster, "pulled", READY, /True/);
  await untilLogged(cluster, "pulled", /pulled/);

  const { identity } = registry() as RecordedProcess;
  await stopProcess(identity, { name: REGISTRY, graceMs: 0 });
  assert.is((await statusLocalCluster({ name }))?.ready, true);
  await ensureBuilds(name, { log: () => undefined });
  assert.is.not(registry()?.identity.pid, identity.pid);
  assert.ok((await listRepositories(address)).includes("localhost/pushed"));
});

test("starts a cluster afresh of which a part has died", async () => {
  const kubelet = findProcess(clusterFolder(name), "kubelet");
  await stopProcess(kubelet?.identity as ProcessIdentity, { name: "kubelet", graceMs: 0 });
  assert.is((await statusLocalCluster({ name }))?.ready, false);
  const lines: string[] = [];
  const again = await upLocalCluster({ name, log: (line) => lines.push(line) });
  assert.not.ok(again.wasRunning);
  assert.ok(lines.some((line) => /is not whole \(kubelet\), so it is started afresh/.test(line)));
  await createPod(again, "fresh", HELLO_IMAGE);
  await until(again, "fresh", READY, /True/);
});

test("leaves nothing behind when it goes, with frozen pods still in it", async ({ cluster }) => {
  await ensureRegistry(name, () => undefined);
  const { processes, slot } = readClusterState(clusterFolder(name)) as ClusterState;
  const { bridge } = slotOf(slot as number);
  const ours = [bridge, ...(await links("master", bridge))];
  assert.is(processes.length, cluster.policies.enforced ? 8 : 7);
  assert.ok(ours.length > 1, "a pod is plugged into the bridge");
  // As a test that was broken off leaves it.
  const freezer = `/sys/fs/cgroup/freezer/tenancy-cluster-${name}/freezer.state`;
  if (existsSync(freezer)) writeFileSync(freezer, "FROZEN");
  await downLocalCluster({ name });
  // The kernel takes the pods' ends away when it cleans up after their namespaces.
  let left = ours;
  await waitUntil(
    async () => {
      const there = await links();
      left = ours.filter((link) => there.includes(link));
      return left.length === 0;
    },
    { what: "the cluster's links to go", limitMs: 60_000, explain: () => left.join() },
  );
  if (cluster.policies.enforced) {
    // Another cluster's bridge may begin with the same name.
    for (const save of ["iptables-save", "ip6tables-save"])
      assert.not.match(await runCommand(save, []), new RegExp(`\\b${bridge}\\b`));
  }
  assert.not.ok(readFileSync("/proc/self/mounts", "utf8").includes(clusterFolder(name)));
  assert.not.ok(processes.some(({ identity }) => isRunning(identity)));
  assert.not.ok(existsSync(clusterFolder(name)));
  assert.equal(
    listProcesses().filter(({ command }) => command.includes(clusterFolder(name))),
    [],
  );
  assert.is(
    await runCommand("find", ["/sys/fs/cgroup", "-ignore_readdir_race", "-name", `tenancy-cluster-${name}`]),
    "",
  );
  assert.is(await statusLocalCluster({ name }), undefined);
});

test.run();
