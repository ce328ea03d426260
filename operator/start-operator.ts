import { configMaps, networkPolicies, pods, secrets } from "../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../crds/client/cluster-client.ts";
import type { Exec } from "../crds/client/exec/exec.ts";
import { createHandlerFailures, type ReportHandlerFailure } from "../crds/client/watch/handler-failures.ts";
import { startInformer } from "../crds/client/watch/informer.ts";
import type { ListWatchState } from "../crds/client/watch/list-watch-state.ts";
import { shareEqualParts } from "../crds/client/watch/share-equal-parts.ts";
import { claims, pools, workloads } from "../crds/kinds.ts";
import type { KubernetesObject, NetworkPolicy, Pod } from "../crds/kubernetes.ts";
import { annotation, label } from "../crds/labels.ts";
import type { Log } from "../crds/log.ts";
import { metadataOf, type Resource } from "../crds/resource.ts";
import { SNAPSHOTS_LABELS } from "../crds/snapshots/snapshots-names.ts";
import { pairKey } from "./claim/find-rival.ts";
import { isWaiting } from "./claim/is-waiting.ts";
import { needsHelper } from "./claim/needs-helper.ts";
import type { OperatorConfig } from "./config.ts";
import type { EgressInformers, Informers } from "./context.ts";
import { runWhenLeading } from "./leader.ts";
import type { Metrics } from "./metrics.ts";
import { poolIndex, warmIndex } from "./pool/pool-member.ts";
import { runTerm, type Wake } from "./run-term.ts";
import type { Snapshots } from "./snapshots/snapshots.ts";
import { applyNetworkPolicy } from "./workload/apply-network-policy.ts";

const LEASE_NAME = "tenancy-operator";

export interface OperatorOptions {
  client: ClusterClient;
  snapshots: Snapshots;
  /** Asks pods that do not become ready where they listen. @default they are not asked */
  exec?: Exec | undefined;
  config: OperatorConfig;
  metrics: Metrics;
  log: Log;
  /** Unique to this process. */
  identity: string;
  /** @default "tenancy-operator" */
  leaseName?: string;
  /** Aborted for a clean stop. */
  signal: AbortSignal;
  applyNetworkPolicy?: (policy: NetworkPolicy) => Promise<void>;
}

export interface Operator {
  /** Resolves when every store holds what the cluster has, and follows it. */
  synced: Promise<void>;
  /** Whether every watch is in contact with the API server. */
  isReady(): boolean;
  /** Resolves after a clean stop. */
  done: Promise<void>;
}

/** Watches the cluster from the start, leading or not, so that a new leader goes to work at once. */
export function startOperator(options: OperatorOptions): Operator {
  const { client, config, metrics, log, signal } = options;
  const { namespace } = config;
  let wake: Wake | undefined;
  const watching = new Set<string>();
  const untilWatching = new Set<() => void>();
  const follow = (name: string) => ({
    onState({ kind }: ListWatchState) {
      if (kind !== "watching") watching.delete(name);
      else if (watching.add(name).size === all.length) for (const resolve of untilWatching) resolve();
    },
  });
  const isReady = () => watching.size === all.length;

  const managed = `${label.managed}=true`;
  const helperSelector = Object.entries(SNAPSHOTS_LABELS)
    .map(([key, value]) => `${key}=${value}`)
    .join(",");
  const onFailure = createHandlerFailures({
    log,
    count: ({ resource }) => metrics.handlerFailures.inc({ resource }),
  });
  const shared = { client, namespace, signal, log, onFailure };
  const followEgress = (
    name: keyof EgressInformers,
    { resource, labelSelector }: { resource: Resource<KubernetesObject>; labelSelector?: string },
  ) =>
    startInformer({
      ...shared,
      ...follow(`egress ${name}`),
      resource: metadataOf(resource),
      labelSelector,
      transform: withoutAnnotations,
      indexes: {},
      onChange: (change) => wake?.egressObject(change),
    });
  const egress =
    config.egress.image === undefined
      ? undefined
      : {
          configMaps: followEgress("configMaps", { resource: configMaps, labelSelector: managed }),
          // Workloads name Secrets that are not managed.
          secrets: followEgress("secrets", { resource: secrets }),
        };
  const informers: Informers = {
    egress,
    claims: startInformer({
      ...shared,
      ...follow("claims"),
      resource: claims,
      indexes: {
        uid: (claim) => claim.metadata.uid,
        pair: pairKey,
        // A claim in Error has no pod, and a workload may go although its name stands in one.
        using: (claim) => (claim.status?.phase === "Error" ? undefined : claim.spec.workloadRef),
        needsHelper: (claim) => (needsHelper(claim) ? "" : undefined),
        waitingFor: (claim) => (isWaiting(claim) ? claim.spec.workloadRef : undefined),
      },
      onChange: (change) => wake?.claim(change),
    }),
    workloads: startInformer({
      ...shared,
      ...follow("workloads"),
      resource: workloads,
      indexes: {},
      onChange: (change) => wake?.workload(change),
    }),
    pools: startInformer({
      ...shared,
      ...follow("pools"),
      resource: pools,
      indexes: { workload: (pool) => pool.spec.workloadRef },
      onChange: (change) => wake?.pool(change),
    }),
    pods: startInformer({
      ...shared,
      ...follow("pods"),
      resource: pods,
      labelSelector: managed,
      transform: shareEqualParts<Pod>(),
      pageSize: 250,
      indexes: {
        claimUid: (pod) => pod.metadata.annotations?.[annotation.claimUid],
        workload: (pod) => pod.metadata.labels?.[label.workload],
        pool: poolIndex,
        warm: warmIndex,
      },
      onChange: (change) => wake?.pod(change),
    }),
    helperPods: startInformer({
      ...shared,
      ...follow("helperPods"),
      resource: pods,
      labelSelector: helperSelector,
      indexes: {},
      onChange: (change) => wake?.helper(change),
    }),
    networkPolicies: startInformer({
      ...shared,
      ...follow("networkPolicies"),
      resource: networkPolicies,
      labelSelector: managed,
      indexes: {},
      onChange: (change) => wake?.policy(change),
    }),
  };
  const { egress: _, ...always } = informers;
  const all = [...Object.values(always), ...Object.values(egress ?? {})];
  const synced = Promise.all(all.map((informer) => informer.synced)).then(() => undefined);
  // An informer that can never sync says so by its `done` too, which this operator's `done` passes on.
  synced.catch(() => log.debug({}, "stopped before the stores were complete"));

  const leading = runWhenLeading({
    client,
    namespace,
    leaseName: options.leaseName ?? LEASE_NAME,
    identity: options.identity,
    leaseMs: config.leaseMs,
    log,
    signal,
    async lead(term) {
      // A watch ends now and then; a term that began without one would take what it does not show for gone.
      const ready = new Promise<void>((resolve) => (isReady() ? resolve() : untilWatching.add(resolve)));
      await Promise.race([ready, aborted(term.signal), aborted(signal)]);
      untilWatching.clear();
      if (term.signal.aborted || signal.aborted) return;
      metrics.leading.set(1);
      const running = runTerm({
        ...options,
        informers,
        term,
        onFailure,
        applyNetworkPolicy: options.applyNetworkPolicy ?? applyNetworkPolicy,
      });
      try {
        wake = running.wake;
        enqueueAll(informers, { wake: running.wake, onFailure });
        await Promise.race([aborted(term.signal), aborted(signal)]);
      } finally {
        wake = undefined;
        metrics.leading.set(0);
        await running.stop();
      }
    },
  });

  return {
    synced,
    isReady,
    done: Promise.all([leading, ...all.map((informer) => informer.done)]).then(() => undefined),
  };
}

/** A new leader looks at everything once; from then on events say what to look at. */
function enqueueAll(informers: Informers, { wake, onFailure }: { wake: Wake; onFailure: ReportHandlerFailure }): void {
  const each = <T extends KubernetesObject>(
    { plural }: Resource<T>,
    { store }: { store: { values(): Iterable<T> } },
    visit: (change: { type: "added"; object: T }) => void,
  ) => {
    for (const object of store.values()) {
      try {
        visit({ type: "added", object });
      } catch (error) {
        onFailure(error, { object, resource: plural, handler: "onChange" });
      }
    }
  };
  each(workloads, informers.workloads, wake.workload);
  each(pools, informers.pools, wake.pool);
  each(claims, informers.claims, wake.claim);
  each(pods, informers.pods, wake.pod);
  wake.helper();
}

/** `kubectl apply` keeps a copy of a Secret's values in one. */
function withoutAnnotations({ metadata: { annotations: _, ...metadata } }: KubernetesObject): KubernetesObject {
  return { metadata };
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
