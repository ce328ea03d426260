import type { Clock } from "../../../crds/client/clock.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import type { ClusterView } from "../../cluster/cluster-cache.ts";
import type { Kubectl } from "../../kubectl/kubectl.ts";

/** What the snapshot routes work with. */
export interface SnapshotServices {
  readonly client: ClusterClient;
  readonly namespace: string;
  readonly view: Pick<ClusterView, "claims">;
  readonly kubectl: Kubectl;
  readonly clock: Clock;
}
