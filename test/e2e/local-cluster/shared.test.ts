// @alone
// @own-cluster
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { type ClusterClient, createClusterClient } from "../../../crds/client/cluster-client.ts";
import { loadClusterConfig } from "../../../crds/client/config/load-cluster-config.ts";
import { createTransport } from "../../../crds/client/transport.ts";
import { findProcess } from "../../../scripts/cluster/cluster-state.ts";
import { clusterFolder, clustersFolder } from "../../../scripts/cluster/folders.ts";
import { BUSYBOX_IMAGE } from "../../../scripts/cluster/images/local-images.ts";
import { inMountNamespaceOf, PRIVATE_FOLDERS } from "../../../scripts/cluster/node/mount-namespace.ts";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { type Lending, lending } from "../../../scripts/test/lending.ts";
import { SHARED_LOCAL_CLUSTER, startSharedLocalCluster } from "../../../scripts/test/shared-local-clusters.ts";
import { listProcesses } from "../processes.ts";

const NAMESPACE = "tenancy";
const test = suite<{ before: Machine | undefined; shared: Lending; said: string[] }>(
  "a local cluster that test files share",
);

/** What the last of the complete clusters leaves as the first one found it; seen only where no other is there. */
interface Machine {
  readonly settings: string;
  readonly folders: readonly boolean[];
}

/** Returns how the machine is, or undefined while a cluster of somebody else runs beside the test. */
function machine(): Machine | undefined {
  if (existsSync(join(clustersFolder(), "host-before.json"))) return undefined;
  const settings = ["net/ipv4/ip_forward", "vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops"];
  return {
    settings: settings.map((setting) => readFileSync(`/proc/sys/${setting}`, "utf8").trim()).join(" "),
    folders: PRIVATE_FOLDERS.map((folder) => existsSync(folder)),
  };
}

test.before((context) => {
  context.before = machine();
  context.said = [];
  context.shared = lending(startSharedLocalCluster, {
    what: "local cluster",
    log: (message) => context.said.push(message),
  });
});
test.after(({ shared }) => shared.stop());

/** Borrows a cluster as a test file does, and returns its name. */
async function borrow(shared: Lending, use: (client: ClusterClient, name: string) => Promise<void>): Promise<string> {
  return shared.lend(async ({ [SHARED_LOCAL_CLUSTER]: name = "none was started" }) => {
    const kubeconfigPath = join(clusterFolder(name), "kubeconfig");
    const transport = createTransport({ config: await loadClusterConfig({ kubeconfigPath }), role: "test" });
    try {
      await use(createClusterClient({ transport }), name);
    } finally {
      transport.close();
    }
    return name;
  });
}

const marks = ["left-running", "left-unable-to-end"];

test("what a file has left is gone: pods that do not end, what is on the volumes, what was mounted there", async (context) => {
  const { shared, said } = context;
  const first = await borrow(shared, async (client, name) => {
    const volumes = join(clusterFolder(name), "volumes");
    mkdirSync(join(volumes, "snapshots"));
    writeFileSync(join(volumes, "snapshots", "file"), "left");
    const { pid } = findProcess(clusterFolder(name), "containerd")?.identity ?? { pid: 0 };
    const mount = inMountNamespaceOf(pid, ["mount", "-t", "tmpfs", "tmpfs", volumes]);
    await runCommand(mount[0] ?? "", mount.slice(1));
    for (const mark of marks) {
      await client.create(pods, {
        metadata: { name: mark, namespace: NAMESPACE, finalizers: ["example.com/nobody-removes-it"] },
        spec: {
          terminationGracePeriodSeconds: 3600,
          containers: [
            {
              name: "main",
              image: BUSYBOX_IMAGE,
              command: ["/bin/busybox", "sh", "-c", `trap "" TERM; while :; do sleep 1; done; echo ${mark}`],
            },
          ],
        },
      });
    }
    const running = () => marks.every((mark) => listProcesses().some(({ command }) => command.includes(mark)));
    await waitUntil(running, { what: "the pods to run", limitMs: 120_000, intervalMs: 100 });
    await client.delete(pods, { namespace: NAMESPACE, name: "left-unable-to-end" });
  });
  const second = await borrow(shared, async (client, name) => {
    const left = listProcesses().filter(({ command }) => marks.some((mark) => command.includes(mark)));
    assert.equal(left, []);
    assert.equal((await client.list(pods, {})).items, []);
    assert.equal(readdirSync(join(clusterFolder(name), "volumes")), []);
    const pid = findProcess(clusterFolder(name), "containerd");
    assert.not.ok(existsSync(`/proc/${pid?.identity.pid}/root${join(clusterFolder(name), "volumes", "snapshots")}`));
  });
  assert.equal([second, said], [first, []]);
});

test("one whose node takes no pods any more is not lent again", async ({ shared, said }) => {
  let nodeName = "";
  const first = await borrow(shared, async (client, name) => {
    nodeName = name;
    const path = `/api/v1/nodes/${name}`;
    const body = JSON.stringify({ spec: { unschedulable: true } });
    await client.request({ method: "PATCH", path, body, contentType: "application/merge-patch+json" });
  });
  assert.equal(said, [`a local cluster is not used again: /api/v1/nodes/${nodeName} was changed`]);
  assert.not.ok(existsSync(clusterFolder(first)));
});

test("the last cluster leaves the machine as the first one found it", ({ before }) => {
  const after = machine();
  if (before === undefined || after === undefined) console.log("note: another cluster runs beside this file");
  else assert.equal(after, before);
});

test.run();
