import { createHash } from "node:crypto";

/** The numbers that separate a complete cluster from the others on the machine. */
export interface Slot {
  readonly number: number;
  readonly ports: {
    readonly apiServer: number;
    readonly controllerManager: number;
    readonly scheduler: number;
    readonly kubelet: number;
    readonly etcdClient: number;
    readonly etcdPeer: number;
    readonly registry: number;
  };
  readonly bridge: string;
  /** The number of the kernel's queue in which packets of pods wait for the policy engine. */
  readonly queue: number;
  /** First three numbers of a /24. */
  readonly podNetwork: string;
  /** The bridge's and the node's address. */
  readonly address: string;
}

export const SLOTS = 250;

const FIRST_PORT = 20_000;
const PORTS_EACH = 10;

/** Returns the ports, bridge and network of a slot. */
export function slotOf(number: number): Slot {
  const port = FIRST_PORT + number * PORTS_EACH;
  const podNetwork = `10.231.${number}`;
  return {
    number,
    ports: {
      apiServer: port,
      controllerManager: port + 1,
      scheduler: port + 2,
      kubelet: port + 3,
      etcdClient: port + 4,
      etcdPeer: port + 5,
      registry: port + 6,
    },
    bridge: `tenancy${number}`,
    queue: port,
    podNetwork,
    address: `${podNetwork}.1`,
  };
}

/**
 * Returns the slot of a new cluster: the one that its name hashes to, or the next one that is free.
 *
 * @throws Error when none is free
 */
export async function chooseSlot(name: string, isFree: (slot: Slot) => Promise<boolean>): Promise<Slot> {
  const first = createHash("sha256").update(name).digest().readUInt32BE(0) % SLOTS;
  for (let offset = 0; offset < SLOTS; offset += 1) {
    const slot = slotOf((first + offset) % SLOTS);
    if (await isFree(slot)) return slot;
  }
  throw new Error(`Cannot find free ports and a free pod network for the cluster "${name}": all ${SLOTS} are taken`);
}
