import { isNotFound } from "../../crds/client/api-error.ts";
import { pods } from "../../crds/client/built-in-resources.ts";
import { inTurns } from "../../crds/in-turns.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation } from "../../crds/labels.ts";
import type { Workload } from "../../crds/workload.ts";
import { PROXY_CONTAINER } from "../egress/layout.ts";
import type { WorkloadContext } from "./context.ts";

const PATCHES_AT_ONCE = 32;

/**
 * Makes the kubelets bring changed settings to the proxies of a workload's pods now: they look at a pod's volumes when
 * the pod changes, and else once a minute.
 *
 * https://kubernetes.io/docs/concepts/configuration/configmap/#mounted-configmaps-are-updated-automatically
 *
 * @param settings another text for each change
 */
export async function hurryProxies(
  { metadata }: Workload,
  settings: string,
  { cluster, informers, log }: WorkloadContext,
): Promise<void> {
  const followers = [...informers.pods.store.by("workload", metadata.name)].filter(hasProxy);
  await inTurns(followers, hurry, { atOnce: PATCHES_AT_ONCE });

  async function hurry({ metadata: { name } }: Pod): Promise<void> {
    const change = { metadata: { annotations: { [annotation.egressSettings]: settings } } };
    try {
      await cluster(pods).named(name).patch(change);
    } catch (error) {
      // The kubelet looks by itself within a minute.
      if (!isNotFound(error)) log.info({ pod: name, error }, "the proxy of a pod gets its new settings later");
    }
  }
}

function hasProxy({ metadata, spec }: Pod): boolean {
  const isRunning = spec.nodeName !== undefined && metadata.deletionTimestamp === undefined;
  return isRunning && spec.containers.some(({ name }) => name === PROXY_CONTAINER);
}
