import { clusterFolder } from "../folders.ts";
import { type Image, imageBlobs } from "../images/image-archive.ts";
import { fullName } from "../images/load-image.ts";
import { containerdSocket } from "../images.ts";
import { runCommand } from "../process/run-command.ts";

const CALL_LIMIT_MS = 60_000;
/** Of an image of many gigabytes on a slow disk. */
const PUSH_LIMIT_MS = 30 * 60_000;

/**
 * Puts images of ours into a registry that speaks plain HTTP, but for the blobs that it has: `localhost/a:1` becomes
 * `<address>/localhost/a:1`.
 *
 * Follows https://github.com/opencontainers/distribution-spec/blob/main/spec.md#push
 */
export async function pushImages(address: string, images: readonly Image[]): Promise<void> {
  for (const image of images) {
    const [, path = "", tag = ""] = /^(.+):([^:/]+)$/.exec(image.name) ?? [];
    const repository = `http://${address}/v2/${path}`;
    const { manifest, config, layers } = imageBlobs(image);
    for (const { digest, content } of [...layers, config]) {
      if ((await call("HEAD", `${repository}/blobs/${digest}`, { expect: [200, 404] })).status === 200) continue;
      const begun = await call("POST", `${repository}/blobs/uploads/`, { expect: [202] });
      const upload = new URL(begun.headers.get("location") ?? "", repository);
      upload.searchParams.set("digest", digest);
      await call("PUT", upload.href, { expect: [201], body: content, type: "application/octet-stream" });
    }
    const { content, mediaType } = manifest;
    await call("PUT", `${repository}/manifests/${tag}`, { expect: [201], body: content, type: mediaType });
  }
}

/**
 * Puts images that a cluster's containerd has into the registry, where builds find them under the same names.
 *
 * @param refs as `loadImage` returns them
 */
export async function pushLoadedImages(cluster: string, address: string, refs: readonly string[]): Promise<void> {
  const ctr = ["-a", containerdSocket(clusterFolder(cluster)), "-n", "k8s.io", "images", "push", "--plain-http"];
  for (const name of refs.map(fullName)) {
    await runCommand("ctr", [...ctr, `${address}/${name}`, name], { limitMs: PUSH_LIMIT_MS });
  }
}

/** Returns the names of what a registry has, without tags. */
export async function listRepositories(address: string): Promise<string[]> {
  const answer = await call("GET", `http://${address}/v2/_catalog?n=1000`, { expect: [200] });
  return ((await answer.json()) as { repositories: string[] }).repositories;
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
