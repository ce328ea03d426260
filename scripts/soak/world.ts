import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import type { ApiClient } from "../cluster/kubernetes/api-client.ts";
import type { Log } from "../cluster/log.ts";
import { undoAll } from "../cluster/process/undo-all.ts";
import { waitUntil } from "../cluster/process/wait-until.ts";
import { bundleOperator } from "../start/bundle-programs.ts";
import { type Checker, createChecker, type Violation } from "./checker.ts";
import { startContainerCluster } from "./cluster/container-cluster.ts";
import { startSoakObjects } from "./cluster/object-storage.ts";
import { FILES_FOLDER } from "./cluster/pod-files.ts";
import { startSimulatedCluster } from "./cluster/simulated-cluster.ts";
import type { SoakCluster } from "./cluster/soak-cluster.ts";
import { decisionsOf } from "./decisions.ts";
import { type FaultProxy, startFaultProxy } from "./faults/fault-proxy.ts";
import type { FaultTargets } from "./faults/faults.ts";
import { GUARDED, guardedSpec, SMALL } from "./faults/fences.ts";
import { expect, followHistory, type History } from "./history.ts";
import { APP_IMAGE, NAMESPACE, POOLS_PATH, WORKLOADS_PATH } from "./objects.ts";
import { startEdge, startOperator } from "./programs.ts";
import type { Counts, Trace } from "./trace.ts";

/** A cluster with our programs on it, each behind a proxy of its own, and the checker that looks on. */
export interface World extends FaultTargets {
  readonly cluster: SoakCluster;
  readonly edgeUrl: string;
  /** Waits until the edge serves, as it does some time after its start. @throws Error after two minutes */
  untilServing(): Promise<void>;
  readonly history: History;
  stop(): Promise<void>;
}

const OPERATORS = ["operator-1", "operator-2"];
const START_LIMIT_MS = 120_000;
const FILES = {
  ...{ image: { ref: APP_IMAGE }, resources: SMALL, network: { ports: [8080] } },
  filesystem: { overlayDirs: [FILES_FOLDER] },
};
const WORKLOADS: Readonly<Record<string, object>> = {
  c: FILES,
  "b-c": FILES,
  cold: FILES,
  [GUARDED]: guardedSpec(false),
};

/** Starts all of it, with workloads and pools; whoever starts it stops it. */
export async function startWorld(options: {
  tree: string;
  /** Real ones instead of simulated pods. */
  isContainers: boolean;
  seed: number;
  trace: Trace;
  counts: Counts;
  log: Log;
  onViolation(violation: Violation): void;
  onTrouble(error: unknown): void;
}): Promise<World> {
  const { tree, isContainers, seed, trace, counts, log, onViolation, onTrouble } = options;
  const undo: (() => unknown)[] = [];
  try {
    return await start();
  } catch (error) {
    await undoAll(undo);
    throw error;
  }

  async function start(): Promise<World> {
    const bundle = await bundleOperator(tree);
    const startCluster = isContainers ? startContainerCluster : startSimulatedCluster;
    const cluster = await startCluster({ seed, tree, log, onTrouble, onStop: (step) => undo.push(step) });
    const { api, kubeconfigPath, pods } = cluster;
    const objects = isInObjects(seed) ? await startSoakObjects({ log, onStop: (step) => undo.push(step) }) : undefined;
    await installKinds(api, join(tree, "crds"));
    await cluster.prepare?.();
    const checker: Checker = createChecker({ trace, contentOf: pods.content, onViolation });
    const history = await followHistory({ api, onChange: checker.onChange, onTrouble });
    undo.push(() => history.stop());

    const proxyFor = async (name: string): Promise<FaultProxy> => {
      const decisions = decisionsOf(seed, `proxy of ${name}`);
      const { onExec, helperPort } = cluster;
      const proxy = await startFaultProxy({ name, kubeconfigPath, decisions, onExec, helperPort, objects });
      undo.push(() => proxy.close());
      return proxy;
    };
    const onEnd = (name: string, how: string): void => {
      checker.violate("programs run", `${name} ended by itself: ${how}`, [name]);
    };
    const operators: FaultTargets["operators"][number][] = [];
    for (const name of OPERATORS) {
      const proxy = await proxyFor(name);
      const program = await startOperator({
        name,
        folder: trace.folder,
        bundle,
        onEnd,
        kubeconfigPath: proxy.kubeconfigPath,
        environment: { ...cluster.environment, ...objects?.environment(proxy.url) },
      });
      undo.push(() => program.kill());
      operators.push({ program, proxy });
    }
    const edgeProxy = await proxyFor("edge");
    const edge = await startEdge({
      name: "edge",
      folder: trace.folder,
      tree,
      onEnd,
      kubeconfigPath: edgeProxy.kubeconfigPath,
      environment: { ...cluster.environment, ...objects?.environment(edgeProxy.url) },
    });
    undo.push(() => edge.kill());
    await makeWorkloads(cluster);
    const untilServing = async (): Promise<void> => {
      await waitUntil(() => isServing(edge.url), {
        ...{ what: "the edge to answer", limitMs: START_LIMIT_MS, intervalMs: 200, explain: edge.logTail },
      });
    };
    await untilServing();
    const targets = {
      operators,
      edge: { program: edge, proxy: edgeProxy },
      pods,
      objects,
      checker,
      api,
      trace,
      counts,
    };
    return { ...targets, cluster, edgeUrl: edge.url, untilServing, history, stop: () => undoAll(undo) };
  }
}

/** Which of the two stores snapshots are kept in. */
function isInObjects(seed: number): boolean {
  return seed % 2 === 1;
}

async function installKinds(api: ApiClient, folder: string): Promise<void> {
  await expect(api, "POST", "/api/v1/namespaces", { metadata: { name: NAMESPACE } });
  for (const file of readdirSync(folder).filter((name) => name.endsWith(".yaml"))) {
    const document: unknown = parse(readFileSync(join(folder, file), "utf8"));
    await expect(api, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", document);
  }
  const kinds = ["tenancyclaims", "tenancyworkloads", "tenancypools", "tenancytriggers"];
  await waitUntil(
    async () => {
      const paths = kinds.map((plural) => `/apis/tenancy.dev/v1alpha1/${plural}`);
      const answers = await Promise.all(paths.map((path) => api.call({ method: "GET", path })));
      return answers.every(({ status }) => status === 200);
    },
    { what: "the four kinds to be served", limitMs: START_LIMIT_MS },
  );
}

async function makeWorkloads({ api, poolSizes }: SoakCluster): Promise<void> {
  const make = (path: string, kind: string, name: string, spec: object): Promise<string> =>
    expect(api, "POST", path, { apiVersion: "tenancy.dev/v1alpha1", kind, metadata: { name }, spec });
  for (const [name, spec] of Object.entries(WORKLOADS)) await make(WORKLOADS_PATH, "TenancyWorkload", name, spec);
  for (const [name, size] of Object.entries(poolSizes))
    await make(POOLS_PATH, "TenancyPool", name, { workloadRef: name, size });
}

async function isServing(url: string): Promise<boolean> {
  try {
    const response = await fetch(`${url}/api/v1/workloads`, { signal: AbortSignal.timeout(5000) });
    const { length } = JSON.stringify(await response.json());
    return response.ok && length > 2;
  } catch {
    // Not listening yet; the limit of the wait tells when that has gone on for too long.
    return false;
  }
}
