import { pods } from "../../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { startInformer } from "../../../crds/client/watch/informer.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation, label } from "../../../crds/labels.ts";

/** Follows pods, and notes each that was two claims', and each binding that two pods had. */
export async function watchExclusivity(
  client: ClusterClient,
  namespace: string,
): Promise<{ readonly doubled: readonly string[]; stop(): Promise<void> }> {
  const stopping = new AbortController();
  const claimOf = new Map<string, string>();
  const podOf = new Map<string, string>();
  const doubled: string[] = [];

  function note(known: Map<string, string>, [key, value]: [string, string]): void {
    const before = known.get(key);
    if (before !== undefined && before !== value) doubled.push(`${key} had ${before} and ${value}`);
    known.set(key, value);
  }

  const informer = startInformer<Pod>({
    ...{ client, namespace, resource: pods, indexes: {}, signal: stopping.signal },
    labelSelector: `${label.managed}=true`,
    onChange({ object: { metadata } }) {
      const { uid = "", name } = metadata;
      const claim = metadata.annotations?.[annotation.claimUid];
      const binding = metadata.labels?.[label.binding];
      if (claim !== undefined) note(claimOf, [`pod ${name} ${uid}`, claim]);
      if (binding !== undefined) note(podOf, [`binding ${binding}`, `${name} ${uid}`]);
    },
  });
  await informer.synced;
  return {
    doubled,
    async stop() {
      stopping.abort();
      await informer.done;
    },
  };
}
