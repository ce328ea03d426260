import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { delimiter, join } from "node:path";
import type { ClusterConfig } from "./cluster-config.ts";

export interface LoadClusterConfigOptions {
  /** @default process.env */
  readonly env?: Readonly<Record<string, string | undefined>> | undefined;
  /** @default the current-context of the kubeconfig */
  readonly context?: string | undefined;
  /** Takes precedence over the environment. */
  readonly kubeconfigPath?: string | undefined;
  /** The folder of a pod's service account. @default "/var/run/secrets/kubernetes.io/serviceaccount" */
  readonly serviceAccountFolder?: string | undefined;
}

/**
 * Finds the configuration of the cluster: the files of `KUBECONFIG`, else `~/.kube/config`, else the pod's service
 * account.
 *
 * Follows https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/
 *
 * @throws Error that names the files it looked for, or the fault in a file that it found
 */
export async function loadClusterConfig(options: LoadClusterConfigOptions = {}): Promise<ClusterConfig> {
  const { env = process.env, context, kubeconfigPath, serviceAccountFolder: folder } = options;
  const named =
    kubeconfigPath === undefined ? env.KUBECONFIG?.split(delimiter).filter((path) => path !== "") : [kubeconfigPath];
  const paths = named?.length ? named : [join(env.HOME || homedir(), ".kube", "config")];
  const files = await readExisting(paths);
  if (files.length > 0) {
    // Imported here because a pod does not need the YAML parser.
    const { kubeconfigContext, mergeKubeconfigs } = await import("./kubeconfig.ts");
    return kubeconfigContext(mergeKubeconfigs(files), {
      context,
      source: files.map(({ path }) => path).join(delimiter),
    });
  }
  const inCluster = named?.length || context !== undefined ? undefined : await inClusterConfig({ env, folder });
  if (inCluster !== undefined) return inCluster;
  throw new Error(
    `Cannot find a cluster: no kubeconfig at ${paths.join(", ")}${named?.length ? "" : ", and this is not a pod"}`,
  );
}

async function readExisting(paths: readonly string[]): Promise<{ path: string; content: string }[]> {
  const files: { path: string; content: string }[] = [];
  for (const path of paths) {
    try {
      files.push({ path, content: await readFile(path, "utf8") });
    } catch (cause) {
      if ((cause as NodeJS.ErrnoException).code !== "ENOENT")
        throw new Error(
          `Cannot read the kubeconfig ${path}: ${cause instanceof Error ? cause.message : String(cause)}`,
          { cause },
        );
    }
  }
  return files;
}

/**
 * How a pod reaches its cluster: with the token and the authority of its service account, which the kubelet rotates.
 * Undefined outside of a pod.
 *
 * Follows https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/#directly-accessing-the-rest-api
 */
async function inClusterConfig(options: {
  env: Readonly<Record<string, string | undefined>>;
  /** @default "/var/run/secrets/kubernetes.io/serviceaccount" */
  folder?: string | undefined;
}): Promise<ClusterConfig | undefined> {
  const { env, folder = "/var/run/secrets/kubernetes.io/serviceaccount" } = options;
  const { KUBERNETES_SERVICE_HOST: host, KUBERNETES_SERVICE_PORT: port } = env;
  if (!host || !port) return undefined;
  return {
    server: `https://${host.includes(":") ? `[${host}]` : host}:${port}`,
    caFile: join(folder, "ca.crt"),
    tokenFile: join(folder, "token"),
    namespace: (await readFile(join(folder, "namespace"), "utf8")).trim() || undefined,
  };
}
