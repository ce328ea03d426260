import { createClusterClient } from "../../crds/client/cluster-client.ts";
import { loadClusterConfig } from "../../crds/client/config/load-cluster-config.ts";
import { createTransport } from "../../crds/client/transport.ts";
import { findBinaries } from "../cluster/binaries.ts";
import { type ControlPlane, startControlPlane } from "../cluster/control-plane.ts";
import { CONTROL_PLANE_PROGRAMS } from "../cluster/programs.ts";
import { installKinds } from "../start/install-kinds.ts";
import { type ControlPlaneReset, noteContent } from "./reset-control-plane.ts";

/** Names the folder of the control plane that a test file is lent. */
export const SHARED_CONTROL_PLANE = "TENANCY_SHARED_CONTROL_PLANE";

/** A control plane that test files use one after the other, each as if it were new. */
interface SharedControlPlane extends ControlPlaneReset {
  readonly cluster: ControlPlane;
}

export interface SharedControlPlanes {
  /**
   * Lends a control plane with the kinds and the namespace `tenancy`, started unless one is idle, to one file.
   *
   * @param use is told its folder, or nothing where none can be started
   */
  lend<T>(use: (folder: string | undefined) => Promise<T>): Promise<T>;
  stop(): Promise<void>;
}

export function sharedControlPlanes({ log }: { log: (message: string) => void }): SharedControlPlanes {
  const idle: SharedControlPlane[] = [];
  let started = 0;

  async function start(): Promise<SharedControlPlane> {
    started += 1;
    const cluster = await startControlPlane({
      name: `shared-${process.pid}-${started}`,
      binaries: await findBinaries({ need: CONTROL_PLANE_PROGRAMS }),
    });
    try {
      await installIn(cluster);
      return { cluster, ...(await noteContent(cluster.kubeconfigPath)) };
    } catch (error) {
      await cluster.stop();
      throw error;
    }
  }

  async function startOrSay(): Promise<SharedControlPlane | undefined> {
    try {
      return await start();
    } catch (error) {
      log(`a control plane cannot be lent: ${(error as Error).message}`);
      return undefined;
    }
  }

  async function end({ cluster, close }: SharedControlPlane): Promise<void> {
    close();
    await cluster.stop();
  }

  return {
    async lend(use) {
      const shared = idle.pop() ?? (await startOrSay());
      if (shared === undefined) return use(undefined);
      try {
        return await use(shared.cluster.folder);
      } finally {
        try {
          await shared.reset();
          idle.push(shared);
        } catch (error) {
          log(`a control plane is not used again: ${(error as Error).message}`);
          await end(shared);
        }
      }
    },
    async stop() {
      await Promise.all(idle.splice(0).map(end));
    },
  };
}

async function installIn({ kubeconfigPath }: ControlPlane): Promise<void> {
  const transport = createTransport({ config: await loadClusterConfig({ kubeconfigPath }), role: "test" });
  try {
    const client = createClusterClient({ transport });
    await installKinds({ client, namespace: "tenancy", signal: AbortSignal.timeout(120_000) });
  } finally {
    transport.close();
  }
}
