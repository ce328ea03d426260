import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { eventually } from "../../eventually.ts";

const root = join(import.meta.dirname, "..", "..", "..");

/** The three runtimes, each as a command that runs the edge. */
export const runtimes = {
  bun: [join(root, "node_modules/.bin/bun"), "edge/main.ts"],
  node: [process.execPath, "--import", "tsx", "edge/main.ts"],
  deno: [join(root, "node_modules/.bin/deno"), "run", "-A", "--quiet", "--unstable-no-legacy-abort", "edge/main.ts"],
} as const;

/** The edge as a program of its own. */
export interface EdgeProcess {
  readonly child: ChildProcess;
  readonly url: string;
  readonly metricsUrl: string;
  /** Of the front door; undefined without the role proxy. */
  readonly proxyUrl: string | undefined;
  /** Every line that it printed. */
  readonly lines: string[];
  /** Its exit code, or the signal that ended it. */
  readonly exited: Promise<number | string>;
}

/**
 * Starts the edge on free ports and waits until it listens. @throws Error with what it printed where it ends instead
 */
export async function startEdgeProcess(
  runtime: keyof typeof runtimes,
  env: Record<string, string>,
): Promise<EdgeProcess> {
  const [command, ...parameters] = runtimes[runtime];
  const child = spawn(command, parameters, {
    cwd: root,
    env: {
      PATH: process.env.PATH ?? "",
      HOME: process.env.HOME ?? "",
      TENANCY_LISTEN: "127.0.0.1:0",
      TENANCY_EDGE_METRICS_LISTEN: "127.0.0.1:0",
      TENANCY_PROXY_LISTEN: "127.0.0.1:0",
      ...env,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const lines: string[] = [];
  const exited = new Promise<number | string>((resolve) => {
    child.once("close", (code, signal) => resolve(code ?? signal ?? "unknown"));
  });
  const listening = new Promise<{ url: string; metricsUrl: string; proxyUrl?: string }>((resolve) => {
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on("line", (line) => {
        lines.push(line);
        if (line.includes('"edge listening"')) resolve(JSON.parse(line));
      });
    }
  });
  const first = await Promise.race([listening, exited]);
  if (typeof first !== "object") throw new Error(`ended with ${first}: ${lines.join("\n")}`);
  const { url, metricsUrl, proxyUrl } = first;
  return { child, url, metricsUrl, proxyUrl, lines, exited };
}

/** Starts the edge and waits until its caches are synced. */
export async function startReadyEdge(...options: Parameters<typeof startEdgeProcess>): Promise<EdgeProcess> {
  const edge = await startEdgeProcess(...options);
  await eventually(async () => (await fetch(`${edge.metricsUrl}/readyz`)).status === 200);
  return edge;
}
