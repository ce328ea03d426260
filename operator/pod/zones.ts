import { nodes } from "../../crds/client/built-in-resources.ts";
import type { Informer } from "../../crds/client/watch/informer.ts";
import { keyAt } from "../../crds/client/watch/store.ts";
import type { KubernetesObject, Pod } from "../../crds/kubernetes.ts";
import { metadataOf } from "../../crds/resource.ts";
import type { OperatorConfig } from "../config.ts";
import type { StartInformer } from "../informers.ts";
import type { PodContext } from "./context.ts";
import { ZONE } from "./scheduling.ts";

/** The nodes, with their name and zone alone; undefined unless the operator is to watch them. */
export type NodeCache = Informer<KubernetesObject, "zoned"> | undefined;

/** Without the right to watch nodes, the operator logs each attempt. */
const NODES_BACKOFF_MS = 60_000;

export function startNodeCache(start: StartInformer, { watchNodes }: Pick<OperatorConfig, "watchNodes">): NodeCache {
  if (!watchNodes) return undefined;
  return start({
    ...{ isOptional: true, resource: metadataOf(nodes), indexes: { zoned: zonedIndex } },
    transform: ({ metadata: { name, uid, resourceVersion, labels } }) => ({
      metadata: {
        name,
        ...(uid !== undefined && { uid }),
        ...(resourceVersion !== undefined && { resourceVersion }),
        ...(labels?.[ZONE] !== undefined && { labels: { [ZONE]: labels[ZONE] } }),
      },
    }),
    timings: { maxBackoffMs: NODES_BACKOFF_MS },
  });
}

/** An index of nodes in a zone, and of pods that have theirs from the API server, as from 1.35 on. It has one value. */
export function zonedIndex({ metadata }: KubernetesObject): string | undefined {
  return metadata.labels?.[ZONE] === undefined ? undefined : "";
}

/** The zone that a pod runs in; undefined if its node has none, or if no cache shows it. */
export function zoneOf({ metadata, spec }: Pod, { informers }: Pick<PodContext, "informers">): string | undefined {
  const node = spec.nodeName === undefined ? undefined : informers.nodes?.store.get(keyAt({ name: spec.nodeName }));
  return (node ?? { metadata }).metadata.labels?.[ZONE];
}

/** Whether any node is in a zone, as far as the caches show. */
export function hasZones({ informers: { nodes, pods } }: Pick<PodContext, "informers">): boolean {
  return (nodes?.store.by("zoned", "").size ?? 0) > 0 || pods.store.by("zoned", "").size > 0;
}

/** The pods in their order; those in the zone first, if one is given. */
export function* nearestFirst(
  pods: Iterable<Pod>,
  zone: string | undefined,
  context: Pick<PodContext, "informers">,
): Iterable<Pod> {
  if (zone === undefined) return yield* pods;
  const others: Pod[] = [];
  for (const pod of pods) {
    if (zoneOf(pod, context) === zone) yield pod;
    else others.push(pod);
  }
  yield* others;
}
