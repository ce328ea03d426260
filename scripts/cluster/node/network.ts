import { isPortFree } from "../process/free-port.ts";
import { runCommand } from "../process/run-command.ts";
import type { Slot } from "../slot.ts";

interface Link {
  ifname: string;
}

/** Whether nothing on the machine uses the ports, the bridge's name or the pod network of a slot. */
export async function isSlotFree(slot: Slot): Promise<boolean> {
  const [links, routes] = await Promise.all([
    runCommand("ip", ["-json", "link", "show"]),
    runCommand("ip", ["-json", "-4", "route", "show"]),
  ]);
  if ((JSON.parse(links) as Link[]).some(({ ifname }) => ifname === slot.bridge)) return false;
  const destinations = (JSON.parse(routes) as { dst: string }[]).map(({ dst }) => dst);
  if (destinations.some((destination) => overlaps(destination, slot.podNetwork))) return false;
  const free = await Promise.all(Object.values(slot.ports).map((port) => isPortFree(port)));
  return free.every(Boolean);
}

/** Makes the bridge that the pods are plugged into, with the node's address on it. */
export async function createBridge({ bridge, address }: Slot): Promise<void> {
  await runCommand("ip", ["link", "add", bridge, "type", "bridge"]);
  await runCommand("ip", ["addr", "add", `${address}/24`, "dev", bridge]);
  await runCommand("ip", ["link", "set", bridge, "up"]);
}

/** Removes the bridge, when it is there. */
export async function removeBridge({ bridge }: Slot): Promise<void> {
  const links = JSON.parse(await runCommand("ip", ["-json", "link", "show", "type", "bridge"])) as Link[];
  if (links.some(({ ifname }) => ifname === bridge)) await runCommand("ip", ["link", "del", bridge]);
}

/**
 * Whether a route's destination and a /24 share addresses. Routes as wide as a /8 or wider do not count: they lead
 * elsewhere in general, and a narrower one beside them is how routing is meant to work.
 *
 * @param destination as `ip route` prints it: `default`, an address, or an address with a prefix length
 * @param network first three numbers of the /24
 */
export function overlaps(destination: string, network: string): boolean {
  const [address = "", length = "32"] = destination.split("/");
  if (!/^\d+\.\d+\.\d+\.\d+$/.test(address) || Number(length) <= 8) return false;
  const shared = Math.min(Number(length), 24);
  const prefix = (text: string): number => Math.floor(numeric(text) / 2 ** (32 - shared));
  return prefix(address) === prefix(`${network}.0`);
}

function numeric(address: string): number {
  return address.split(".").reduce((value, part) => value * 256 + Number(part), 0);
}
