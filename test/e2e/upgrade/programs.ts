import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { WorkloadSpec } from "../../../crds/workload.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import type { Backend } from "./balancer.ts";

const root = join(import.meta.dirname, "..", "..", "..");
const LIMIT_MS = 120_000;

/** An operator or an edge of either version, as a process that runs its bundle. */
export interface RunningProgram extends Backend {
  readonly name: string;
  /** Asks it to stop as the kubelet does; resolves when it has, with its exit code. */
  stop(): Promise<number | string>;
  kill(): void;
}

/** Starts a bundle and waits until it is ready. @throws Error with what it printed where it ends instead */
export async function startProgram(
  name: string,
  { runtime, bundle, env }: { runtime: "node" | "bun"; bundle: string; env: Record<string, string> },
): Promise<RunningProgram> {
  const command = runtime === "node" ? process.execPath : join(root, "node_modules/.bin/bun");
  const child = spawn(command, [bundle], {
    env: {
      PATH: process.env.PATH ?? "",
      HOME: process.env.HOME ?? "",
      TENANCY_LOG_LEVEL: "info",
      TENANCY_LEASE_SECONDS: "5",
      TENANCY_LISTEN: "127.0.0.1:0",
      TENANCY_EDGE_METRICS_LISTEN: "127.0.0.1:0",
      TENANCY_OPERATOR_LISTEN: "127.0.0.1:0",
      ...env,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const exited = endOf(child);
  const listening = new Promise<{ url?: string; metricsUrl?: string; metrics?: string }>((resolve) => {
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on("line", (line) => {
        if (/"(edge listening|operator started)"/.test(line)) resolve(JSON.parse(line));
        // Shown where a test fails.
        if (!/"level":"?(info|30)/.test(line)) console.log(`${name}: ${line}`);
      });
    }
  });
  const first = await Promise.race([listening, exited]);
  if (typeof first !== "object") throw new Error(`${name} ended with ${first}`);
  const readyUrl = `${first.metricsUrl ?? first.metrics}/readyz`;
  const isReady = async () => (await fetch(readyUrl).catch(() => undefined))?.status === 200;
  await waitUntil(isReady, { what: `${name} to be ready`, limitMs: LIMIT_MS });
  return {
    name,
    url: first.url ?? "",
    readyUrl,
    stop() {
      child.kill("SIGTERM");
      return exited;
    },
    kill: () => void child.kill("SIGKILL"),
  };
}

function endOf(child: ChildProcess): Promise<number | string> {
  return new Promise((resolve) => child.once("close", (code, signal) => resolve(code ?? signal ?? "unknown")));
}

/** Serves HTTP by a script of the shell for each request, which has `$method`, `$path` and `$length` of a body. */
function serve(script: string): NonNullable<WorkloadSpec["entrypoint"]> {
  const head = `
    read -r method path version
    length=0
    while read -r name value && [ "$name" != "$(printf '\\r')" ]; do
      case $name in [Cc]ontent-[Ll]ength:) length=\${value%?} ;; esac
    done
    answer() { printf 'HTTP/1.1 200 OK\\r\\nconnection: close\\r\\ncontent-length: %s\\r\\n\\r\\n' "$1"; }`;
  // Process 1 ends by a signal only when it handles it.
  const listen = `trap 'kill $server; exit 0' TERM; nc -ll -p 8080 -e /bin/sh -c "$0" & server=$!; wait $server`;
  return { cmd: "/bin/busybox", args: ["sh", "-c", listen, `${head}\n${script}`] };
}

/** Keeps what is PUT below `/` in the folder that releases save, lists it at `/`, and gives each back. */
export const filesProgram = serve(`
  cd /data
  if [ "$method" = PUT ]; then head -c "$length" > ".part\${path#/}" && mv ".part\${path#/}" "./$path"; answer 0
  elif [ "$path" = / ]; then list=$(ls); answer "\${#list}"; printf %s "$list"
  else answer "$(wc -c < "./$path")"; cat "./$path"
  fi`);

/** Answers a POST with the container's name and the body, and tells at `/` every body that it was sent. */
export const noteProgram = serve(`
  if [ "$method" = POST ]; then body=$(head -c "$length"); echo "$body" >> /dev/shm/seen; text="$HOSTNAME $body"
  else text="$HOSTNAME $(cat /dev/shm/seen 2> /dev/null)"
  fi
  answer "$(printf %s "$text" | wc -c)"
  printf %s "$text"`);
