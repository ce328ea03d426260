import type { KubernetesObject } from "../kubernetes.ts";
import type { Resource } from "../resource.ts";
import { isExpired } from "./api-error.ts";
import type { ClusterClient } from "./cluster-client.ts";

const PAGE_SIZE = 500;
const MAX_TRIES = 3;

/**
 * Every object of a kind in the namespace as the API server has it now, read in pages; starts anew where the server drops the list while it
 * is read.
 */
export async function listAll<T extends KubernetesObject>(
  resource: Resource<T>,
  { client, namespace, labelSelector }: { client: ClusterClient; namespace: string; labelSelector?: string },
): Promise<T[]> {
  for (let tries = 1; ; tries += 1) {
    try {
      const items: T[] = [];
      let next: string | undefined;
      do {
        const page = await client.list(resource, { namespace, labelSelector, limit: PAGE_SIZE, continue: next });
        items.push(...page.items);
        next = page.metadata.continue || undefined;
      } while (next !== undefined);
      return items;
    } catch (error) {
      if (!isExpired(error) || tries === MAX_TRIES) throw error;
    }
  }
}
