import type { ChildProcess } from "node:child_process";
import { join } from "node:path";
import type { ApiClient } from "../../cluster/kubernetes/api-client.ts";
import { pause } from "../../cluster/process/wait-until.ts";
import { registerNode } from "../../cluster/simulated/nodes.ts";
import { watchPods } from "../../cluster/simulated/pod-watch.ts";
import type { Decisions } from "../decisions.ts";
import { type Container, NAMESPACE, PODS_PATH, type Pod, TOOLS_IMAGE } from "../objects.ts";
import type { CommandRunner } from "./exec-endpoint.ts";
import { startHelperServer } from "./helper-server.ts";
import {
  type Content,
  FILES_FOLDER,
  killGroup,
  makePodRoot,
  type PodBase,
  readContent,
  removePodRoot,
  runInPod,
  writeContent,
} from "./pod-files.ts";
import { initStatus, ready, runningStatus } from "./pod-status.ts";
import type { SoakPods } from "./soak-cluster.ts";

/**
 * Plays scheduler and kubelet of a few nodes. A pod is a folder that its commands see as `/`: its init container of
 * tools and what the operator runs in it by exec are real processes on real files; the program of the workload alone is
 * not run.
 */
export interface Kubelet extends CommandRunner, SoakPods {
  /** Where the helper pod's program listens; undefined while it does not run. Comes when its node goes on. */
  helperPort(): Promise<number | undefined>;
  stop(): Promise<void>;
}

interface Node {
  readonly name: string;
  thawed: Promise<void>;
  thaw: (() => void) | undefined;
}

interface PlayedPod {
  pod: Pod;
  readonly node: Node;
  readonly root: string;
  readonly address: string;
  readonly running: Set<string>;
  readonly commands: Set<ChildProcess>;
  readonly over: AbortController;
  port: Promise<number> | undefined;
  isStarted: boolean;
  hasFiles: boolean;
  lastContent: Content | undefined;
  isFinishing: boolean;
  isGone: boolean;
}

const HELPER_APP = "tenancy-snapshots";

export async function startKubelet(options: {
  api: ApiClient;
  folder: string;
  base: PodBase;
  /** The bundle of the helper pod's program. */
  helper: string;
  decisions: Decisions;
  onTrouble(error: unknown): void;
}): Promise<Kubelet> {
  const { api, folder, base, helper, decisions, onTrouble } = options;
  const nodes: Node[] = ["soak-1", "soak-2", "soak-3"].map((name) => ({
    name,
    thawed: Promise.resolve(),
    thaw: undefined,
  }));
  await Promise.all(
    nodes.map(({ name }, index) =>
      registerNode(api, { name, address: `10.63.0.${index + 1}`, pods: 0, isCordoned: false }, 500),
    ),
  );
  const played = new Map<string, PlayedPod>();
  // The address given back last is given out first, so that one that is kept too long is soon another pod's.
  const freeAddresses = Array.from({ length: 500 }, (_, index) => `10.64.${index >> 8}.${index & 255}`).reverse();
  const stopping = new AbortController();
  const work = new Set<Promise<void>>();
  const watching = watchPods({
    client: api,
    // The slice that this one reads is another.
    onPod: (pod) => onPod(pod as unknown as Pod),
    onGone,
    onTrouble,
    signal: stopping.signal,
  });

  function background(task: Promise<void>): void {
    const noted: Promise<void> = task
      .catch((error: unknown) => {
        if (!stopping.signal.aborted) onTrouble(error);
      })
      .finally(() => work.delete(noted));
    work.add(noted);
  }

  function onPod(pod: Pod): void {
    const { uid, namespace, deletionTimestamp } = pod.metadata;
    if (namespace !== NAMESPACE) return;
    let entry = played.get(uid);
    if (entry === undefined) {
      const awake = nodes.filter(({ thaw }) => thaw === undefined);
      entry = {
        pod,
        node: decisions.pick(awake.length > 0 ? awake : nodes),
        // The volume outlives the helper pods that mount it.
        root: join(folder, isHelper(pod) ? "volume" : uid),
        address: freeAddresses.pop() ?? "10.65.0.1",
        running: new Set(),
        commands: new Set(),
        over: new AbortController(),
        port: undefined,
        isStarted: false,
        hasFiles: !isHelper(pod),
        lastContent: undefined,
        isFinishing: false,
        isGone: false,
      };
      played.set(uid, entry);
      if (deletionTimestamp === undefined) background(start(entry));
    }
    entry.pod = pod;
    if (deletionTimestamp === undefined || entry.isFinishing) return;
    // Also of a pod that was evicted while it was being deleted: the API server removes by itself only what had ended
    // before.
    entry.isFinishing = true;
    background(finish(entry));
  }

  function onGone(uid: string): void {
    const entry = played.get(uid);
    if (entry === undefined) return;
    entry.isGone = true;
    background(
      entry.node.thawed.then(() => {
        end(entry);
        freeAddresses.push(entry.address);
        if (entry.hasFiles) removePodRoot(entry.root);
      }),
    );
  }

  async function start(entry: PlayedPod): Promise<void> {
    const { pod, node, root, over } = entry;
    const { name, uid } = pod.metadata;
    const target = { apiVersion: "v1", kind: "Node", name: node.name };
    await call("POST", `${PODS_PATH}/${name}/binding`, { metadata: { name, namespace: NAMESPACE, uid }, target });
    const containers = [...(pod.spec.initContainers ?? []), ...pod.spec.containers];
    const folders = containers.flatMap(({ volumeMounts = [] }) => volumeMounts.map(({ mountPath }) => mountPath));
    // Its folder was removed if the pod is already gone.
    if (over.signal.aborted) return;
    makePodRoot(root, { base, folders });
    entry.isStarted = true;
    for (const init of pod.spec.initContainers ?? []) {
      // The other kind of init container of the product's sets up a network that is not here.
      if (init.image === TOOLS_IMAGE) await runInit(entry, init);
    }
    await pause(decisions.between(20, 300), over.signal);
    await node.thawed;
    if (over.signal.aborted) return;
    if (isHelper(pod)) await runHelper(entry);
    for (const container of pod.spec.containers) entry.running.add(container.name);
    await report(entry, runningStatus(entry, true));
  }

  async function runHelper(entry: PlayedPod): Promise<void> {
    const { pod, root, over, commands } = entry;
    const started = await startHelperServer({ api, root, podUid: pod.metadata.uid, bundle: helper });
    commands.add(started.process);
    entry.port = started.port;
    if (over.signal.aborted) killGroup(started.process);
    started.process.on("close", () => commands.delete(started.process));
    // If it ends before it listens, no caller waits for it.
    await started.port.catch((error: unknown) => {
      if (!over.signal.aborted) throw error;
    });
  }

  async function runInit(entry: PlayedPod, init: Container): Promise<void> {
    const { over, root } = entry;
    while (!over.signal.aborted) {
      entry.running.add(init.name);
      const child = runInPod(root, init.command ?? []);
      child.stdin?.end();
      let reported: Promise<void> | undefined;
      const isDone = await new Promise<boolean>((resolve) => {
        entry.commands.add(child);
        // Most end at once, and one that waits for files is seen as running.
        const timer = setTimeout(() => {
          reported = report(entry, initStatus(entry, init.name));
          background(reported);
        }, 30);
        child.on("close", (code) => {
          clearTimeout(timer);
          entry.commands.delete(child);
          resolve(code === 0);
        });
      });
      entry.running.delete(init.name);
      // What is reported after this must not come before it.
      await reported;
      if (isDone) return;
      await pause(500, over.signal);
    }
  }

  /** Ends a pod that is to be deleted, and says so. */
  async function finish(entry: PlayedPod): Promise<void> {
    const { pod, node } = entry;
    const { name, uid } = pod.metadata;
    await node.thawed;
    end(entry);
    await pause(decisions.between(0, 200), stopping.signal);
    await call("DELETE", `${PODS_PATH}/${name}`, { gracePeriodSeconds: 0, preconditions: { uid } });
  }

  function end(entry: PlayedPod): void {
    if (entry.over.signal.aborted) return;
    if (entry.hasFiles && entry.isStarted) entry.lastContent = readContent(join(entry.root, FILES_FOLDER));
    entry.over.abort();
    entry.running.clear();
    for (const child of entry.commands) killGroup(child);
  }

  function report({ pod, over, node }: PlayedPod, status: object): Promise<void> {
    return node.thawed.then(() => {
      if (over.signal.aborted) return;
      const { name, uid } = pod.metadata;
      return call("PATCH", `${PODS_PATH}/${name}/status`, { metadata: { uid }, status });
    });
  }

  /** A pod that is gone, or another by now, needs nothing more. */
  async function call(method: "POST" | "PATCH" | "DELETE", path: string, body: object): Promise<void> {
    const contentType = method === "PATCH" ? "application/merge-patch+json" : "application/json";
    const { status, text } = await api.call({ method, path, body, contentType, limitMs: 60_000 });
    if (status >= 300 && status !== 404 && status !== 409)
      throw new Error(`Cannot ${method} ${path}: status ${status} ${text.slice(0, 300)}`);
  }

  async function setReady(node: Node, isReady: boolean): Promise<void> {
    const lastTransitionTime = new Date().toISOString().replace(/\.\d+/, "");
    const condition = { type: "Ready", status: isReady ? "True" : "Unknown", reason: "Soak", lastTransitionTime };
    await call("PATCH", `/api/v1/nodes/${node.name}/status`, { status: { conditions: [condition] } });
    for (const entry of played.values()) {
      const { pod, over } = entry;
      if (entry.node !== node || over.signal.aborted || !isRunning(entry)) continue;
      const { name, uid } = pod.metadata;
      const status = runningStatus(entry, isReady);
      await call("PATCH", `${PODS_PATH}/${name}/status`, { metadata: { uid }, status });
    }
  }

  return {
    nodes: nodes.map(({ name }) => name),
    podsOn: (node) =>
      [...played.values()]
        .filter((entry) => entry.node.name === node && !entry.over.signal.aborted)
        .map(({ pod }) => pod.metadata.uid),
    content(uid) {
      const entry = played.get(uid);
      if (entry === undefined || !entry.isStarted) return undefined;
      return entry.over.signal.aborted ? entry.lastContent : readContent(join(entry.root, FILES_FOLDER));
    },
    write(uid, token, bytes) {
      const entry = played.get(uid);
      if (entry === undefined || !isRunning(entry)) return false;
      writeContent(join(entry.root, FILES_FOLDER), token, bytes);
      return true;
    },
    async fail(uid) {
      const entry = played.get(uid);
      if (entry === undefined || entry.over.signal.aborted) return;
      end(entry);
      const { name } = entry.pod.metadata;
      const status = { phase: "Failed", reason: "Evicted", message: "evicted by the soak", conditions: [ready(false)] };
      await call("PATCH", `${PODS_PATH}/${name}/status`, { metadata: { uid }, status });
    },
    async freeze(name) {
      const node = named(name);
      if (node.thaw !== undefined) return;
      node.thawed = new Promise((resolve) => {
        node.thaw = resolve;
      });
      await setReady(node, false);
    },
    async thaw(name) {
      const node = named(name);
      if (node.thaw === undefined) return;
      await setReady(node, true);
      node.thaw();
      node.thaw = undefined;
    },
    async run(name, container, command) {
      const entry = [...played.values()].find(({ pod, isGone }) => pod.metadata.name === name && !isGone);
      if (entry === undefined) throw new Error(`pods "${name}" not found`);
      await entry.node.thawed;
      if (!entry.running.has(container))
        throw new Error(`unable to upgrade connection: container not found ("${container}")`);
      const child = runInPod(entry.root, command);
      entry.commands.add(child);
      child.on("close", () => entry.commands.delete(child));
      return child;
    },
    async helperPort() {
      const entry = [...played.values()].find(({ pod, over }) => isHelper(pod) && !over.signal.aborted);
      await entry?.node.thawed;
      return entry?.running.size === 0 ? undefined : await entry?.port;
    },
    async stop() {
      stopping.abort();
      for (const { thaw } of nodes) thaw?.();
      for (const entry of played.values()) end(entry);
      await Promise.all([watching, ...work]);
    },
  };

  function named(name: string): Node {
    const node = nodes.find((candidate) => candidate.name === name);
    if (node === undefined) throw new Error(`Cannot find the node ${name}`);
    return node;
  }
}

function isHelper({ metadata }: Pod): boolean {
  return metadata.labels?.["app.kubernetes.io/name"] === HELPER_APP;
}

function isRunning({ pod, running }: PlayedPod): boolean {
  return pod.spec.containers.every(({ name }) => running.has(name));
}
