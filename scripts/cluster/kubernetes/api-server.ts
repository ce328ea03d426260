import { totalmem } from "node:os";
import { join } from "node:path";
import { recordProcess } from "../cluster-state.ts";
import type { Authority, IssuedCertificate } from "../pki/authority.ts";
import type { ServiceAccountKeys } from "../pki/cluster-keys.ts";
import { logTail } from "../process/log-tail.ts";
import { type Program, startProgram } from "../process/start-program.ts";
import { waitUntil } from "../process/wait-until.ts";
import { createApiClient } from "./api-client.ts";
import { versionAtLeast } from "./version-at-least.ts";

export interface ApiServerOptions {
  /** The cluster's folder. */
  folder: string;
  command: string;
  kubeconfigPath: string;
  lifetime: "parent" | "detached";
  flags: Omit<ApiServerFlagsOptions, "folder">;
  /** Come after the others, so they win, as in `--watch-cache=false`. */
  extraFlags?: readonly string[];
  /** Answers with 200 when it is ready enough. @default /readyz */
  readyPath?: string;
}

const START_LIMIT_MS = 120_000;

/**
 * Starts an API server on loopback and waits until it says that it is ready.
 *
 * @throws Error with the end of its log when it ends or does not become ready
 */
export async function startApiServer(options: ApiServerOptions): Promise<Program> {
  const program = await startProgram({
    name: "kube-apiserver",
    command: options.command,
    arguments: [...apiServerFlags({ ...options.flags, folder: options.folder }), ...(options.extraFlags ?? [])],
    logPath: join(options.folder, "log", "kube-apiserver.log"),
    lifetime: options.lifetime,
    // It keeps the events of the last minutes: 450 MB at 45 claims a second, which Go would go through every 4 s, for a
    // second and more with two cores. At 100 a second that would be 4 GB of memory after two minutes.
    environment: { GOGC: "400", GOMEMLIMIT: String(Math.floor(totalmem() / 4)), ...process.env },
  });
  recordProcess(options.folder, program);
  await untilApiServer(program, { kubeconfigPath: options.kubeconfigPath, path: options.readyPath ?? "/readyz" });
  return program;
}

/**
 * Waits until a path of the API server answers with 200.
 *
 * @throws Error with the end of its log when it ends, or the time is over
 */
export async function untilApiServer(
  program: Program,
  { kubeconfigPath, path }: { kubeconfigPath: string; path: string },
): Promise<void> {
  const client = createApiClient(kubeconfigPath);
  try {
    await waitUntil(
      async () => {
        const ending = program.ending();
        if (ending !== undefined) {
          throw new Error(`Cannot start kube-apiserver: ${ending}\n${logTail(program.logPath)}`);
        }
        return (await readiness(client, path)) === 200;
      },
      {
        what: `kube-apiserver to be ready (${path})`,
        limitMs: START_LIMIT_MS,
        intervalMs: 30,
        explain: () => logTail(program.logPath),
      },
    );
  } finally {
    client.close();
  }
}

async function readiness(client: ReturnType<typeof createApiClient>, path: string): Promise<number> {
  try {
    return (await client.call({ method: "GET", path, limitMs: 3000 })).status;
  } catch (error) {
    // Not listening yet, or too busy; the time limit of the wait reports a longer delay.
    const code = (error as NodeJS.ErrnoException).code ?? "";
    if (["ECONNREFUSED", "ECONNRESET", "ETIMEDOUT"].includes(code)) return 0;
    throw error;
  }
}

interface ApiServerFlagsOptions {
  version: string;
  folder: string;
  port: number;
  etcdUrl: string;
  authority: Authority;
  server: IssuedCertificate;
  admin: IssuedCertificate;
  serviceAccounts: ServiceAccountKeys;
  tokensPath: string;
  /** Prefix of a /16, such as `10.96`. */
  serviceNetwork: string;
  /** Whether a kubelet and the controllers are there too. */
  complete: boolean;
}

/** Returns the command line of an API server on loopback, for the given version of Kubernetes. */
function apiServerFlags(options: ApiServerFlagsOptions): string[] {
  const { version, authority, server, admin, serviceAccounts } = options;
  return [
    `--etcd-servers=${options.etcdUrl}`,
    "--bind-address=127.0.0.1",
    `--secure-port=${options.port}`,
    ...(versionAtLeast(version, "1.24") ? [] : ["--insecure-port=0"]),
    `--cert-dir=${options.folder}`,
    `--tls-cert-file=${server.certificatePath}`,
    `--tls-private-key-file=${server.keyPath}`,
    `--client-ca-file=${authority.certificatePath}`,
    `--token-auth-file=${options.tokensPath}`,
    `--service-account-key-file=${serviceAccounts.publicKeyPath}`,
    `--service-account-signing-key-file=${serviceAccounts.privateKeyPath}`,
    "--service-account-issuer=https://kubernetes.default.svc",
    `--service-cluster-ip-range=${options.serviceNetwork}.0.0/16`,
    `--authorization-mode=${options.complete ? "Node,RBAC" : "RBAC"}`,
    "--allow-privileged",
    // Without the controllers there are no service accounts, which this plugin requires for every pod.
    options.complete ? "--enable-admission-plugins=NodeRestriction" : "--disable-admission-plugins=ServiceAccount",
    `--kubelet-client-certificate=${admin.certificatePath}`,
    `--kubelet-client-key=${admin.keyPath}`,
    // Otherwise exec and logs look the node's name up in DNS.
    "--kubelet-preferred-address-types=InternalIP",
    "--endpoint-reconciler-type=none",
    // Unused then; without it the server looks for a default route, and exits if there is no network.
    "--advertise-address=127.0.0.1",
    // A single user on a small machine: fair queuing costs more than it protects.
    "--enable-priority-and-fairness=false",
    "--max-requests-inflight=3000",
    "--max-mutating-requests-inflight=1500",
    "--profiling=false",
  ];
}
