import type { ApiClient, ApiRequest } from "../kubernetes/api-client.ts";
import { pause } from "../process/wait-until.ts";
import { type Behaviour, behaviourOf } from "./behaviour.ts";
import type { SimulatedNode } from "./nodes.ts";
import type { SimulatedNodesOptions } from "./options.ts";
import { hasCondition, type Pod } from "./pod.ts";
import { statusSteps } from "./pod-status.ts";

interface Entry {
  pod: Pod;
  node: SimulatedNode | undefined;
  address: string | undefined;
  /**
   * The behaviour for which the status was last written. If it changes, for example by the annotation, it is applied.
   */
  applied: string | undefined;
  stopping: boolean;
  waitsForRoom: boolean;
  /** Ends the current work for the pod. */
  abort: AbortController;
}

export interface SimulatedKubelet {
  onPod(pod: Pod): void;
  onGone(uid: string): void;
  /** Called when a node may accept pods that waited. */
  onRoom(): void;
  /** The current number of pods. */
  podCount(): number;
  /** The pod that has the address now. */
  podAt(address: string): Pod | undefined;
  stop(): void;
}

export interface SimulatedKubeletOptions extends Required<SimulatedNodesOptions> {
  client: ApiClient;
  nodeList: readonly SimulatedNode[];
  onTrouble: (error: unknown) => void;
}

const RETRY_FIRST_MS = 100;
const RETRY_MOST_MS = 3000;

/**
 * Returns the simulated scheduler and kubelet of a set of nodes. They are level-triggered, and handle many pods at
 * once.
 */
export function createSimulatedKubelet(options: SimulatedKubeletOptions): SimulatedKubelet {
  const { client, nodeList } = options;
  const entries = new Map<string, Entry>();
  const nodes = new Map(nodeList.map((node) => [node.name, node]));
  const addresses = createAddresses({ network: options.podNetwork, reuseAtOnce: options.reuseAddresses });
  let nextNode = 0;

  return {
    onPod,
    onGone,
    onRoom,
    podCount: () => entries.size,
    podAt: (address) => [...entries.values()].find((entry) => entry.address === address)?.pod,
    stop() {
      for (const entry of entries.values()) entry.abort.abort();
    },
  };

  function onPod(pod: Pod): void {
    const { uid, deletionTimestamp } = pod.metadata;
    let entry = entries.get(uid);
    if (entry === undefined) {
      entry = {
        pod,
        node: undefined,
        address: undefined,
        applied: undefined,
        stopping: false,
        waitsForRoom: false,
        abort: new AbortController(),
      };
      entries.set(uid, entry);
    }
    entry.pod = pod;
    const { nodeName } = pod.spec;
    if (entry.node === undefined && nodeName !== undefined) assign(entry, nodes.get(nodeName));
    // If a pod has no node, or only its finalizers are left, a kubelet does nothing.
    if (deletionTimestamp !== undefined) {
      if (entry.node !== undefined && pod.metadata.deletionGracePeriodSeconds !== 0) stopPod(entry);
      return;
    }
    if (nodeName === undefined) {
      if (entry.node === undefined) schedule(entry);
    } else if (entry.node !== undefined) run(entry);
  }

  function onGone(uid: string): void {
    const entry = entries.get(uid);
    if (entry === undefined) return;
    entries.delete(uid);
    entry.abort.abort();
    if (entry.address !== undefined) addresses.release(entry.address);
    if (entry.node === undefined) return;
    entry.node.pods -= 1;
    for (const waiting of entries.values()) {
      if (!waiting.waitsForRoom) continue;
      waiting.waitsForRoom = false;
      schedule(waiting);
      break;
    }
  }

  function onRoom(): void {
    for (const entry of entries.values()) {
      if (!entry.waitsForRoom) continue;
      entry.waitsForRoom = false;
      schedule(entry);
    }
  }

  function assign(entry: Entry, node: SimulatedNode | undefined): void {
    if (node === undefined) return;
    entry.node = node;
    node.pods += 1;
  }

  function schedule(entry: Entry): void {
    const node = behaviour(entry).behaviour === "unschedulable" ? undefined : roomiestNext();
    if (node === undefined) {
      if (!entry.waitsForRoom && entry.applied === undefined) refuse(entry);
      entry.waitsForRoom = behaviour(entry).behaviour !== "unschedulable";
      return;
    }
    assign(entry, node);
    const { name, namespace, uid } = entry.pod.metadata;
    send(entry, {
      method: "POST",
      path: `/api/v1/namespaces/${namespace}/pods/${name}/binding`,
      body: {
        apiVersion: "v1",
        kind: "Binding",
        metadata: { name, namespace, uid },
        target: { apiVersion: "v1", kind: "Node", name: node.name },
      },
    });
  }

  function roomiestNext(): SimulatedNode | undefined {
    for (let tried = 0; tried < nodeList.length; tried += 1) {
      const node = nodeList[nextNode % nodeList.length];
      nextNode += 1;
      if (node !== undefined && !node.isCordoned && node.pods < options.podsPerNode) return node;
    }
    return undefined;
  }

  function refuse(entry: Entry): void {
    entry.applied = "unschedulable";
    const message = `0/${nodeList.length} nodes are available: ${nodeList.length} Too many pods.`;
    patchStatus(entry, {
      conditions: [{ type: "PodScheduled", status: "False", reason: "Unschedulable", message }],
    });
  }

  function run(entry: Entry): void {
    const { pod, node } = entry;
    const now = behaviour(entry);
    const gates = (pod.spec.readinessGates ?? []).map(({ conditionType }) => hasCondition(pod, conditionType));
    const wanted = JSON.stringify([now, gates]);
    if (entry.stopping || entry.applied === wanted || node === undefined) return;
    const first = entry.applied === undefined || entry.applied === "unschedulable";
    entry.applied = wanted;
    entry.address ??= addresses.take(first ? pod.status?.podIP : undefined);
    // Pods of an earlier run of the simulation keep their state.
    const standing = now.behaviour === "normal" && hasCondition(pod, "Ready");
    const over = pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";
    if (first && (standing || over)) return;
    const steps = statusSteps(pod, {
      behaviour: now,
      podIP: entry.address,
      hostIP: node.address,
      readyAfterMs: first ? options.readyAfterMs : 0,
    });
    if (now.behaviour === "no-sandbox") {
      addresses.release(entry.address);
      entry.address = undefined;
    }
    void (async () => {
      for (const { afterMs, status } of steps) {
        if (afterMs > 0) await pause(afterMs, entry.abort.signal);
        if (entry.abort.signal.aborted || entry.stopping || entry.applied !== wanted) return;
        await patchStatus(entry, status);
      }
    })();
  }

  function stopPod(entry: Entry): void {
    if (entry.stopping) return;
    entry.stopping = true;
    const { name, namespace, uid, deletionGracePeriodSeconds } = entry.pod.metadata;
    const graceMs = (deletionGracePeriodSeconds ?? 0) * 1000;
    const { behaviour: kind, stopAfterMs } = behaviour(entry);
    const afterMs = Math.min(graceMs, stopAfterMs ?? (kind === "slow-stop" ? graceMs : options.stopAfterMs));
    void (async () => {
      await pause(afterMs, entry.abort.signal);
      await send(entry, {
        method: "DELETE",
        path: `/api/v1/namespaces/${namespace}/pods/${name}`,
        body: { apiVersion: "v1", kind: "DeleteOptions", gracePeriodSeconds: 0, preconditions: { uid } },
      });
    })();
  }

  function behaviour(entry: Entry): Behaviour {
    try {
      return behaviourOf(entry.pod);
    } catch (error) {
      options.onTrouble(error);
      return { behaviour: "normal" };
    }
  }

  async function patchStatus(entry: Entry, status: Record<string, unknown>): Promise<void> {
    const { name, namespace, uid } = entry.pod.metadata;
    await send(entry, {
      method: "PATCH",
      path: `/api/v1/namespaces/${namespace}/pods/${name}/status`,
      contentType: "application/strategic-merge-patch+json",
      body: { metadata: { uid }, status },
    });
  }

  /** Retries until the server accepts the request or the pod is gone. Reports a permanent refusal. */
  async function send(entry: Entry, request: ApiRequest): Promise<void> {
    let waitMs = RETRY_FIRST_MS;
    while (!entry.abort.signal.aborted) {
      try {
        const { status, text } = await client.call(request);
        // 404: gone; 409: bound, deleted or replaced in the meantime. The watch shows the current state.
        if (status < 300 || status === 404 || status === 409) return;
        if (status < 500 && status !== 429) {
          throw new TypeError(`Cannot ${request.method} ${request.path}: status ${status} ${text.slice(0, 300)}`);
        }
      } catch (error) {
        if (error instanceof TypeError) return options.onTrouble(error);
      }
      await pause(waitMs, entry.abort.signal);
      waitMs = Math.min(waitMs * 2, RETRY_MOST_MS);
    }
  }
}

/** Assigns the addresses of a /16 one by one. Released addresses are assigned again last, or immediately. */
interface Addresses {
  /** Returns an unused address; the wanted one if it is free. */
  take(wanted?: string): string;
  release(address: string): void;
}

const SIZE = 65_534;

/**
 * Returns the addresses of a network.
 *
 * @param options.network its first two numbers, such as `10.64`
 * @param options.reuseAtOnce whether the last released address is assigned next
 */
function createAddresses({ network, reuseAtOnce }: { network: string; reuseAtOnce: boolean }): Addresses {
  const taken = new Set<string>();
  const released: string[] = [];
  let last = 0;
  return {
    take(wanted) {
      if (wanted !== undefined && !taken.has(wanted)) {
        taken.add(wanted);
        return wanted;
      }
      if (taken.size >= SIZE) throw new Error(`Cannot find an address in ${network}.0.0/16: all are taken`);
      for (let address = released.pop(); address !== undefined; address = released.pop()) {
        if (taken.has(address)) continue;
        taken.add(address);
        return address;
      }
      for (;;) {
        last = (last % SIZE) + 1;
        const address = `${network}.${last >> 8}.${last & 255}`;
        if (taken.has(address)) continue;
        taken.add(address);
        return address;
      }
    },
    release(address) {
      taken.delete(address);
      if (reuseAtOnce) released.push(address);
    },
  };
}
