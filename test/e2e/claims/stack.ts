import { type ChildProcess, execFile, spawn } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { findKubectl } from "../../../scripts/cluster/kubernetes/kubectl.ts";
import { freePort } from "../../../scripts/cluster/process/free-port.ts";
import { listProcesses } from "../processes.ts";
import { patiently, untilReleased } from "./patiently.ts";

const root = join(import.meta.dirname, "..", "..", "..");
// A machine that has built nothing yet builds Kubernetes first.
const START_LIMIT_MS = 30 * 60_000;
const STOP_LIMIT_MS = 120_000;

interface Answer {
  status: number;
  body: Record<string, unknown> & { error?: string };
}

/** `npm start` as a user runs it, on a local cluster of its own. */
export interface Stack {
  url: string;
  kubeconfigPath: string;
  /** What it has printed so far. */
  output(): string;
  kubectl(...commandArguments: string[]): Promise<string>;
  call(method: string, path: string, body?: unknown): Promise<Answer>;
  /** Claims, however often the call has to be made until the pod is there. */
  claim(tenant: string, body: { workload: string; resume?: boolean }): Promise<Answer>;
  /** Releases, and waits for its end in the same way. */
  release(tenant: string, workload: string): Promise<Answer>;
  /** The process of it whose command line holds these words. */
  pidOf(words: string): number;
  /** As Ctrl-C does. Resolves with the exit code. */
  interrupt(): Promise<number | null>;
}

/** Has `npm start` bring what builds take, as it does by itself. */
export const WITH_BUILDS: NodeJS.ProcessEnv = { TENANCY_REGISTRY: undefined };

export async function startStack(name: string, env: NodeJS.ProcessEnv = {}, words: string[] = []): Promise<Stack> {
  const listen = `127.0.0.1:${await freePort()}`;
  const child = spawn(process.execPath, ["scripts/bootstrap.mjs", "scripts/start.ts", "--name", name, ...words], {
    cwd: root,
    env: {
      ...process.env,
      TENANCY_LISTEN: listen,
      TENANCY_OPERATOR_LISTEN: "127.0.0.1:0",
      TENANCY_EDGE_METRICS_LISTEN: "127.0.0.1:0",
      TENANCY_PROXY_LISTEN: "127.0.0.1:0",
      // A registry of its own and the builder's image would be brought beside the test.
      TENANCY_REGISTRY: "registry.invalid/built",
      ...env,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  child.stdout.on("data", (chunk) => (output += chunk));
  child.stderr.on("data", (chunk) => (output += chunk));
  await untilReady(child, () => output);
  const kubeconfigPath = /KUBECONFIG=(\S+)/.exec(output)?.[1] ?? "";
  const url = `http://${listen}`;
  async function call(method: string, path: string, body?: unknown): Promise<Answer> {
    const from = performance.now();
    const response = await fetch(`${url}/api/v1${path}`, {
      method,
      ...(body !== undefined && { body: JSON.stringify(body), headers: { "content-type": "application/json" } }),
    }).catch(async (error: Error) => {
      const seconds = ((performance.now() - from) / 1000).toFixed(1);
      // If the edge has ended, npm start says so soon.
      await new Promise((resolve) => setTimeout(resolve, 5000));
      // Of itself it says "fetch failed".
      const why = `${String(error.cause)} after ${seconds} s`;
      throw new Error(`${method} ${path}: ${why}\n${output.slice(-2000)}`, { cause: error });
    });
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  }
  return {
    ...{ url, call },
    claim: (tenant, body) => patiently(() => call("POST", `/tenants/${tenant}/claim`, body)),
    release: (tenant, workload) =>
      untilReleased(() => call("POST", `/tenants/${tenant}/release?wait=true`, { workload })),
    kubeconfigPath,
    output: () => output,
    async kubectl(...commandArguments) {
      const { stdout } = await promisify(execFile)(await findKubectl(), [
        "--kubeconfig",
        kubeconfigPath,
        "-n",
        "tenancy",
        ...commandArguments,
      ]);
      return stdout;
    },
    pidOf(words) {
      const processes = listProcesses();
      const parents = new Map(processes.map(({ pid, parent }) => [pid, parent]));
      const isOwn = (pid: number): boolean => pid === child.pid || (pid > 1 && isOwn(parents.get(pid) ?? 0));
      const found = processes.find(({ pid, command }) => pid !== child.pid && command.includes(words) && isOwn(pid));
      if (found !== undefined) return found.pid;
      throw new Error(`no process of npm start runs ${words}:\n${processes.map(({ command }) => command).join("\n")}`);
    },
    interrupt() {
      if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve(child.exitCode);
      return new Promise((resolve, reject) => {
        const timer = setTimeout(
          () => reject(new Error(`npm start has not stopped after ${STOP_LIMIT_MS / 1000} s:\n${output}`)),
          STOP_LIMIT_MS,
        );
        child.once("exit", (code) => {
          clearTimeout(timer);
          resolve(code);
        });
        child.kill("SIGINT");
      });
    },
  };
}

function untilReady(child: ChildProcess, output: () => string): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => end(() => reject(new Error(`npm start is not ready:\n${output()}`))),
      START_LIMIT_MS,
    );
    child.once("exit", onExit);
    child.stdout?.on("data", onData);
    function onExit(code: number | null): void {
      end(() => reject(new Error(`npm start ended with ${code}:\n${output()}`)));
    }
    function onData(): void {
      if (/^ready in /m.test(output())) end(resolve);
    }
    function end(settle: () => void): void {
      clearTimeout(timer);
      child.off("exit", onExit);
      child.stdout?.off("data", onData);
      settle();
    }
  });
}
