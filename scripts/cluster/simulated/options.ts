/** How many simulated nodes there are and how their pods behave. */
export interface SimulatedNodesOptions {
  /** How many nodes are registered. @default 10 */
  nodes?: number;
  /** How many pods each node takes; more stay pending as unschedulable. @default 1100 */
  podsPerNode?: number;
  /** Time between a pod's binding and its readiness. @default 50 */
  readyAfterMs?: number;
  /** Time between a pod's deletion and its end; never longer than its grace period. @default 20 */
  stopAfterMs?: number;
  /**
   * First two numbers of the pods' addresses; `127.64` makes a server on 0.0.0.0 answer for every pod. @default 10.64
   */
  podNetwork?: string;
  /**
   * Whether the address that a pod gave back is the next pod's, as on a node whose addresses are all used up but few.
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
