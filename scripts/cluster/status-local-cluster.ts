import { join } from "node:path";
import { REGISTRY } from "./builds/registry.ts";
import { readClusterState } from "./cluster-state.ts";
import { clusterFolder } from "./folders.ts";
import { createApiClient } from "./kubernetes/api-client.ts";
import type { Policies } from "./policies/find-engine.ts";
import { isRunning } from "./process/process-identity.ts";

export interface LocalClusterStatus {
  readonly name: string;
  readonly kind: "control-plane" | "complete";
  readonly version: string;
  readonly server: string;
  readonly kubeconfigPath: string;
  readonly processes: readonly { readonly name: string; readonly pid: number; readonly running: boolean }[];
  /** Whether everything runs and the API server is ready. */
  readonly ready: boolean;
  /** Of a complete cluster. */
  readonly policies?: Policies;
}

/** Returns the state of a cluster, or undefined if there is none of that name. */
export async function statusLocalCluster({ name }: { name: string }): Promise<LocalClusterStatus | undefined> {
  const folder = clusterFolder(name);
  const state = readClusterState(folder);
  if (state === undefined) return undefined;
  const { kind, version, server } = state;
  const kubeconfigPath = join(folder, "kubeconfig");
  const processes = state.processes.map((process) => ({
    name: process.name,
    pid: process.identity.pid,
    running: isRunning(process.identity),
  }));
  // The registry does not count: pods continue without it, and it can be started again separately.
  const needed = processes.filter((process) => process.name !== REGISTRY);
  const complete = needed.length > 0 && needed.every(({ running }) => running);
  const ready = complete && (await answersReady(kubeconfigPath));
  const policies = state.policies && { policies: state.policies };
  return { name, kind, version, server, kubeconfigPath, processes, ready, ...policies };
}

async function answersReady(kubeconfigPath: string): Promise<boolean> {
  const client = createApiClient(kubeconfigPath);
  try {
    return (await client.call({ method: "GET", path: "/readyz", limitMs: 15_000 })).status === 200;
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? "";
    if (["ECONNREFUSED", "ECONNRESET", "ETIMEDOUT"].includes(code)) return false;
    throw error;
  } finally {
    client.close();
  }
}
