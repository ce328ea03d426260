import { join } from "node:path";
import { findBinaries, programPath } from "../../scripts/cluster/binaries.ts";
import type { ControlPlane } from "../../scripts/cluster/control-plane.ts";
import { type Program, startProgram } from "../../scripts/cluster/process/start-program.ts";
import { CONTROL_PLANE_PROGRAMS } from "../../scripts/cluster/programs.ts";

/**
 * Starts some of the controllers that run on every cluster, and here only where a test needs them.
 *
 * @param controllers their names by commas
 */
export async function startControllerManager(
  { kubeconfigPath, folder }: ControlPlane,
  { controllers, flags = [] }: { controllers: string; flags?: readonly string[] },
): Promise<Program> {
  const name = "kube-controller-manager";
  return startProgram({
    name,
    command: programPath(await findBinaries({ need: [...CONTROL_PLANE_PROGRAMS, name] }), name),
    arguments: [
      ...[`--kubeconfig=${kubeconfigPath}`, "--leader-elect=false", "--secure-port=0"],
      ...[`--controllers=${controllers}`, ...flags],
    ],
    ...{ logPath: join(folder, "log", `${name}.log`), lifetime: "parent" },
  });
}
