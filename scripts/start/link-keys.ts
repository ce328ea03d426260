import { randomBytes } from "node:crypto";
import { ApiError, isAlreadyExists } from "../../crds/client/api-error.ts";
import { secrets } from "../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import { LINK_KEYS_SECRET } from "../../crds/secret-refusal.ts";

/** Creates the key that signs links of the front door, if there is none. */
export async function makeLinkKeys(options: {
  client: ClusterClient;
  namespace: string;
  signal: AbortSignal;
}): Promise<void> {
  const { client, namespace, signal } = options;
  const data = { [new Date().toISOString().slice(0, 10)]: randomBytes(32).toString("base64") };
  try {
    await client.create(secrets, { metadata: { name: LINK_KEYS_SECRET, namespace }, type: "Opaque", data }, { signal });
  } catch (error) {
    // Without the right to create Secrets, the front door has no links.
    const isForbidden = error instanceof ApiError && error.status === 403;
    if (!isForbidden && !isAlreadyExists(error)) throw error;
  }
}
