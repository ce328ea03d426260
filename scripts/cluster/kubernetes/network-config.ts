import type { Slot } from "../slot.ts";

/**
 * Returns the CNI configuration of a cluster's pods: they reach each other and the bridge's address, and nothing beyond.
 * The plugin is not told that the bridge is a gateway, since it would then switch on the machine's forwarding.
 */
export function networkConfig(slot: Slot, folder: string): string {
  return JSON.stringify({
    cniVersion: "0.4.0",
    name: "pods",
    plugins: [
      {
        type: "bridge",
        bridge: slot.bridge,
        isGateway: false,
        ipMasq: false,
        ipam: {
          type: "host-local",
          dataDir: `${folder}/addresses`,
          ranges: [[{ subnet: `${slot.podNetwork}.0/24`, rangeStart: `${slot.podNetwork}.2`, gateway: slot.address }]],
          routes: [{ dst: "0.0.0.0/0" }],
        },
      },
      { type: "loopback" },
    ],
  });
}
