import { join } from "node:path";
import { freePort } from "../../cluster/process/free-port.ts";
import type { MeasuredProgram } from "./measured-program.ts";
import { programEnvironment } from "./program-environment.ts";
import { startMeasuredProgram } from "./start-measured-program.ts";

/** Starts the bundled operator under Node; it is ready when it leads. */
export async function startOperator(options: {
  /** Path of the bundled program. */
  bundle: string;
  /** More of its environment. */
  settings: Readonly<Record<string, string>>;
  kubeconfigPath: string;
  folder: string;
  /** Where Node writes a CPU profile at the operator's end. */
  profileFolder?: string | undefined;
  signal: AbortSignal;
}): Promise<MeasuredProgram> {
  const { bundle, settings, kubeconfigPath, folder, profileFolder, signal } = options;
  const listen = `127.0.0.1:${await freePort()}`;
  const profiling =
    profileFolder === undefined ? [] : ["--cpu-prof", "--cpu-prof-dir", profileFolder, "--cpu-prof-interval", "200"];
  return startMeasuredProgram({
    name: "operator",
    command: [process.execPath, ...profiling, bundle],
    environment: programEnvironment({ ...settings, KUBECONFIG: kubeconfigPath, TENANCY_OPERATOR_LISTEN: listen }),
    folder,
    logPath: join(folder, "operator.log"),
    metricsUrl: `http://${listen}`,
    isReady: ({ readyz, metrics }) => readyz && metrics.sum("tenancy_operator_leading") === 1,
    signal,
  });
}
