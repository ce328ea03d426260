import { isExpired } from "../../crds/client/api-error.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import { label } from "../../crds/labels.ts";
import type { OperatorContext } from "../context.ts";

const PAGE_SIZE = 500;

/**
 * Reads every unclaimed pod of every pool from the API server into the store. A new leader does this before it fills a pool: what its
 * predecessor created last may not have come by the watch yet, and would be created again.
 */
export async function refreshMembers({ client, config, informers }: OperatorContext): Promise<void> {
  const labelSelector = `${label.managed}=true,${label.pool}`;
  let token: string | undefined;
  do {
    try {
      const page = await client.list(pods, {
        namespace: config.namespace,
        labelSelector,
        limit: PAGE_SIZE,
        ...(token !== undefined && { continue: token }),
      });
      for (const pod of page.items) informers.pods.put(pod);
      token = page.metadata.continue;
    } catch (error) {
      if (token === undefined || !isExpired(error)) throw error;
      // The server no longer keeps the pages of this list: start it again.
      token = undefined;
    }
  } while (token);
}
