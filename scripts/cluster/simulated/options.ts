/** How many simulated nodes there are and how their pods behave. */
export interface SimulatedNodesOptions {
  /** How many nodes are registered. @default 10 */
  nodes?: number;
  /** The most pods of each node. Further pods stay pending as unschedulable. @default 1100 */
  podsPerNode?: number;
  /** Time between a pod's binding and its readiness. @default 50 */
  readyAfterMs?: number;
  /** Time between a pod's deletion and its end. It is never longer than the grace period. @default 20 */
  stopAfterMs?: number;
  /**
   * First two numbers of the pods' addresses; `127.64` makes a server on 0.0.0.0 answer for every pod. @default 10.64
   */
  podNetwork?: string;
  /**
   * Whether the next pod gets the address that a pod has released, as on a node with few free addresses.
   * @default false
   */
  reuseAddresses?: boolean;
  /** Beginning of the nodes' names. @default simulated */
  nodePrefix?: string;
}

/** The options with their defaults filled in. */
export function simulatedNodesDefaults(options: SimulatedNodesOptions): Required<SimulatedNodesOptions> {
  return {
    nodes: options.nodes ?? 10,
    podsPerNode: options.podsPerNode ?? 1100,
    readyAfterMs: options.readyAfterMs ?? 50,
    stopAfterMs: options.stopAfterMs ?? 20,
    podNetwork: options.podNetwork ?? "10.64",
    reuseAddresses: options.reuseAddresses ?? false,
    nodePrefix: options.nodePrefix ?? "simulated",
  };
}
