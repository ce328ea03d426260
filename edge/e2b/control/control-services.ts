import type { TenantRates } from "../../access/tenant-rates.ts";
import type { ClaimServices } from "../../api/claims/claim-services.ts";
import type { InstanceServices } from "../../api/instances/instance.ts";
import type { SnapshotServices } from "../../api/snapshots/store.ts";
import type { ClusterCache } from "../../cluster/watch-cluster.ts";
import type { AccessTokens } from "../access-token.ts";

/** What the calls on sandboxes work with: the services of the REST API, and what only the SDKs need. */
export interface ControlServices extends ClaimServices, SnapshotServices, InstanceServices {
  readonly cache: ClusterCache;
  readonly accessTokens: Pick<AccessTokens, "sign">;
  /** The front door's domain, with its port, for the addresses of sandboxes. Undefined without a front door. */
  readonly domain: () => string | undefined;
  /** @default no tenant's requests are limited */
  readonly rates?: TenantRates | undefined;
}
