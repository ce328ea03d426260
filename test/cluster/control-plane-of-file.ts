import { findBinaries } from "../../scripts/cluster/binaries.ts";
import { type ControlPlane, startControlPlane, useControlPlane } from "../../scripts/cluster/control-plane.ts";
import { stopProcess } from "../../scripts/cluster/process/stop-process.ts";
import { CONTROL_PLANE_PROGRAMS } from "../../scripts/cluster/programs.ts";
import type { SimulatedNodesOptions } from "../../scripts/cluster/simulated/options.ts";
import { startSimulatedNodesProcess } from "../../scripts/cluster/simulated/start-process.ts";
import { SHARED_CONTROL_PLANE } from "../../scripts/test/shared-control-planes.ts";

interface Options {
  simulatedNodes?: SimulatedNodesOptions;
  apiServerFlags?: string[];
}

/**
 * Returns the control plane that the test runner lends to this file, or starts one where the file says
 * `// @own-cluster` or runs without the runner.
 */
export async function controlPlaneOfFile(name: string, options: Options): Promise<ControlPlane> {
  const folder = process.env[SHARED_CONTROL_PLANE];
  if (folder !== undefined) return borrow(folder, options);
  return startControlPlane({
    // Runs of other clones may come at the same time.
    name: `${name}-${process.pid}`,
    binaries: await findBinaries({ need: CONTROL_PLANE_PROGRAMS }),
    ...options,
  });
}

async function borrow(folder: string, { simulatedNodes, apiServerFlags }: Options): Promise<ControlPlane> {
  if (apiServerFlags !== undefined) throw sharedOnly("set flags of");
  const cluster = await useControlPlane(folder);
  const { kubeconfigPath } = cluster;
  const nodes =
    simulatedNodes &&
    (await startSimulatedNodesProcess({ ...simulatedNodes, kubeconfigPath, folder, lifetime: "parent" }));
  return {
    ...cluster,
    get etcd(): never {
      throw sharedOnly("use the etcd of");
    },
    get apiServer(): never {
      throw sharedOnly("stop");
    },
    async stop() {
      if (nodes !== undefined) await stopProcess(nodes.identity, { name: nodes.name, graceMs: 0 });
    },
  };
}

function sharedOnly(what: string): Error {
  return new Error(`Cannot ${what} a control plane that other test files use: write // @own-cluster into this file`);
}
