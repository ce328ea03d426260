import { join } from "node:path";
import { freePort } from "../../cluster/process/free-port.ts";
import { bundleEdge, OPERATOR_FLAGS } from "../../start/bundle-programs.ts";
import { type MeasuredProgram, programEnvironment, startMeasuredProgram } from "./measured-program.ts";

/** The runtimes that the edge runs on. */
export type EdgeRuntime = "bun" | "deno" | "node";

const root = join(import.meta.dirname, "..", "..", "..");

/** Starts the edge; it is ready when its caches are synced. */
export async function startEdge(options: {
  kubeconfigPath: string;
  folder: string;
  /** @default "bun" */
  runtime?: EdgeRuntime;
  /** Where Bun writes a CPU profile at the edge's end. */
  profileFolder?: string | undefined;
  /** More of its environment. */
  settings?: Readonly<Record<string, string>>;
  signal: AbortSignal;
}): Promise<MeasuredProgram & { url: string; proxyUrl: string }> {
  const { kubeconfigPath, folder, runtime = "bun", profileFolder, settings, signal } = options;
  const proxyListen = `127.0.0.1:${await freePort()}`;
  const listen = `127.0.0.1:${await freePort()}`;
  const metricsListen = `127.0.0.1:${await freePort()}`;
  const program = await startMeasuredProgram({
    name: "edge",
    command: await commandOf(runtime, profileFolder),
    environment: programEnvironment({
      KUBECONFIG: kubeconfigPath,
      TENANCY_LISTEN: listen,
      TENANCY_EDGE_METRICS_LISTEN: metricsListen,
      TENANCY_PROXY_LISTEN: proxyListen,
      ...settings,
    }),
    folder: root,
    logPath: join(folder, `edge-${runtime}.log`),
    metricsUrl: `http://${metricsListen}`,
    isReady: ({ readyz }) => readyz,
    signal,
  });
  return { ...program, url: `http://${listen}`, proxyUrl: `http://${proxyListen}` };
}

async function commandOf(runtime: EdgeRuntime, profileFolder: string | undefined): Promise<[string, ...string[]]> {
  const main = join(root, "edge", "main.ts");
  const binary = (name: string): string => join(root, "node_modules", ".bin", name);
  switch (runtime) {
    case "bun":
      return [
        binary("bun"),
        ...(profileFolder === undefined ? [] : ["--cpu-prof", "--cpu-prof-dir", profileFolder]),
        await bundleEdge(root),
      ];
    case "deno":
      return [binary("deno"), "run", "-A", "--quiet", "--unstable-no-legacy-abort", main];
    case "node":
      return [process.execPath, "--import", import.meta.resolve("tsx"), main];
    default:
      return runtime satisfies never;
  }
}

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
    command: [process.execPath, ...OPERATOR_FLAGS, ...profiling, bundle],
    environment: programEnvironment({ ...settings, KUBECONFIG: kubeconfigPath, TENANCY_OPERATOR_LISTEN: listen }),
    folder,
    logPath: join(folder, "operator.log"),
    metricsUrl: `http://${listen}`,
    isReady: ({ readyz, metrics }) => readyz && metrics.sum("tenancy_operator_leading") === 1,
    signal,
  });
}
