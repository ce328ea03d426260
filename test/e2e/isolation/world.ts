import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { createDeferred } from "../../../crds/waits.ts";
import { readClusterState } from "../../../scripts/cluster/cluster-state.ts";
import { clusterFolder, clustersFolder } from "../../../scripts/cluster/folders.ts";
import { withFileLock } from "../../../scripts/cluster/process/file-lock.ts";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";
import { slotOf } from "../../../scripts/cluster/slot.ts";
import { testProgram } from "../egress/reply.ts";
import { upstreamCertificates } from "../egress/upstream-certificates.ts";
import type { AnsweringServer, AnsweringSettings } from "./answering-program.ts";

/** Addresses of documentation (RFC 5737) and the metadata address, all in a namespace of the test. */
export const world = {
  allowed: "203.0.113.10",
  other: "203.0.113.20",
  otherResolver: "203.0.113.54",
  metadata: "169.254.169.254",
} as const;

const CABLE = { here: "198.51.100.1", there: "198.51.100.2" };

/** What the names of the two hosts lead to. */
export const worldRecords = { "allowed.example": [world.allowed], "other.example": [world.other] };

/**
 * Makes hosts beyond the node that say who they are, and the way to them from the cluster's pods. The machine has one
 * way to an address, so a second test that asks for them waits until the first has removed them.
 */
export async function startWorld(cluster: string): Promise<{ remove(): Promise<void> }> {
  const had = createDeferred<void>();
  const free = createDeferred<void>();
  const lock = { what: "the hosts of another test", limitMs: 300_000 };
  const held = withFileLock(join(clustersFolder(), "test-world.lock"), lock, () => {
    had.resolve();
    return free.promise;
  });
  await Promise.race([had.promise, held]);
  async function giveBack(): Promise<void> {
    free.resolve();
    await held;
  }
  try {
    const { remove } = await makeWorld(cluster);
    return { remove: () => remove().finally(giveBack) };
  } catch (error) {
    await giveBack();
    throw error;
  }
}

async function makeWorld(cluster: string): Promise<{ remove(): Promise<void> }> {
  const { bridge } = slotOf(readClusterState(clusterFolder(cluster))?.slot as number);
  const id = randomBytes(3).toString("hex");
  const [namespace, link] = [`tnworld-${id}`, `tn${id}`];
  const ip = (...words: string[]) => runCommand("ip", words);
  const inside = (...words: string[]) => ip("-n", namespace, ...words);
  await ip("netns", "add", namespace);
  // The link and the routes over it vanish with the namespace.
  const remove = async () => void (await ip("netns", "delete", namespace));
  try {
    await ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", namespace);
    await ip("address", "add", `${CABLE.here}/30`, "dev", link);
    await ip("link", "set", link, "up");
    await inside("address", "add", `${CABLE.there}/30`, "dev", "eth0");
    await inside("link", "set", "lo", "up");
    await inside("link", "set", "eth0", "up");
    await inside("route", "add", "default", "via", CABLE.here);
    for (const address of Object.values(world)) {
      await inside("address", "add", `${address}/32`, "dev", "lo");
      await ip("route", "add", `${address}/32`, "via", CABLE.there);
    }
    for (const one of [bridge, link]) writeFileSync(`/proc/sys/net/ipv4/conf/${one}/forwarding`, "1");
    const stop = await startServers(namespace);
    return {
      async remove() {
        stop();
        await remove();
      },
    };
  } catch (error) {
    await remove();
    throw error;
  }
}

async function startServers(namespace: string): Promise<() => void> {
  const host = (address: string, says: string): AnsweringServer[] => [
    { kind: "https", address, port: 443, says },
    { kind: "tcp", address, port: 80, says },
    { kind: "tcp", address, port: 22, says },
    { kind: "tftp", address, port: 443, says },
  ];
  const settings: AnsweringSettings = {
    servers: [
      ...host(world.allowed, "allowed host"),
      ...host(world.other, "other host"),
      ...host(world.metadata, "metadata"),
      { kind: "names", address: world.otherResolver, port: 53, says: "" },
    ],
    records: worldRecords,
    ...((await upstreamCertificates([])).certificates["*"] as { certificate: string; key: string }),
  };
  const server = testProgram(join(import.meta.dirname, "answering-program.ts"));
  const words = [
    "netns",
    "exec",
    namespace,
    "setpriv",
    "--pdeathsig",
    "KILL",
    "--",
    ...server,
    JSON.stringify(settings),
  ];
  const child = spawn("ip", words, { stdio: ["ignore", "pipe", "inherit"] });
  const line = await Promise.race([
    once(createInterface({ input: child.stdout }), "line").then(([first]) => String(first)),
    once(child, "exit").then(([status]) => `ended with ${status}`),
  ]);
  if (line !== "ready") throw new Error(`Cannot start the servers of the world: ${line}`);
  return () => child.kill("SIGKILL");
}
