import type { KubernetesList, KubernetesObject } from "../../kubernetes.ts";
import type { Resource } from "../../resource.ts";
import type { ClusterClient } from "../cluster-client.ts";
import { compareResourceVersions, keyOf } from "./store.ts";

/** The part of a collection that a list-watch follows. */
export interface Selection<T extends KubernetesObject> {
  readonly resource: Resource<T>;
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
}

/**
 * The cluster's history went back behind a version that was already seen: etcd was restored from a backup. No state in
 * memory can be trusted, so the program must restart, as
 * https://kubernetes.io/docs/tasks/administer-cluster/configure-upgrade-etcd/ requires.
 */
export class HistoryError extends Error {
  override readonly name = "HistoryError";
}

export interface Listing {
  /** Starts a list, and drops an unfinished one. */
  start(): void;
  /**
   * Fetches a page and emits its objects; after the last page, emits the objects that the list lacks.
   *
   * @throws HistoryError if the list is older than `lastResourceVersion`, the newest resourceVersion seen, or
   * contradicts
   *   a known object: a history that went back may be longer by now than it was
   */
  page(options: {
    limit: number;
    continue: string | undefined;
    lastResourceVersion: string | undefined;
  }): Promise<KubernetesList<KubernetesObject>["metadata"]>;
}

/**
 * Lists page by page, and finds deleted objects by comparing with the `knownObjects`.
 *
 * An object that is newer than the list is not missing: it was created after the list, and the answer to its write came
 * first.
 */
export function createListing<T extends KubernetesObject>(options: {
  client: ClusterClient;
  selection: Selection<T>;
  signal: AbortSignal;
  knownObjects: () => Iterable<T>;
  /** Whether a list at that resourceVersion cannot contain this state of the object. */
  contradicts: (object: T, resourceVersion: string) => boolean;
  pageTimeoutMs: number;
  /** Called with the list's resourceVersion. */
  onObject: (event: { type: "added" | "deleted"; object: T }, resourceVersion: string) => void;
}): Listing {
  const { client, selection, signal, knownObjects, contradicts, pageTimeoutMs, onObject } = options;
  const { resource, ...where } = selection;
  let seen = new Set<string>();

  function deleteMissing(resourceVersion: string): void {
    for (const object of [...knownObjects()]) {
      if (seen.has(keyOf(object))) continue;
      if (isBefore(resourceVersion, object.metadata.resourceVersion ?? "")) continue;
      // As a watch reports a deletion: the last state, with a resourceVersion at which the object was gone.
      const gone = { ...object, metadata: { ...object.metadata, resourceVersion } };
      onObject({ type: "deleted", object: gone }, resourceVersion);
    }
  }

  return {
    start() {
      seen = new Set();
    },
    async page({ limit, continue: token, lastResourceVersion }) {
      const query = { ...where, limit: limit || undefined, continue: token, signal, timeoutMs: pageTimeoutMs };
      const { metadata, items } = await client.list(resource, query);
      if (!metadata.resourceVersion) throw new Error(`Cannot list ${resource.plural}: the list has no resourceVersion`);
      const { resourceVersion } = metadata;
      if (lastResourceVersion !== undefined && isBefore(resourceVersion, lastResourceVersion))
        throw new HistoryError(
          `Cannot continue: the list of ${resource.plural} is at ${resourceVersion}, after ${lastResourceVersion}`,
        );
      const undone = items.find((object) => contradicts(object, resourceVersion));
      if (undone !== undefined)
        throw new HistoryError(
          `Cannot continue: the list of ${resource.plural} at ${resourceVersion} has ${keyOf(undone)} as it was before it changed`,
        );
      for (const object of items) {
        seen.add(keyOf(object));
        onObject({ type: "added", object }, metadata.resourceVersion);
      }
      if (!metadata.continue) {
        deleteMissing(metadata.resourceVersion);
        seen = new Set();
      }
      return metadata;
    },
  };
}

function isBefore(a: string, b: string): boolean {
  const order = compareResourceVersions(a, b);
  return order !== undefined && order < 0;
}
