import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readClusterState, recordProcess, withClusterLock } from "./cluster-state.ts";
import { clusterFolder } from "./folders.ts";
import { type Image, imageBlobs } from "./images/image-archive.ts";
import { unpackDebianPackages } from "./images/unpack-debian-packages.ts";
import type { Log } from "./log.ts";
import { registriesFolder } from "./node/start-containerd.ts";
import { logTail } from "./process/log-tail.ts";
import { isRunning } from "./process/process-identity.ts";
import { startProgram } from "./process/start-program.ts";
import { waitUntil } from "./process/wait-until.ts";
import { slotOf } from "./slot.ts";

const NAME = "registry";
const START_LIMIT_MS = 60_000;
const CALL_LIMIT_MS = 60_000;

/**
 * Starts a registry of a complete cluster's own, unless it has one, and has the cluster's containerd pull from it; returns its address, which
 * is the same for pods, for containerd and for this machine. It speaks plain HTTP, and its images go with the cluster.
 *
 * @throws Error when the packages cannot be fetched, or with the end of its log when it does not start
 */
export async function ensureRegistry(cluster: string, log: Log): Promise<string> {
  const packages = await unpackDebianPackages(["docker-registry"], { name: "registry-packages", log });
  return withClusterLock(cluster, async () => {
    const folder = clusterFolder(cluster);
    const state = readClusterState(folder);
    if (state?.slot === undefined)
      throw new Error(`Cannot start a registry: there is no complete cluster "${cluster}"`);
    const slot = slotOf(state.slot);
    const address = `${slot.address}:${slot.ports.registry}`;
    const recorded = state.processes.find(({ name }) => name === NAME);
    if (recorded !== undefined && isRunning(recorded.identity)) return address;
    const home = join(folder, NAME);
    const hosts = join(registriesFolder(folder), address);
    for (const path of [home, hosts]) mkdirSync(path, { recursive: true });
    // With `server` alone containerd 1.6 asks by HTTPS all the same.
    const capabilities = `capabilities = ["pull", "resolve"]`;
    writeFileSync(
      join(hosts, "hosts.toml"),
      `server = "http://${address}"\n[host."http://${address}"]\n${capabilities}\n`,
    );
    const config = join(home, "config.json");
    writeFileSync(config, JSON.stringify(registryConfig({ folder: join(home, "images"), address })));
    const program = await startProgram({
      name: NAME,
      command: join(packages, "usr/bin/docker-registry"),
      arguments: ["serve", config],
      logPath: join(folder, "log", `${NAME}.log`),
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

/** In YAML, of which JSON is a part. */
function registryConfig({ folder, address }: { folder: string; address: string }): object {
  return {
    version: "0.1",
    log: { level: "warn", accesslog: { disabled: true } },
    storage: { filesystem: { rootdirectory: folder }, delete: { enabled: true } },
    http: { addr: address },
  };
}

/**
 * Puts images of ours into a registry that speaks plain HTTP, those left out that it has: `localhost/a:1` becomes `<address>/localhost/a:1`.
 *
 * Follows https://github.com/opencontainers/distribution-spec/blob/main/spec.md#push
 */
export async function pushImages(address: string, images: readonly Image[]): Promise<void> {
  for (const image of images) {
    const [, path = "", tag = ""] = /^(.+):([^:/]+)$/.exec(image.name) ?? [];
    const repository = `http://${address}/v2/${path}`;
    const { manifest, config, layer } = imageBlobs(image);
    for (const { digest, content } of [layer, config]) {
      if ((await call("HEAD", `${repository}/blobs/${digest}`, { expect: [200, 404] })).status === 200) continue;
      const begun = await call("POST", `${repository}/blobs/uploads/`, { expect: [202] });
      const upload = new URL(begun.headers.get("location") ?? "", repository);
      upload.searchParams.set("digest", digest);
      await call("PUT", upload.href, { expect: [201], body: content, type: "application/octet-stream" });
    }
    await call("PUT", `${repository}/manifests/${tag}`, {
      ...{ expect: [201], body: manifest.content, type: manifest.mediaType },
    });
  }
}

async function call(
  method: string,
  url: string,
  { expect, body, type }: { expect: readonly number[]; body?: Buffer; type?: string },
): Promise<Response> {
  const response = await fetch(url, {
    method,
    signal: AbortSignal.timeout(CALL_LIMIT_MS),
    ...(body !== undefined && { body: new Uint8Array(body) }),
    ...(type !== undefined && { headers: { "content-type": type } }),
  });
  if (expect.includes(response.status)) return response;
  throw new Error(`Cannot ${method} ${url}: ${response.status} ${await response.text()}`);
}
