import { isAlreadyExists } from "../../crds/client/api-error.ts";
import { namespaces } from "../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import { installDefinitions } from "../../crds/definitions/install-definitions.ts";

/** Creates the namespace if it is missing, installs the four kinds and waits until the API server serves them. */
export async function installKinds(options: {
  client: ClusterClient;
  namespace: string;
  signal: AbortSignal;
}): Promise<void> {
  await ensureNamespace(options);
  await installDefinitions(options.client, { signal: options.signal });
}

/** Creates a namespace if it is missing. */
export async function ensureNamespace(options: {
  client: ClusterClient;
  namespace: string;
  signal: AbortSignal;
}): Promise<void> {
  const { client, namespace, signal } = options;
  try {
    await client.create(namespaces, { metadata: { name: namespace } }, { signal });
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
  }
}
