import type { Clock } from "../../../crds/client/clock.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import type { ClaimPair } from "../../cluster/claim-key.ts";
import type { ClaimWaiters } from "../../cluster/claim-waiters.ts";
import type { ClusterView } from "../../cluster/cluster-cache.ts";
import type { FindLivePod } from "../../cluster/live-pod.ts";

/** What claiming and releasing work with. */
export interface ClaimServices {
  readonly client: ClusterClient;
  readonly namespace: string;
  readonly view: Pick<ClusterView, "claims" | "workloads">;
  readonly findLivePod: FindLivePod;
  readonly waiters: ClaimWaiters;
  readonly clock: Clock;
  /**
   * Whether there is an archive of the pair's files; fails where it cannot be found out.
   *
   * @default nobody can tell, which is enough for calls that join any session
   */
  readonly hasArchive?: ((pair: ClaimPair, clientGone: AbortSignal | undefined) => Promise<boolean>) | undefined;
  /** A fresh unguessable word, for attempts. */
  readonly randomId: () => string;
  /** Milliseconds that a call waits for a claim or a release; 30 000 in production. */
  readonly waitLimitMs: number;
}
