import { pods } from "../../crds/client/built-in-resources.ts";
import { listAll } from "../../crds/client/cluster-client.ts";
import { label } from "../../crds/labels.ts";
import type { OperatorContext } from "../context.ts";

/**
 * Reads every unclaimed pod of every pool from the API server into the store. A new leader does this before it fills a pool: what its
 * predecessor created last may not have come by the watch yet, and would be created again.
 */
export async function refreshMembers({ client, config, informers }: OperatorContext): Promise<void> {
  const labelSelector = `${label.managed}=true,${label.pool}`;
  for (const pod of await listAll(pods, { client, namespace: config.namespace, labelSelector }))
    informers.pods.put(pod);
}
