import type { ClaimKey } from "../../../crds/claims/claim-key.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import type { Cluster } from "../../../crds/client/cluster.ts";
import type { Tracer } from "../../../crds/tracing/tracer.ts";
import type { ClaimWaiters } from "../../cluster/claim-waiters.ts";
import type { FindLivePod } from "../../cluster/live-pod.ts";
import type { ClusterCache } from "../../cluster/watch-cluster.ts";
import type { ClaimAdmission } from "./claim-admission.ts";
import type { TenantQuotaCheck } from "./tenant-quota.ts";

export interface ClaimServices {
  readonly cluster: Cluster;
  readonly namespace: string;
  readonly cache: Pick<ClusterCache, "claims" | "workloads">;
  readonly findLivePod: FindLivePod;
  readonly waiters: ClaimWaiters;
  readonly clock: Clock;
  /** The API server's time in milliseconds since the epoch: what times of objects are set by. */
  readonly timeOfDay: () => number;
  /** @default every call is begun */
  readonly admission?: Pick<ClaimAdmission, "begin" | "write"> | undefined;
  /** @default only the operator refuses a claim for its tenant's quota */
  readonly quota?: TenantQuotaCheck | undefined;
  /** Begins traces where no caller has. @default nothing is traced */
  readonly tracer?: Tracer | undefined;
  /**
   * Whether the tenant has an archive of the workload; throws if that cannot be determined.
   *
   * @default undefined, enough for calls that join any session
   */
  readonly hasArchive?: ((key: ClaimKey, clientGone: AbortSignal | undefined) => Promise<boolean>) | undefined;
  /** The key of what claims keep of secret variables. @default undefined, enough for calls that bring none */
  readonly secretsKey?: (() => Promise<Buffer>) | undefined;
  /** Returns an unguessable id. */
  readonly randomId: () => string;
  /** Milliseconds that a call waits for a claim or a release; 30 000 in production. */
  readonly waitLimitMs: number;
}
