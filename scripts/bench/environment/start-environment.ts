import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isAlreadyExists } from "../../../crds/client/api-error.ts";
import { namespaces } from "../../../crds/client/built-in-resources.ts";
import { type ClusterClient, createClusterClient } from "../../../crds/client/cluster-client.ts";
import { loadClusterConfig } from "../../../crds/client/config/load-cluster-config.ts";
import { createTransport } from "../../../crds/client/transport.ts";
import type { ProcessIdentity } from "../../cluster/process/process-identity.ts";
import { undoAll } from "../../cluster/process/undo-all.ts";
import { installKinds } from "../../start/install-kinds.ts";
import { createLoadClient, type LoadClient } from "../load/load-client.ts";
import { type MeasuredProgram, programMetricsUsage } from "./measured-program.ts";
import { startEdge, startOperator } from "./start-programs.ts";
import { type ProgramUsage, processUsage } from "./usage.ts";

/** A cluster with operator and edge in separate processes, and what a bench does with them. */
export interface BenchEnvironment {
  /** Of Kubernetes, such as `v1.34.10`. */
  readonly version: string;
  readonly kubeconfigPath: string;
  /** Of the API server. */
  readonly serverPort: number;
  /** The folder for logs and profiles, which is deleted with the environment. */
  readonly folder: string;
  /** The bench's own calls to the API server. */
  readonly client: ClusterClient;
  readonly edge: LoadClient;
  readonly edgeUrl: string;
  /** The current operator. */
  operator(): MeasuredProgram;
  readonly edgeProgram: MeasuredProgram;
  /** Replaces the operator by a new one, and returns that without waiting until it is ready. */
  restartOperator(): Promise<MeasuredProgram>;
  /** The usage of every program so far, by name. */
  usage(): Promise<Record<string, ProgramUsage>>;
  stop(): Promise<void>;
}

/** The namespace of operator and edge. */
export const NAMESPACE = "tenancy";

/** The namespace of the bare calls, so that the operator does not act on their objects. */
export const FLOOR_NAMESPACE = "bench-floor";

/** The number of claims in a burst, so that none of them waits for a connection. */
const CONNECTIONS = 320;

/** Starts operator and edge on a running cluster, and waits until both are ready. */
export async function startEnvironment(options: {
  version: string;
  kubeconfigPath: string;
  /** The cluster's own processes, by name. */
  clusterProcesses: () => Readonly<Record<string, ProcessIdentity>>;
  bundle: string;
  /** More of the operator's environment. */
  operatorSettings?: Readonly<Record<string, string>>;
  profileFolder?: string | undefined;
  signal: AbortSignal;
}): Promise<BenchEnvironment> {
  const { version, kubeconfigPath, bundle, operatorSettings = {}, profileFolder, signal } = options;
  const folder = mkdtempSync(join(tmpdir(), "tenancy-bench-"));
  const undo: (() => unknown)[] = [() => rmSync(folder, { recursive: true, force: true })];
  try {
    return await start();
  } catch (error) {
    await undoAll(undo);
    throw error;
  }

  async function start(): Promise<BenchEnvironment> {
    if (profileFolder !== undefined) mkdirSync(profileFolder, { recursive: true });
    const config = await loadClusterConfig({ kubeconfigPath });
    const transport = createTransport({ config, role: "bench" });
    undo.push(() => transport.close());
    const client = createClusterClient({ transport });
    await installKinds({ client, namespace: NAMESPACE, signal });
    await client.create(namespaces, { metadata: { name: FLOOR_NAMESPACE } }).catch((error: unknown) => {
      if (!isAlreadyExists(error)) throw error;
    });
    const common = { kubeconfigPath, folder, profileFolder, signal };
    let operator = await startOperator({ ...common, bundle, settings: operatorSettings });
    undo.push(() => operator.stop());
    const edgeProgram = await startEdge(common);
    undo.push(() => edgeProgram.stop());
    await Promise.all([operator.ready, edgeProgram.ready]);
    const edge = createLoadClient({ url: edgeProgram.url });
    undo.push(() => edge.close());
    await edge.open(CONNECTIONS);
    return {
      version,
      kubeconfigPath,
      serverPort: Number(new URL(config.server).port),
      folder,
      client,
      edge,
      edgeUrl: edgeProgram.url,
      edgeProgram,
      operator: () => operator,
      async restartOperator() {
        await operator.stop();
        operator = await startOperator({ ...common, bundle, settings: operatorSettings });
        return operator;
      },
      async usage() {
        const { user, system } = process.cpuUsage();
        const bench: ProgramUsage = { cpuMs: (user + system) / 1000, rssMb: process.memoryUsage.rss() / 2 ** 20 };
        const others = Object.entries(options.clusterProcesses());
        return {
          operator: await programMetricsUsage(operator),
          edge: await programMetricsUsage(edgeProgram),
          ...Object.fromEntries(others.map(([name, { pid }]) => [name, processUsage(pid)])),
          bench,
        };
      },
      stop: () => undoAll(undo),
    };
  }
}
