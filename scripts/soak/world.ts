import { undoAll } from "../cluster/process/undo-all.ts";
import { waitUntil } from "../cluster/process/wait-until.ts";
import { FILES_FOLDER } from "./cluster/pod-files.ts";
import type { SoakCluster } from "./cluster/soak-cluster.ts";
import type { FaultProxy } from "./faults/fault-proxy.ts";
import type { FaultTargets } from "./faults/faults.ts";
import { GUARDED, guardedSpec, SMALL } from "./faults/fences.ts";
import { makeFleeting } from "./faults/people.ts";
import { expect, type History } from "./history.ts";
import { APP_IMAGE, IDLE, IDLE_SECONDS, INPUTS_FILE, POOLS_PATH, STARTED, TOLD, WORKLOADS_PATH } from "./objects.ts";
import { type OperatedClusterOptions, START_LIMIT_MS, startOperators } from "./operators.ts";
import { startEdge } from "./programs.ts";
import { followCheckpoints } from "./stored-checkpoints.ts";
import type { Counts } from "./trace.ts";

/** A cluster with our programs, each behind its own proxy, and the checker that watches. */
export interface World extends FaultTargets {
  readonly cluster: SoakCluster;
  readonly edgeUrls: readonly string[];
  /** Waits until the edges serve, which is some time after their start. @throws Error after two minutes */
  untilServing(): Promise<void>;
  readonly history: History;
  stop(): Promise<void>;
}

const OPERATORS = ["operator-1", "operator-2"];
const EDGES = ["edge-1", "edge-2"];
/** Sessions are short, and their pods are lost soon. */
const CHECKPOINT_SECONDS = 4;
const FILES = {
  ...{ image: { ref: APP_IMAGE }, resources: SMALL, network: { ports: [8080] } },
  filesystem: { overlayDirs: [FILES_FOLDER], checkpointSeconds: CHECKPOINT_SECONDS },
};
// Kept by a container that starts again.
const NOTE_CLAIM = `cd /run/tenancy/claim && { cat env.json && { [ ! -e secrets/TOKEN ] || cat secrets/TOKEN; } } > ${INPUTS_FILE}.$$ &&
mv ${INPUTS_FILE}.$$ ${INPUTS_FILE}`;
const NOTE_START = `echo "$TOKEN" > ${INPUTS_FILE}; exec busybox httpd -f -p 8080 -h /data`;
const WORKLOADS: Readonly<Record<string, object>> = {
  c: FILES,
  "b-c": FILES,
  cold: FILES,
  [IDLE]: { ...FILES, idle: { timeoutSeconds: IDLE_SECONDS } },
  [GUARDED]: guardedSpec(false),
  [TOLD]: {
    ...FILES,
    entrypoint: { onClaim: { exec: { command: ["/bin/busybox", "sh", "-c", NOTE_CLAIM] }, timeoutSeconds: 20 } },
  },
  [STARTED]: { ...FILES, entrypoint: { start: "OnClaim", cmd: "/bin/busybox", args: ["sh", "-c", NOTE_START] } },
};

/** Starts everything, with workloads and pools. The caller stops it. */
export async function startWorld(options: OperatedClusterOptions & { counts: Counts }): Promise<World> {
  const { tree, trace, counts } = options;
  const undo: (() => unknown)[] = [];
  try {
    return await start();
  } catch (error) {
    await undoAll(undo);
    throw error;
  }

  async function start(): Promise<World> {
    const operated = await startOperators({
      ...{ ...options, names: OPERATORS, areIntervalsShort: true },
      onStop: (step) => undo.push(step),
    });
    const { cluster, objects, startProxy, onEnd, ...targets } = operated;
    const { checker, history } = targets;
    undo.push(followCheckpoints({ cluster, objects, checker, history, onTrouble: options.onTrouble }).stop);
    const edges: { program: Awaited<ReturnType<typeof startEdge>>; proxy: FaultProxy }[] = [];
    for (const name of EDGES) {
      const proxy = await startProxy(name);
      const program = await startEdge({
        name,
        folder: trace.folder,
        tree,
        onEnd,
        kubeconfigPath: proxy.kubeconfigPath,
        environment: { ...cluster.environment, ...objects?.environment(proxy.url) },
      });
      undo.push(() => program.kill());
      edges.push({ program, proxy });
    }
    await makeWorkloads(cluster);
    const untilServing = async (): Promise<void> => {
      for (const { program } of edges) {
        await waitUntil(() => isServing(program.url), {
          ...{ what: `${program.name} to answer`, limitMs: START_LIMIT_MS, intervalMs: 200, explain: program.logTail },
        });
      }
    };
    await untilServing();
    return {
      ...{ ...targets, cluster, objects, counts, edges, edgeUrls: edges.map(({ program }) => program.url) },
      ...{ untilServing, stop: () => undoAll(undo) },
    };
  }
}

async function makeWorkloads({ api, poolSizes }: SoakCluster): Promise<void> {
  const make = (path: string, kind: string, name: string, spec: object): Promise<string> =>
    expect(api, "POST", path, { apiVersion: "tenancy.dev/v1alpha1", kind, metadata: { name }, spec });
  for (const [name, spec] of Object.entries(WORKLOADS)) await make(WORKLOADS_PATH, "TenancyWorkload", name, spec);
  for (const [name, size] of Object.entries(poolSizes))
    await make(POOLS_PATH, "TenancyPool", name, { workloadRef: name, size });
  await makeFleeting(api);
}

async function isServing(url: string): Promise<boolean> {
  try {
    const response = await fetch(`${url}/api/v1/workloads`, { signal: AbortSignal.timeout(5000) });
    const { length } = JSON.stringify(await response.json());
    return response.ok && length > 2;
  } catch {
    // Not listening yet; the time limit of the wait reports a longer delay.
    return false;
  }
}
