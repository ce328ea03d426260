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
 * The cluster's history went back behind a version that was already seen: its store was restored from a backup. No
 * state in memory can be trusted, so the program must restart, as
 * https://kubernetes.io/docs/tasks/administer-cluster/configure-upgrade-etcd/ requires.
 */
export class HistoryError extends Error {
  override readonly name = "HistoryError";
}

export interface Listing {
  /** Starts a list; what an unfinished one has seen is forgotten. */
  start(): void;
  /**
   * Fetches a page, hands its objects on, and after the last one the objects that the list is missing.
   *
   * @throws HistoryError when the list is of a time before `lastResourceVersion`, the newest resourceVersion seen, or
   *   contradicts what is known: a history that went back may be longer by now than it was
   */
  page(options: {
    limit: number;
    continue: string | undefined;
    lastResourceVersion: string | undefined;
  }): Promise<KubernetesList<KubernetesObject>["metadata"]>;
}

/**
 * Lists page by page, and finds what is gone by comparing with the `knownObjects`.
 *
 * An object that is newer than the list is not missing from it: it was made after the list, and its write's answer came
 * first.
 */
export function createListing<T extends KubernetesObject>(options: {
  client: ClusterClient;
  selection: Selection<T>;
  signal: AbortSignal;
  knownObjects: () => Iterable<T>;
  /** Whether a list at that resourceVersion cannot show the object as it does. */
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
      // As a watch would report it: the last state, with the resourceVersion at which it was known to be gone.
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
          `Cannot go on: the list of ${resource.plural} is at ${resourceVersion}, after ${lastResourceVersion}`,
        );
      const undone = items.find((object) => contradicts(object, resourceVersion));
      if (undone !== undefined)
        throw new HistoryError(
          `Cannot go on: the list of ${resource.plural} at ${resourceVersion} has ${keyOf(undone)} as it was before it changed`,
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
