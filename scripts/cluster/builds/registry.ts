import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { findProcess, readClusterState, recordProcess, withClusterLock } from "../cluster-state.ts";
import { clusterFolder } from "../folders.ts";
import { unpackDebianPackages } from "../images/unpack-debian-packages.ts";
import type { Log } from "../log.ts";
import { registriesFolder } from "../node/start-containerd.ts";
import { logTail } from "../process/log-tail.ts";
import { isRunning } from "../process/process-identity.ts";
import { startProgram } from "../process/start-program.ts";
import { waitUntil } from "../process/wait-until.ts";
import { slotOf } from "../slot.ts";

/** What the process is called in the cluster's state. */
export const REGISTRY = "registry";

const START_LIMIT_MS = 60_000;

/**
 * Returns the address of a complete cluster's registry, whether it runs or not: the same for pods, for containerd and
 * for this machine.
 *
 * @throws Error when there is no such cluster
 */
export function registryAddress(cluster: string): string {
  const number = readClusterState(clusterFolder(cluster))?.slot;
  if (number === undefined) throw new Error(`Cannot find a registry: there is no complete cluster "${cluster}"`);
  const { address, ports } = slotOf(number);
  return `${address}:${ports.registry}`;
}

/**
 * Starts the registry of a complete cluster unless it runs, and has the cluster's containerd pull from it; returns its
 * address. It speaks plain HTTP, asks for no password, and its images go with the cluster.
 *
 * @throws Error when the package cannot be fetched, or with the end of its log when it does not start
 */
export async function ensureRegistry(cluster: string, log: Log): Promise<string> {
  const packages = await unpackDebianPackages(["docker-registry"], { name: "registry-packages", log });
  return withClusterLock(cluster, async () => {
    const address = registryAddress(cluster);
    const folder = clusterFolder(cluster);
    const recorded = findProcess(folder, REGISTRY);
    if (recorded !== undefined && isRunning(recorded.identity)) return address;
    if (!existsSync(registriesFolder(folder))) {
      throw new Error(
        `Cannot start a registry: an older version has started the cluster "${cluster}"; take it down and start it afresh`,
      );
    }
    const home = join(folder, REGISTRY);
    mkdirSync(home, { recursive: true });
    writeHosts(folder, address, hostsToml(address));
    const config = join(home, "config.json");
    writeFileSync(config, JSON.stringify(registryConfig({ folder: join(home, "images"), address })));
    const program = await startProgram({
      name: REGISTRY,
      command: join(packages, "usr/bin/docker-registry"),
      arguments: ["serve", config],
      logPath: join(folder, "log", `${REGISTRY}.log`),
      lifetime: "detached",
    });
    recordProcess(folder, program);
    await waitUntil(
      () => {
        const ending = program.ending();
        if (ending !== undefined) throw new Error(`Cannot start the registry: ${ending}\n${logTail(program.logPath)}`);
        return fetch(`http://${address}/v2/`, { signal: AbortSignal.timeout(1000) }).then(
          ({ ok }) => ok,
          () => false,
        );
      },
      { what: "the registry to answer", limitMs: START_LIMIT_MS, explain: () => logTail(program.logPath) },
    );
    return address;
  });
}

/**
 * Has the cluster's containerd look in its registry first for what it lacks of those hosts. An image that was imported
 * under its tag is not there by its digest, which is how pods name one whose program the operator has read.
 */
export function mirrorHosts(cluster: string, address: string, hosts: readonly string[]): void {
  for (const host of hosts) {
    const mirror = `[host."http://${address}/v2/${host}"]\n  capabilities = ["pull", "resolve"]\n  override_path = true\n`;
    writeHosts(clusterFolder(cluster), host, mirror);
  }
}

function writeHosts(folder: string, host: string, text: string): void {
  const hosts = join(registriesFolder(folder), host);
  mkdirSync(hosts, { recursive: true });
  writeFileSync(join(hosts, "hosts.toml"), text);
}

/**
 * Returns what has containerd ask a registry by plain HTTP: with `server` alone 1.6 asks by HTTPS all the same.
 *
 * Follows https://github.com/containerd/containerd/blob/main/docs/hosts.md
 */
export function hostsToml(address: string): string {
  return `server = "http://${address}"\n[host."http://${address}"]\n  capabilities = ["pull", "resolve"]\n`;
}

/** In YAML, of which JSON is a part. */
function registryConfig({ folder, address }: { folder: string; address: string }): object {
  return {
    version: "0.1",
    log: { level: "warn", accesslog: { disabled: true } },
    storage: { filesystem: { rootdirectory: folder }, delete: { enabled: true } },
    http: { addr: address },
  };
}
