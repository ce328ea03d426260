import { createApiClient } from "../kubernetes/api-client.ts";
import { pause } from "../process/wait-until.ts";
import { createSimulatedKubelet } from "./kubelet.ts";
import { followCordons, registerNode, renewLease, type SimulatedNode } from "./nodes.ts";
import { type SimulatedNodesOptions, simulatedNodesDefaults } from "./options.ts";
import type { Pod } from "./pod.ts";
import { watchPods } from "./pod-watch.ts";

export interface StartSimulatedNodesOptions extends SimulatedNodesOptions {
  kubeconfigPath: string;
  /** Called with errors; the simulation continues. @default writes them to the standard error */
  onTrouble?: (error: unknown) => void;
}

export interface SimulatedNodes {
  podCount(): number;
  /** The pod that has the address now. */
  podAt(address: string): Pod | undefined;
  /** Stops the simulation. Nodes and pods stay as they are. */
  stop(): Promise<void>;
}

const HEARTBEAT_MS = 10_000;

/**
 * Registers nodes that do not exist, and simulates scheduler and kubelet for every pod of the cluster. So there can be
 * thousands of pods without a container. `simulated/behaviour.ts` describes how to make a pod fail.
 *
 * @throws Error if the nodes cannot be registered
 */
export async function startSimulatedNodes(options: StartSimulatedNodesOptions): Promise<SimulatedNodes> {
  const settings = simulatedNodesDefaults(options);
  const onTrouble = options.onTrouble ?? ((error: unknown) => console.error("simulated node:", error));
  const client = createApiClient(options.kubeconfigPath);
  const nodes: SimulatedNode[] = Array.from({ length: settings.nodes }, (_, index) => ({
    name: `${settings.nodePrefix}-${index + 1}`,
    address: `10.63.${index >> 8}.${index & 255}`,
    pods: 0,
    isCordoned: false,
  }));
  await Promise.all(nodes.map((node) => registerNode(client, node, settings.podsPerNode)));
  const abort = new AbortController();
  const kubelet = createSimulatedKubelet({ ...settings, client, nodeList: nodes, onTrouble });
  const watching = watchPods({ ...kubelet, client, onTrouble, signal: abort.signal });
  const beating = heartbeat();
  const following = followCordons(client, nodes, { onChange: kubelet.onRoom, onTrouble, signal: abort.signal });
  return {
    podCount: kubelet.podCount,
    podAt: kubelet.podAt,
    async stop() {
      abort.abort();
      kubelet.stop();
      await Promise.all([watching, beating, following]);
      client.close();
    },
  };

  async function heartbeat(): Promise<void> {
    while (!abort.signal.aborted) {
      await Promise.all(nodes.map((node) => renewLease(client, node))).catch(onTrouble);
      await pause(HEARTBEAT_MS, abort.signal);
    }
  }
}
