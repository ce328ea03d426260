import { type ClusterClient, createClusterClient } from "../../../crds/client/cluster-client.ts";
import { loadClusterConfig } from "../../../crds/client/config/load-cluster-config.ts";
import { createTransport } from "../../../crds/client/transport.ts";
import { type AccountAccess, accountAccess } from "./account-access.ts";

export interface AccountClient extends ClusterClient {
  readonly access: AccountAccess;
  close(): void;
}

/** A client in this process that calls as a ServiceAccount. */
export async function accountClient(options: Parameters<typeof accountAccess>[0]): Promise<AccountClient> {
  const access = await accountAccess(options);
  const config = await loadClusterConfig({ kubeconfigPath: access.kubeconfigPath });
  const transport = createTransport({ config, role: "test" });
  return {
    ...createClusterClient({ transport }),
    access,
    close() {
      transport.close();
      access.remove();
    },
  };
}
