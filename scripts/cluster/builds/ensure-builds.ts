import { join } from "node:path";
import { orAborted } from "../../../crds/waits.ts";
import { clusterFolder } from "../folders.ts";
import { BUILDER_IMAGE, builderImage } from "../images/builder-image.ts";
import { findLocalImages } from "../images/local-images.ts";
import { importImages } from "../images.ts";
import { createApiClient } from "../kubernetes/api-client.ts";
import type { Log } from "../log.ts";
import { listRepositories, pushImages, pushLoadedImages } from "./push-images.ts";
import { ensureRegistry, mirrorHosts, registryAddress } from "./registry.ts";

/** As the programs know it unless TENANCY_BUILD_NAMESPACE says otherwise. */
export const BUILD_NAMESPACE = "tenancy-builds";
/** The ConfigMap of that namespace that builds mount. */
export const BUILDKIT_CONFIG = "tenancy-buildkitd";
/** Below it are the images that were built, apart from those that were pushed. */
const BUILT = "built";

/** Returns what has the operator build images on a local cluster, as environment variables. */
export function buildEnvironment(cluster: string): { TENANCY_REGISTRY: string; TENANCY_BUILDER_IMAGE: string } {
  return { TENANCY_REGISTRY: `${registryAddress(cluster)}/${BUILT}`, TENANCY_BUILDER_IMAGE: BUILDER_IMAGE };
}

/**
 * Brings all that builds take to a complete cluster, but for the builder's image: the registry with the images that the
 * cluster comes with, the namespace, and how BuildKit reaches the registry; what is there already stays.
 *
 * @param options.loaded images that containerd has, as `loadImage` returns them, which builds are to find as well
 * @throws Error when the registry cannot be started
 */
export async function ensureBuilds(
  cluster: string,
  options: { namespace?: string | undefined; loaded?: readonly string[]; log: Log },
): Promise<void> {
  const { namespace = BUILD_NAMESPACE, loaded = [], log } = options;
  const address = await ensureRegistry(cluster, log);
  await pushImages(address, await findLocalImages(log));
  await pushLoadedImages(cluster, address, loaded);
  const folders = (await listRepositories(address)).map((repository) => repository.split("/")[0] ?? "");
  const hosts = [...new Set(folders)].filter((folder) => folder !== BUILT).sort();
  mirrorHosts(cluster, address, hosts);
  await configureBuilds(cluster, { address, namespace, hosts });
}

/**
 * Makes the builder's image, which takes minutes where it was never made, and brings it to a complete cluster; returns
 * why it cannot be made, or undefined when it is there.
 *
 * @param options.signal ends the wait for what is compiled, which itself ends with this process
 */
export async function importBuilderImage(
  cluster: string,
  { log, signal = new AbortController().signal }: { log: Log; signal?: AbortSignal },
): Promise<string | undefined> {
  const image = await orAborted(builderImage(log), signal);
  if ("because" in image) return image.because;
  await importImages(cluster, [image]);
  return undefined;
}

/** Makes the namespace, and has BuildKit look in the registry first for images of those hosts. */
async function configureBuilds(
  cluster: string,
  { address, namespace, hosts }: { address: string; namespace: string; hosts: readonly string[] },
): Promise<void> {
  const api = createApiClient(join(clusterFolder(cluster), "kubeconfig"));
  const apply = async (path: string, body: object) => {
    const query = "?fieldManager=tenancy-cluster&force=true";
    const request = { method: "PATCH", path: path + query, body, contentType: "application/apply-patch+yaml" } as const;
    const { status, text } = await api.call(request);
    if (status !== 200 && status !== 201) throw new Error(`Cannot apply ${path}: ${status} ${text}`);
  };
  try {
    const labels = { "pod-security.kubernetes.io/enforce": "privileged" };
    await apply(`/api/v1/namespaces/${namespace}`, {
      ...{ apiVersion: "v1", kind: "Namespace" },
      metadata: { name: namespace, labels },
    });
    await apply(`/api/v1/namespaces/${namespace}/configmaps/${BUILDKIT_CONFIG}`, {
      ...{ apiVersion: "v1", kind: "ConfigMap", metadata: { name: BUILDKIT_CONFIG } },
      data: { "buildkitd.toml": buildkitToml(address, hosts) },
    });
  } finally {
    api.close();
  }
}

/**
 * Returns a configuration that has BuildKit ask the registry first for images of those hosts, and by plain HTTP.
 *
 * Follows https://github.com/moby/buildkit/blob/v0.26.3/docs/buildkitd.toml.md
 */
export function buildkitToml(address: string, hosts: readonly string[]): string {
  return [
    ...hosts.map((host) => `[registry."${host}"]\n  mirrors = ["${address}/${host}"]\n`),
    `[registry."${address}"]\n  http = true\n`,
  ].join("");
}
