import type { BuildContexts } from "../../../crds/builds/build-contexts.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import type { ClusterConfig } from "../../../crds/client/config/cluster-config.ts";
import { createExec } from "../../../crds/client/exec/exec.ts";
import { openStore } from "../../../crds/snapshots/open-store.ts";
import { operatorConfig } from "../../../operator/config.ts";
import { createSnapshots, type Snapshots } from "../../../operator/snapshots/snapshots.ts";

/** What keeps files, as the operator has it, on simulated nodes: whatever asks the helper pod or runs in a pod fails. */
export function simulatedStore(options: { client: ClusterClient; cluster: ClusterConfig; namespace: string }): {
  readonly snapshots: Snapshots;
  readonly contexts: BuildContexts;
} {
  const { client, cluster, namespace } = options;
  const { store } = operatorConfig({}).snapshots;
  const { archives, contexts, mark } = openStore(store, { client, cluster, namespace });
  const exec = createExec({ config: cluster });
  const timeoutMs = 10_000;
  return { contexts, snapshots: createSnapshots({ exec, archives, mark, most: store.most, namespace, timeoutMs }) };
}
