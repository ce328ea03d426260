import type { Clock } from "../../../crds/client/clock.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import type { Activity } from "../../activity.ts";
import type { ClusterView } from "../../cluster/cluster-cache.ts";
import type { Kubectl } from "../../kubectl/kubectl.ts";

/** What the instance routes work with. */
export interface InstanceServices {
  readonly client: ClusterClient;
  readonly namespace: string;
  readonly view: Pick<ClusterView, "pods" | "claims">;
  readonly kubectl: Kubectl;
  readonly activity: Activity;
  readonly clock: Clock;
}
