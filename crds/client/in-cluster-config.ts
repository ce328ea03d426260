import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { ClusterConfig } from "./cluster-config.ts";

/**
 * How a pod reaches its cluster, or undefined outside of one: its service account's token and authority, which the kubelet rotates.
 *
 * Follows https://kubernetes.io/docs/tasks/run-application/access-api-from-pod/#directly-accessing-the-rest-api
 */
export async function inClusterConfig(options: {
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
