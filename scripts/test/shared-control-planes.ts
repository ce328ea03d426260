import { createClusterClient } from "../../crds/client/cluster-client.ts";
import { loadClusterConfig } from "../../crds/client/config/load-cluster-config.ts";
import { createTransport } from "../../crds/client/transport.ts";
import { findBinaries } from "../cluster/binaries.ts";
import { startControlPlane } from "../cluster/control-plane.ts";
import { CONTROL_PLANE_PROGRAMS } from "../cluster/programs.ts";
import { installKinds } from "../start/install-kinds.ts";
import type { Lendable } from "./lending.ts";
import { noteContent } from "./reset-control-plane.ts";

/** The variable with the folder of the control plane that a test file uses. */
export const SHARED_CONTROL_PLANE = "TENANCY_SHARED_CONTROL_PLANE";

const LIMIT_MS = 120_000;

/** Starts a control plane that test files can share, with the kinds and the namespace `tenancy`. */
export async function startSharedControlPlane(number: number): Promise<Lendable> {
  const cluster = await startControlPlane({
    name: `shared-${process.pid}-${number}`,
    binaries: await findBinaries({ need: CONTROL_PLANE_PROGRAMS }),
  });
  try {
    await installKindsIn(cluster.kubeconfigPath);
    const content = await noteContent(cluster.kubeconfigPath);
    return {
      environment: { [SHARED_CONTROL_PLANE]: cluster.folder },
      reset: () => content.reset(),
      async end() {
        content.close();
        await cluster.stop();
      },
    };
  } catch (error) {
    await cluster.stop();
    throw error;
  }
}

/** Installs the kinds, with the namespace `tenancy`. */
export async function installKindsIn(kubeconfigPath: string): Promise<void> {
  const transport = createTransport({ config: await loadClusterConfig({ kubeconfigPath }), role: "test" });
  try {
    const client = createClusterClient({ transport });
    await installKinds({ client, namespace: "tenancy", signal: AbortSignal.timeout(LIMIT_MS) });
  } finally {
    transport.close();
  }
}
