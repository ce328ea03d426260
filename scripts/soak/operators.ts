import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
import type { ApiClient } from "../cluster/kubernetes/api-client.ts";
import type { Log } from "../cluster/log.ts";
import { waitUntil } from "../cluster/process/wait-until.ts";
import { bundleOperator } from "../start/bundle-programs.ts";
import { type Checker, createChecker, type Violation } from "./checker.ts";
import { startContainerCluster } from "./cluster/container-cluster.ts";
import { startSoakObjects } from "./cluster/object-storage.ts";
import { startSimulatedCluster } from "./cluster/simulated-cluster.ts";
import type { SoakCluster } from "./cluster/soak-cluster.ts";
import { decisionsOf } from "./decisions.ts";
import { type FaultProxy, startFaultProxy, type Tap } from "./faults/fault-proxy.ts";
import type { FaultTargets } from "./faults/faults.ts";
import { expect, followHistory, type History } from "./history.ts";
import { NAMESPACE } from "./objects.ts";
import { startOperator } from "./programs.ts";
import { allowShortIntervals, allowShortIntervalsIn } from "./short-intervals.ts";
import type { Trace } from "./trace.ts";

/** A cluster with operators, each behind its own proxy, and the checker that watches them. */
export interface OperatedCluster extends Omit<FaultTargets, "edges" | "counts"> {
  readonly cluster: SoakCluster;
  readonly history: History;
  startProxy(name: string): Promise<FaultProxy>;
  /** Called when a program has ended by itself. */
  onEnd(name: string, how: string): void;
}

export interface OperatedClusterOptions {
  tree: string;
  /** Real pods instead of simulated ones. */
  isContainers: boolean;
  seed: number;
  trace: Trace;
  log: Log;
  onViolation(violation: Violation): void;
  onTrouble(error: unknown): void;
}

export const START_LIMIT_MS = 120_000;

/**
 * Starts the cluster and the operators.
 *
 * @param options.names of the operators
 * @param options.environment additional environment variables
 * @param options.areIntervalsShort whether workloads may have checkpoints at shorter intervals than the product allows
 * @param options.tap sees the traffic of the operators
 * @param options.onStop registers what to do at the end, in reverse order; it is also done if the start fails
 */
export async function startOperators(
  options: OperatedClusterOptions & {
    names: readonly string[];
    environment?: Readonly<Record<string, string>>;
    areIntervalsShort?: boolean;
    tap?: Tap;
    onStop(step: () => unknown): void;
  },
): Promise<OperatedCluster> {
  const { tree, isContainers, seed, trace, log, onViolation, onTrouble, onStop, areIntervalsShort = false } = options;
  const bundled = await bundleOperator(tree);
  const bundle = areIntervalsShort ? allowShortIntervals(bundled, trace.folder) : bundled;
  const startCluster = isContainers ? startContainerCluster : startSimulatedCluster;
  const cluster = await startCluster({ seed, tree, log, onTrouble, onStop });
  const { api, kubeconfigPath, pods } = cluster;
  const objects = isInObjects(seed) ? await startSoakObjects({ log, onStop }) : undefined;
  await installKinds(api, { folder: join(tree, "crds"), areIntervalsShort });
  await cluster.prepare?.();
  const checker: Checker = createChecker({ trace, contentOf: pods.content, onViolation });
  const history = await followHistory({ api, onChange: checker.onChange, onTrouble });
  onStop(() => history.stop());

  const startProxy = async (name: string, tap?: Tap): Promise<FaultProxy> => {
    const decisions = decisionsOf(seed, `proxy of ${name}`);
    const { onExec, helperPort } = cluster;
    const proxy = await startFaultProxy({ name, kubeconfigPath, decisions, onExec, helperPort, objects, tap });
    onStop(() => proxy.close());
    return proxy;
  };
  const onEnd = (name: string, how: string): void => {
    checker.violate("programs run", `${name} ended by itself: ${how}`, [name]);
  };
  const operators: FaultTargets["operators"][number][] = [];
  for (const name of options.names) {
    const proxy = await startProxy(name, options.tap);
    const program = await startOperator({
      name,
      folder: trace.folder,
      bundle,
      onEnd,
      kubeconfigPath: proxy.kubeconfigPath,
      environment: { ...cluster.environment, ...objects?.environment(proxy.url), ...options.environment },
    });
    onStop(() => program.kill());
    operators.push({ program, proxy });
  }
  return { cluster, api, pods, objects, checker, history, trace, operators, startProxy, onEnd };
}

/** The store of the snapshots. */
function isInObjects(seed: number): boolean {
  return seed % 2 === 1;
}

async function installKinds(
  api: ApiClient,
  { folder, areIntervalsShort }: { folder: string; areIntervalsShort: boolean },
): Promise<void> {
  await expect(api, "POST", "/api/v1/namespaces", { metadata: { name: NAMESPACE } });
  for (const file of readdirSync(folder).filter((name) => name.endsWith(".yaml"))) {
    const text = readFileSync(join(folder, file), "utf8");
    const document: unknown = areIntervalsShort ? parse(text, allowShortIntervalsIn) : parse(text);
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
