import type { BuildContexts } from "../../crds/builds/build-contexts.ts";
import type { Claim, ClaimStatus } from "../../crds/claim.ts";
import { events, leases, pods } from "../../crds/client/built-in-resources.ts";
import { type ClusterClient, createClusterClient } from "../../crds/client/cluster-client.ts";
import { loadClusterConfig } from "../../crds/client/config/load-cluster-config.ts";
import type { Exec } from "../../crds/client/exec/exec.ts";
import { createTransport, type RequestRecord } from "../../crds/client/transport.ts";
import { type Informer, startInformer } from "../../crds/client/watch/informer.ts";
import { HistoryError } from "../../crds/client/watch/listing.ts";
import { claims, pools, workloads } from "../../crds/kinds.ts";
import type { CoreEvent, KubernetesObject, Pod } from "../../crds/kubernetes.ts";
import { annotation, label } from "../../crds/labels.ts";
import { claimName } from "../../crds/names.ts";
import type { Pool } from "../../crds/pool.ts";
import type { Resource } from "../../crds/resource.ts";
import type { EventSink } from "../../crds/sink/event-sink.ts";
import type { Tracer } from "../../crds/tracing/tracer.ts";
import type { UsageStore } from "../../crds/usage/usage-store.ts";
import type { Workload, WorkloadSpec } from "../../crds/workload.ts";
import { type OperatorConfig, operatorConfig } from "../../operator/config.ts";
import { createMetrics } from "../../operator/metrics.ts";
import type { ReadImageConfig } from "../../operator/registry/read-image-config.ts";
import { RegistryError } from "../../operator/registry/registry-error.ts";
import type { Snapshots } from "../../operator/snapshots/snapshots.ts";
import { type Operator, startOperator } from "../../operator/start-operator.ts";
import type { ControlPlane } from "../../scripts/cluster/control-plane.ts";
import type { SimulatedNodesOptions } from "../../scripts/cluster/simulated/options.ts";
import { installKinds } from "../../scripts/start/install-kinds.ts";
import { silentLog } from "../unit/silent-log.ts";
import { controlPlaneOfFile } from "./control-plane-of-file.ts";
import { simulatedStore } from "./snapshots/simulated-snapshots.ts";

export const NAMESPACE = "tenancy";
/** For hundreds of pods on a machine that has more to do. */
const LIMIT_MS = 120_000;

/** A real API server with simulated nodes and the kinds installed, seen through stores that follow it from outside. */
export interface Tenancy {
  cluster: ControlPlane;
  client: ClusterClient;
  claims: Informer<Claim, never>;
  pods: Informer<Pod, "claimUid" | "pool">;
  /** Phases of each claim in the order in which the watch showed them, by name. */
  phases: Map<string, string[]>;
  /** Starts an operator in this process; it leads when it can. */
  startOperator(options?: {
    config?: Partial<OperatorConfig>;
    identity?: string;
    leaseName?: string;
    /** Instead of archives on simulated nodes, where nothing runs that could make them. */
    snapshots?: Snapshots;
    contexts?: BuildContexts;
    /** @default usage is not recorded */
    usage?: UsageStore;
    /** @default nothing is sent */
    sink?: EventSink | undefined;
    /** @default the images of simulated nodes are in no registry */
    readImageConfig?: ReadImageConfig;
    /** Runs commands in pods. @default none are run but for archives */
    exec?: Exec;
    /** @default nothing is traced */
    tracer?: Tracer;
    /** Puts faults between the operator and the API server. */
    wrap?: (client: ClusterClient) => ClusterClient;
  }): RunningOperator;
  /** Who holds the operators' lease. */
  leader(): Promise<string | undefined>;
  createWorkload(name: string, spec?: Partial<WorkloadSpec>): Promise<Workload>;
  createPool(name: string, spec: Pool["spec"]): Promise<Pool>;
  /** Warm pods of a pool that are not being deleted, by the pod-status that its label shows. */
  members(pool: string, status?: "ready" | "warming"): Pod[];
  createClaim(
    tenantId: string,
    workloadRef: string,
    metadata?: Partial<Claim["metadata"]>,
    spec?: Partial<Claim["spec"]>,
  ): Promise<Claim>;
  /** Waits until a claim's status is as told, and returns the claim. */
  untilClaim(name: string, is: Partial<ClaimStatus> | ((claim: Claim | undefined) => boolean)): Promise<Claim>;
  /** Deletes a claim; it is gone when its release has come to its end. */
  deleteClaim(name: string): Promise<void>;
  untilGone(claim: string): Promise<void>;
  /** Deletes a claim and waits until it is gone. */
  release(name: string): Promise<void>;
  /** Waits until a workload, asked of the API server, is as told. */
  untilWorkload(name: string, is: (workload: Workload) => boolean): Promise<Workload>;
  /** Waits until a pool, asked of the API server, is as told. */
  untilPool(name: string, is: (pool: Pool) => boolean): Promise<Pool>;
  /** The Events about an object, by its name or uid. */
  eventsOf(object: string | undefined): Promise<CoreEvent[]>;
  /** The claim's pods, asked of the API server: no watch says how far it is behind another one. */
  podsOf(claim: Claim): Promise<Pod[]>;
  /** Calls back at every change of a pod; the function it returns ends that. */
  onPodChange(look: () => void): () => void;
  /** Names of all pods that the claim ever had, once the watch of pods has caught up with what the API server lists. */
  everPodsOf(claim: Claim): Promise<string[]>;
  until<T>(what: string, find: () => T | undefined | false | Promise<T | undefined | false>): Promise<T>;
  stop(): Promise<void>;
}

const noRegistry: ReadImageConfig = async () => {
  throw new RegistryError("ImageNotFound", "simulated images are in no registry");
};

export interface RunningOperator extends Operator {
  /** Every request that it made to the API server. */
  requests: RequestRecord[];
  stop(): Promise<void>;
}

export async function startTenancy(
  name: string,
  options: { readyAfterMs?: number; nodes?: boolean | SimulatedNodesOptions; apiServerFlags?: string[] } = {},
): Promise<Tenancy> {
  const cluster = await controlPlaneOfFile(name, {
    ...(options.nodes !== false && {
      simulatedNodes: {
        nodes: 2,
        readyAfterMs: options.readyAfterMs ?? 50,
        ...(typeof options.nodes === "object" && options.nodes),
      },
    }),
    ...(options.apiServerFlags !== undefined && { apiServerFlags: options.apiServerFlags }),
  });
  // kubernetes-fluent-client reads this and nothing else.
  process.env.KUBECONFIG = cluster.kubeconfigPath;
  const transport = createTransport({
    config: await loadClusterConfig({ kubeconfigPath: cluster.kubeconfigPath }),
    role: "test",
    timeoutMs: LIMIT_MS,
  });
  const client = createClusterClient({ transport });
  const stopping = new AbortController();
  await installKinds({ client, namespace: NAMESPACE, signal: stopping.signal });

  const waiters = new Set<() => void>();
  const wakeAll = () => {
    for (const waiter of waiters) waiter();
  };
  const phases = new Map<string, string[]>();
  const shared = { client, namespace: NAMESPACE, signal: stopping.signal };
  const claimInformer = startInformer<Claim>({
    ...shared,
    resource: claims,
    indexes: {},
    onChange({ type, object }) {
      const seen = phases.get(object.metadata.name) ?? [];
      const phase = type === "deleted" ? "(gone)" : (object.status?.phase ?? "(none)");
      if (seen.at(-1) !== phase) phases.set(object.metadata.name, [...seen, phase]);
      wakeAll();
    },
  });
  const podLooks = new Set<() => void>();
  const everPods = new Map<string, Set<string>>();
  const podInformer = startInformer<Pod, "claimUid" | "pool">({
    ...shared,
    resource: pods,
    labelSelector: `${label.managed}=true`,
    indexes: {
      claimUid: (pod) => pod.metadata.annotations?.[annotation.claimUid],
      pool: (pod) => pod.metadata.labels?.[label.pool],
    },
    onChange({ object }) {
      const claimUid = object.metadata.annotations?.[annotation.claimUid] ?? "";
      for (const look of podLooks) look();
      everPods.set(claimUid, (everPods.get(claimUid) ?? new Set()).add(object.metadata.name));
      wakeAll();
    },
  });
  await Promise.all([claimInformer.synced, podInformer.synced]);
  const followed = Promise.all([claimInformer.done, podInformer.done]).then(() => undefined, unlessRestored);
  const operators = new Set<RunningOperator>();

  const tenancy: Tenancy = {
    cluster,
    client,
    claims: claimInformer,
    pods: podInformer,
    phases,
    startOperator(overrides = {}) {
      const stop = new AbortController();
      const made: RequestRecord[] = [];
      const operatorTransport = createTransport({
        config: tenancyConfig,
        role: "operator",
        onRequest: (record) => made.push(record),
      });
      const simulated = simulatedStore({ client, cluster: tenancyConfig, namespace: NAMESPACE });
      const operator = startOperator({
        client: (overrides.wrap ?? ((whole) => whole))(createClusterClient({ transport: operatorTransport })),
        snapshots: overrides.snapshots ?? simulated.snapshots,
        contexts: overrides.contexts ?? simulated.contexts,
        usage: overrides.usage,
        sink: overrides.sink,
        readImageConfig: overrides.readImageConfig ?? noRegistry,
        config: {
          ...operatorConfig({ TENANCY_OPERATOR_LISTEN: "off", TENANCY_SNAPSHOT_IMAGE: "simulated/snapshots:1" }),
          ...overrides.config,
        },
        metrics: createMetrics(),
        tracer: overrides.tracer,
        log: silentLog,
        identity: overrides.identity ?? `test-${operators.size}`,
        signal: stop.signal,
        ...(overrides.leaseName !== undefined && { leaseName: overrides.leaseName }),
        exec: overrides.exec,
      });
      const ended = operator.done.catch(unlessRestored);
      const running: RunningOperator = {
        ...operator,
        requests: made,
        async stop() {
          operators.delete(running);
          stop.abort();
          await ended;
          operatorTransport.close();
        },
      };
      operators.add(running);
      return running;
    },
    async leader() {
      const { items } = await client.list(leases, { namespace: NAMESPACE });
      return items.find(({ metadata }) => metadata.name === "tenancy-operator")?.spec?.holderIdentity;
    },
    createWorkload: (workload, spec = {}) =>
      client.create(workloads, {
        metadata: { name: workload, namespace: NAMESPACE },
        // With a port, so that its pods count as ready when the simulated kubelet says so.
        spec: { image: { ref: "simulated/hello:1" }, network: { ports: [8080] }, ...spec },
      }),
    createPool: (pool, spec) => client.create(pools, { metadata: { name: pool, namespace: NAMESPACE }, spec }),
    members: (pool, status) =>
      [...podInformer.store.by("pool", pool)].filter(
        ({ metadata }) =>
          metadata.deletionTimestamp === undefined &&
          (status === undefined || metadata.labels?.[label.poolStatus] === status),
      ),
    createClaim: (tenantId, workloadRef, metadata = {}, spec = {}) =>
      client.create(claims, {
        metadata: { name: claimName({ tenantId, workloadRef }), namespace: NAMESPACE, ...metadata },
        spec: { tenantId, workloadRef, ...spec },
      }),
    untilClaim: (claim, is) =>
      tenancy.until(`claim ${claim} ${typeof is === "function" ? is : JSON.stringify(is)}`, () => {
        const found = claimInformer.store.get(`${NAMESPACE}/${claim}`);
        if (typeof is === "function") return is(found) && (found ?? ({} as Claim));
        const status: Partial<ClaimStatus> = found?.status ?? {};
        return Object.entries(is).every(([field, value]) => status[field as keyof ClaimStatus] === value) && found;
      }),
    async deleteClaim(claim) {
      await client.delete(claims, { namespace: NAMESPACE, name: claim });
    },
    async untilGone(claim) {
      await tenancy.untilClaim(claim, (found) => found === undefined);
    },
    async release(claim) {
      await tenancy.deleteClaim(claim);
      await tenancy.untilGone(claim);
    },
    untilWorkload: (workload, is) =>
      tenancy.until(`workload ${workload} ${is}`, async () => {
        const found = await client.get(workloads, { namespace: NAMESPACE, name: workload });
        return is(found) && found;
      }),
    untilPool: (pool, is) =>
      tenancy.until(`pool ${pool} ${is}`, async () => {
        const found = await client.get(pools, { namespace: NAMESPACE, name: pool });
        return is(found) && found;
      }),
    async eventsOf(object) {
      const { items } = await client.list(events, { namespace: NAMESPACE });
      return items.filter(({ involvedObject: { name, uid } }) => [name, uid].includes(object));
    },
    onPodChange(look) {
      podLooks.add(look);
      return () => podLooks.delete(look);
    },
    async everPodsOf(claim) {
      const names = (await tenancy.podsOf(claim)).map(({ metadata }) => metadata.name);
      const seen = () => everPods.get(claim.metadata.uid ?? "") ?? new Set();
      await tenancy.until(`the watch shows the pods ${names}`, () => names.every((pod) => seen().has(pod)));
      return [...seen()];
    },
    async podsOf({ metadata, spec }) {
      const labelSelector = `${label.managed}=true,${label.workload}=${spec.workloadRef}`;
      const { items } = await client.list(pods, { namespace: NAMESPACE, labelSelector });
      return items.filter((pod) => pod.metadata.annotations?.[annotation.claimUid] === metadata.uid);
    },
    until<T>(what: string, find: () => T | undefined | false | Promise<T | undefined | false>) {
      return new Promise<T>((resolve, reject) => {
        const timer = setTimeout(
          () =>
            end(async () => {
              const now = await describe().catch((error: unknown) => `and nothing can be asked: ${error}`);
              reject(new Error(`after ${LIMIT_MS / 1000} s still not so: ${what}\n${now}`));
            }),
          LIMIT_MS,
        );
        // One that asks the API server is asked again when it has answered: on a busy machine they would pile up.
        let isAsking = false;
        // For what no watch here shows.
        const polling = setInterval(look, 50);
        waiters.add(look);
        look();
        function look(): void {
          if (isAsking) return;
          try {
            const found = find();
            if (!(found instanceof Promise)) {
              take(found);
              return;
            }
            isAsking = true;
            found
              .then(take, (error: unknown) => end(() => reject(error)))
              .finally(() => {
                isAsking = false;
              });
          } catch (error) {
            end(() => reject(error));
          }
        }
        function take(found: T | undefined | false): void {
          if (found !== undefined && found !== false) end(() => resolve(found));
        }
        function end(settle: () => void): void {
          clearTimeout(timer);
          clearInterval(polling);
          waiters.delete(look);
          settle();
        }
      });
    },
    async stop() {
      await Promise.all([...operators].map((operator) => operator.stop()));
      stopping.abort();
      await followed;
      transport.close();
      await cluster.stop();
    },
  };
  const tenancyConfig = await loadClusterConfig({ kubeconfigPath: cluster.kubeconfigPath });
  return tenancy;

  /** The claims that are not Active and the pods that do not run, by the API server; of claims also by the watch. */
  async function describe(): Promise<string> {
    const [listed, listedPods] = await Promise.all([
      client.list(claims, { namespace: NAMESPACE }),
      client.list(pods, { namespace: NAMESPACE }),
    ]);
    const present = new Map(
      listed.items.map(({ metadata, status }): [string, Partial<ClaimStatus>] => [metadata.name, status ?? {}]),
    );
    const lines = [`${present.size} claims at ${listed.metadata.resourceVersion}, ${listedPods.items.length} pods`];
    for (const name of new Set([...present.keys(), ...phases.keys()])) {
      const [status, seen = []] = [present.get(name), phases.get(name)];
      if (status?.phase === "Active" && seen.at(-1) === "Active") continue;
      lines.push(`claim ${name}: ${JSON.stringify(status) ?? "gone"}; by the watch: ${seen.join(", ")}`);
    }
    for (const { metadata, status } of listedPods.items) {
      if (status?.phase === "Running" && metadata.deletionTimestamp === undefined) continue;
      const state = JSON.stringify(status?.containerStatuses?.[0]?.state);
      lines.push(`pod ${metadata.name}: ${status?.phase} ${metadata.deletionTimestamp ?? ""} ${state}`);
    }
    return lines.join("\n");
  }
}

/** A test that restores the cluster from a backup ends all that has followed it. */
function unlessRestored(error: unknown): void {
  if (!(error instanceof HistoryError)) throw error;
}

/** Whether an object exists, asked of the API server. */
export async function exists<T extends KubernetesObject>(
  client: ClusterClient,
  resource: Resource<T>,
  name: string,
): Promise<boolean> {
  const { items } = await client.list(resource, { namespace: NAMESPACE, fieldSelector: `metadata.name=${name}` });
  return items.length > 0;
}
