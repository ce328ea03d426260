import { cpSync, rmSync } from "node:fs";
import type { ControlPlane } from "../../scripts/cluster/control-plane.ts";

/** What a cluster's etcd held at one moment. */
export interface Backup {
  /**
   * Brings the cluster back to that moment, as whoever restores etcd does: the API server is stopped before and started
   * after, and everything else goes on.
   *
   * @param meanwhile called while the API server is away
   */
  restore(meanwhile?: () => Promise<void> | void): Promise<void>;
}

/** Keeps a copy of all that the cluster's etcd holds, for which that is away for a moment. */
export async function backUp({ etcd, apiServer }: ControlPlane): Promise<Backup> {
  const copy = `${etcd.dataFolder}-backup`;
  await etcd.kill();
  cpSync(etcd.dataFolder, copy, { recursive: true });
  await etcd.start();
  return {
    async restore(meanwhile) {
      await apiServer.kill();
      await etcd.kill();
      rmSync(etcd.dataFolder, { recursive: true });
      cpSync(copy, etcd.dataFolder, { recursive: true });
      await meanwhile?.();
      await etcd.start();
      await apiServer.start();
    },
  };
}
