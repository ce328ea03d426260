import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createClusterClient } from "../../../crds/client/cluster-client.ts";
import { loadClusterConfig } from "../../../crds/client/config/load-cluster-config.ts";
import { createTransport } from "../../../crds/client/transport.ts";
import { findProcess } from "../../cluster/cluster-state.ts";
import { downLocalCluster } from "../../cluster/down-local-cluster.ts";
import { clusterFolder } from "../../cluster/folders.ts";
import { importProxyImage } from "../../cluster/images/proxy-image.ts";
import { type ApiClient, createApiClient } from "../../cluster/kubernetes/api-client.ts";
import { watchPods } from "../../cluster/simulated/pod-watch.ts";
import { upLocalCluster } from "../../cluster/up-local-cluster.ts";
import { type LocalSnapshots, localSnapshots } from "../../start/local-snapshots.ts";
import { NAMESPACE, type Pod, STARTED, TOLD } from "../objects.ts";
import { PAIRS } from "../tenants.ts";
import { type Content, EMPTY, readContent, writeContent } from "./pod-files.ts";
import type { SoakCluster, SoakClusterOptions, SoakPods } from "./soak-cluster.ts";

/**
 * Two on names of claims that coincide, two that differ by case, one whose pods all start cold, one behind the fence.
 */
const ROOM_FOR = new Set([0, 1, 2, 3, 6, 8, 12, 14]);

/** Starts a local cluster of its own, with real containers. */
export async function startContainerCluster({
  tree,
  log,
  onTrouble,
  onStop,
}: SoakClusterOptions): Promise<SoakCluster> {
  const name = `soak-${process.pid}`;
  onStop(() => downLocalCluster({ name }));
  const { kubeconfigPath, kubectlPath, volumesFolder } = await upLocalCluster({ name, log });
  // The edge execs by kubectl.
  process.env.PATH = `${dirname(kubectlPath)}:${process.env.PATH}`;
  await importProxyImage(name, log);
  const snapshots = await localSnapshots({ cluster: { name, volumesFolder }, root: tree });
  const api = createApiClient(kubeconfigPath);
  onStop(() => api.close());
  const { pods, stop } = followPods({ api, name, onTrouble });
  onStop(stop);
  return {
    api,
    kubeconfigPath,
    pods,
    snapshots: join(volumesFolder, "snapshots"),
    poolSizes: { c: 1, "b-c": 1, guarded: 1, [TOLD]: 1, [STARTED]: 1 },
    pairs: PAIRS.filter((_, index) => ROOM_FOR.has(index)),
    mustRestMs: 300_000,
    prepare: () => makeSnapshots(kubeconfigPath, snapshots),
    environment: { ...snapshots.environment, TENANCY_SNAPSHOT_ACCESS: "api-server" },
  };
}

async function makeSnapshots(kubeconfigPath: string, snapshots: LocalSnapshots): Promise<void> {
  const transport = createTransport({ config: await loadClusterConfig({ kubeconfigPath }), role: "soak" });
  try {
    const client = createClusterClient({ transport });
    await snapshots.make({ client, namespace: NAMESPACE, signal: AbortSignal.timeout(60_000) });
  } finally {
    transport.close();
  }
}

interface SeenPod {
  pod: Pod;
  /** As last read. */
  content: Content | undefined;
  isEnding: boolean;
}

/**
 * Reads and writes pods' files where the node keeps them, in the volume of their overlay directory. The kubelet removes
 * that after a pod's containers have ended, so what a pod had at its end is read when its deletion begins.
 */
function followPods(options: { api: ApiClient; name: string; onTrouble(error: unknown): void }): {
  pods: SoakPods;
  stop(): Promise<void>;
} {
  const { api, name, onTrouble } = options;
  const folder = clusterFolder(name);
  const node = findProcess(folder, "containerd")?.identity.pid;
  const filesOf = (uid: string): string =>
    `/proc/${node}/root${join(folder, "kubelet/pods", uid, "volumes/kubernetes.io~empty-dir/tenancy-overlay-0")}`;
  const seen = new Map<string, SeenPod>();
  const stopping = new AbortController();
  const watching = watchPods({
    client: api,
    // The slice that this one reads is another.
    onPod: (pod) => onPod(pod as unknown as Pod),
    onGone: (uid) => onEnding(seen.get(uid)),
    onTrouble,
    signal: stopping.signal,
  });

  function onPod(pod: Pod): void {
    if (pod.metadata.namespace !== NAMESPACE) return;
    const entry = seen.get(pod.metadata.uid) ?? { pod, content: undefined, isEnding: false };
    seen.set(pod.metadata.uid, entry);
    entry.pod = pod;
    if (pod.metadata.deletionTimestamp !== undefined) onEnding(entry);
  }

  function onEnding(entry: SeenPod | undefined): void {
    if (entry === undefined || entry.isEnding) return;
    const before = entry.content;
    const found = read(entry);
    entry.isEnding = true;
    // The kubelet was faster, and has begun to remove them.
    if (found === EMPTY && before !== undefined) entry.content = before;
  }

  function read(entry: SeenPod): Content | undefined {
    const files = filesOf(entry.pod.metadata.uid);
    if (!entry.isEnding && existsSync(files)) entry.content = readContent(files);
    return entry.content;
  }

  const pods: SoakPods = {
    content(uid) {
      const entry = seen.get(uid);
      return entry === undefined ? undefined : read(entry);
    },
    write(uid, token, bytes) {
      const entry = seen.get(uid);
      if (entry === undefined || entry.isEnding || !existsSync(filesOf(uid))) return false;
      writeContent(filesOf(uid), token, bytes);
      entry.content = token;
      return true;
    },
    async fail(uid) {
      const statuses = seen.get(uid)?.pod.status?.containerStatuses ?? [];
      const ids = statuses.flatMap(
        ({ containerID = "" }) => /^containerd:\/\/([0-9a-f]{64})$/.exec(containerID)?.[1] ?? [],
      );
      for (const pid of readdirSync("/proc").filter((entry) => /^\d+$/.test(entry))) killIfIn(Number(pid), ids);
    },
    nodes: [],
    podsOn: () => [],
    freeze: () => Promise.resolve(),
    thaw: () => Promise.resolve(),
  };
  return {
    pods,
    async stop() {
      stopping.abort();
      await watching;
    },
  };
}

/** The sandbox is no container of the status, so the pod keeps its address. */
function killIfIn(pid: number, containerIds: readonly string[]): void {
  try {
    const groups = readFileSync(`/proc/${pid}/cgroup`, "utf8");
    if (containerIds.some((id) => groups.includes(id))) process.kill(pid, "SIGKILL");
  } catch (error) {
    // It has ended in the meantime.
    if (!["ENOENT", "ESRCH"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
  }
}
