import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { findBinaries } from "../../cluster/binaries.ts";
import { readClusterState } from "../../cluster/cluster-state.ts";
import { type ControlPlane, startControlPlane } from "../../cluster/control-plane.ts";
import type { Log } from "../../cluster/log.ts";
import { isPortFree } from "../../cluster/process/free-port.ts";
import { waitUntil } from "../../cluster/process/wait-until.ts";
import { CONTROL_PLANE_PROGRAMS } from "../../cluster/programs.ts";
import { AUDIT_POLICY } from "../audit-log.ts";
import { type BenchEnvironment, startEnvironment } from "./start-environment.ts";

/** An environment with simulated pods on a real API server and a real etcd. */
export interface SimulatedEnvironment extends BenchEnvironment {
  /** Restarts the API server so that it logs every request, and returns the path of that log. */
  startAudit(): Promise<string>;
}

// There is space for the objects of one large path and for the claims that all others leave. The pods have loopback
// addresses, where one program answers for all of them.
const NODES = { nodes: 20, podsPerNode: 1100, readyAfterMs: 50, podNetwork: "127.64" };

/** Starts a control plane with simulated nodes, and operator and edge on it. */
export async function startSimulatedEnvironment(options: {
  bundle: string;
  profileFolder?: string | undefined;
  log: Log;
  signal: AbortSignal;
}): Promise<SimulatedEnvironment> {
  const { bundle, profileFolder, log, signal } = options;
  const binaries = await findBinaries({ need: CONTROL_PLANE_PROGRAMS, log });
  const cluster = await startControlPlane({
    name: "bench",
    binaries,
    simulatedNodes: NODES,
    // A local cluster's is off.
    apiServerFlags: profileFolder === undefined ? [] : ["--profiling=true"],
    log,
  });
  try {
    const { version, kubeconfigPath } = cluster;
    const clusterProcesses = () => processesOf(cluster);
    const environment = await startEnvironment({
      version,
      kubeconfigPath,
      clusterProcesses,
      bundle,
      profileFolder,
      signal,
    });
    const { client } = environment;
    const endProfile = profileFolder && profileApiServer({ client, folder: profileFolder, log });
    return {
      ...environment,
      startAudit: () => startAudit(cluster),
      async stop() {
        try {
          if (endProfile) await endProfile();
          await environment.stop();
        } finally {
          await cluster.stop();
        }
      },
    };
  } catch (error) {
    await cluster.stop();
    throw error;
  }
}

function processesOf(cluster: ControlPlane) {
  const recorded = readClusterState(cluster.folder)?.processes ?? [];
  return Object.fromEntries(recorded.map(({ name, identity }) => [name, identity]));
}

const PROFILE_SECONDS = 5;

/**
 * Makes an API server write CPU profiles, one file after the other: `go tool pprof` adds them up.
 *
 * @returns a function that stops it; the current profile is lost
 */
function profileApiServer(options: { client: ClusterClient; folder: string; log: Log }): () => Promise<void> {
  const { client, folder, log } = options;
  const closing = new AbortController();
  const done = profile().catch((error: unknown) => {
    // When requests are counted, the API server is killed and restarted.
    if (!closing.signal.aborted) log(`no more profiles of the API server: ${(error as Error).message}`);
  });
  return () => {
    closing.abort();
    return done;
  };

  async function profile(): Promise<void> {
    const path = `/debug/pprof/profile?seconds=${PROFILE_SECONDS}`;
    for (let index = 1; ; index++) {
      const accept = "application/octet-stream";
      const { body } = await client.request({ method: "GET", path, accept, signal: closing.signal });
      writeFileSync(join(folder, `kube-apiserver-${String(index).padStart(3, "0")}.pb.gz`), body);
    }
  }
}

async function startAudit(cluster: ControlPlane): Promise<string> {
  const policyPath = join(cluster.folder, "audit-policy.yaml");
  const logPath = join(cluster.folder, "audit.log");
  writeFileSync(policyPath, AUDIT_POLICY);
  // Killed, since a graceful stop waits seconds for open watches.
  await cluster.apiServer.kill();
  const port = Number(new URL(cluster.server).port);
  // A process of many threads shows as ended before the last of them has let go of the port.
  await waitUntil(() => isPortFree(port), { what: `port ${port} to be free`, limitMs: 10_000, intervalMs: 10 });
  const flags = [`--audit-policy-file=${policyPath}`, `--audit-log-path=${logPath}`, "--audit-log-mode=blocking"];
  await cluster.apiServer.start({ extraFlags: flags });
  return logPath;
}
