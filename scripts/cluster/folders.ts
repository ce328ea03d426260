import { homedir, tmpdir } from "node:os";
import { join } from "node:path";

/** The default name of a cluster. */
export const DEFAULT_CLUSTER = "tenancy";

/** Returns this project's folder in the user's cache folder. */
export function cacheFolder(environment: NodeJS.ProcessEnv = process.env): string {
  const base = environment.XDG_CACHE_HOME;
  return join(base?.startsWith("/") ? base : join(homedir(), ".cache"), "tenancy");
}

/** Returns the folder with a subfolder for each set of built or fetched Kubernetes programs. */
export function binariesFolder(environment: NodeJS.ProcessEnv = process.env): string {
  return join(cacheFolder(environment), "kubernetes");
}

/** Returns the folder with a subfolder for each cluster. */
export function clustersFolder(environment: NodeJS.ProcessEnv = process.env): string {
  return join(cacheFolder(environment), "clusters");
}

/**
 * Returns the folder that holds everything of one cluster: keys, data, logs, sockets and what must be stopped.
 *
 * @param name name of the cluster
 * @throws Error when the name is not a legal cluster name
 */
export function clusterFolder(name: string, environment: NodeJS.ProcessEnv = process.env): string {
  return join(clustersFolder(environment), legalName(name));
}

/**
 * Returns the folder of a cluster that ends with the process that starts it, where the system clears away what a
 * process that was killed has left.
 *
 * @param name name of the cluster
 * @throws Error when the name is not a legal cluster name
 */
export function temporaryClusterFolder(name: string): string {
  return join(tmpdir(), `tenancy-clusters-${process.getuid?.() ?? 0}`, legalName(name));
}

function legalName(name: string): string {
  if (!/^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$/.test(name)) {
    throw new Error(
      `Cannot use "${name}" as the name of a cluster: use 1 to 40 lower-case letters, digits and "-", beginning and ending with a letter or digit`,
    );
  }
  return name;
}
