import type { Claim } from "../crds/claim.ts";
import type { ClusterClient } from "../crds/client/cluster-client.ts";
import type { Exec } from "../crds/client/exec/exec.ts";
import type { ReportHandlerFailure } from "../crds/client/watch/handler-failures.ts";
import type { Change } from "../crds/client/watch/informer.ts";
import { keyOf } from "../crds/client/watch/store.ts";
import { withDefaults } from "../crds/defaults.ts";
import { claims } from "../crds/kinds.ts";
import type { KubernetesObject, NetworkPolicy, Pod } from "../crds/kubernetes.ts";
import { annotation, label } from "../crds/labels.ts";
import type { Log } from "../crds/log.ts";
import type { Pool } from "../crds/pool.ts";
import { SNAPSHOTS_NAME } from "../crds/snapshots/snapshots-names.ts";
import { createDeferred } from "../crds/waits.ts";
import type { Workload } from "../crds/workload.ts";
import { pairKey } from "./claim/find-rival.ts";
import { reconcileClaim } from "./claim/reconcile-claim.ts";
import { needsFiles } from "./claim/restore-files.ts";
import { createServiceWatch } from "./claim/service-watch.ts";
import { createStartLooks } from "./claim/tell-start.ts";
import type { OperatorConfig } from "./config.ts";
import type { Informers, OperatorContext } from "./context.ts";
import { namesSecret } from "./egress/egress-rules.ts";
import { createEventRecorder } from "./events.ts";
import { fencedClient, NotLeadingError } from "./fenced-client.ts";
import type { Term } from "./leader.ts";
import type { Metrics } from "./metrics.ts";
import { isProgramRunning } from "./pod/is-program-running.ts";
import { createNodeSilence } from "./pod/node-silence.ts";
import { podState } from "./pod/pod-state.ts";
import { reconcilePod } from "./pod/reconcile-pod.ts";
import { templateHash } from "./pod/render-pod.ts";
import { createFailureRecord } from "./pool/pool-failures.ts";
import { memberState } from "./pool/pool-member.ts";
import { reconcilePool } from "./pool/reconcile-pool.ts";
import { createRefillPause } from "./pool/refill-pause.ts";
import { refreshMembers } from "./pool/refresh-members.ts";
import { writePoolStatus, writtenFailure } from "./pool/write-pool-status.ts";
import { createQueue } from "./queue.ts";
import { createBackgroundWork } from "./snapshots/background-work.ts";
import { isHelperRunning } from "./snapshots/is-helper-running.ts";
import { reconcileHelper } from "./snapshots/reconcile-helper.ts";
import type { Snapshots } from "./snapshots/snapshots.ts";
import { tendArchives } from "./snapshots/tend-archives.ts";
import { reconcileWorkload } from "./workload/reconcile-workload.ts";

const POOL_STATUS_DELAY_MS = 200;
// Each is a command in the helper pod that takes some 50 ms.
const LOOKS_AT_ONCE = 16;
// A burst takes more than these; each costs a connection.
const PREPARED_PODS = 2;
// A new leader has better to do first.
const FIRST_TENDING_MS = 60_000;

/** What each kind of change asks the queue to look at. */
export interface Wake {
  claim(change: Change<Claim>): void;
  workload(change: Change<Workload>): void;
  pool(change: Change<Pool>): void;
  pod(change: Change<Pod>): void;
  policy(change: Change<NetworkPolicy>): void;
  /** What the proxy of a workload lives by, and Secrets that workloads name. */
  egressObject(change: Change<KubernetesObject>): void;
  /** The pod that keeps archives. */
  helper(change?: Change<Pod>): void;
}

function isUnschedulable(pod: Pod | undefined): boolean {
  return pod !== undefined && podState(pod).state === "unschedulable";
}

/** Starts the reconcilers of one term as leader: the queue with its lanes, and what wakes them. */
export function runTerm(options: {
  client: ClusterClient;
  snapshots: Snapshots;
  exec?: Exec | undefined;
  config: OperatorConfig;
  informers: Informers;
  metrics: Metrics;
  log: Log;
  term: Term;
  onFailure: ReportHandlerFailure;
  applyNetworkPolicy(policy: NetworkPolicy): Promise<void>;
}): { wake: Wake; stop(): Promise<void> } {
  const { config, informers, metrics, log, term } = options;
  const client = fencedClient(options.client, term);
  const events = createEventRecorder({ client, namespace: config.namespace, log });
  let helperStart = createDeferred<void>();
  const context: OperatorContext = {
    client,
    config,
    informers,
    events,
    metrics,
    log,
    reservedPods: new Set(),
    poolFailures: createFailureRecord({ onChange: (name) => addPool(name) }),
    refillPause: createRefillPause(),
    snapshots: options.snapshots,
    exec: options.exec,
    startLooks: createStartLooks(),
    archiveLooks: createBackgroundWork({ concurrency: LOOKS_AT_ONCE, maximumBackoffMs: 10_000 }),
    restores: createBackgroundWork({ concurrency: config.snapshots.concurrency }),
    saves: createBackgroundWork({ concurrency: config.snapshots.concurrency }),
    ownPods: new Set(),
    nodeSilence: createNodeSilence({ limitMs: config.nodeTimeoutMs }),
    restoreFailures: new Map(),
    notices: new Map(),
    serviceWatch: createServiceWatch({
      client: options.client,
      namespace: config.namespace,
      onFailure: options.onFailure,
      log,
      onSynced() {
        for (const claim of informers.claims.store.values()) queue.add("claim", keyOf(claim));
      },
      onChange({ type, object }) {
        if (type === "added") return;
        for (const { kind, name } of object.metadata.ownerReferences ?? [])
          if (kind === claims.kind) queue.add("claim", `${config.namespace}/${name}`);
      },
    }),
    settledEgress: new Map(),
    helperStart: () => helperStart.promise,
    wakeClaim: (claim) => queue.add("claim", keyOf(claim)),
    isLeading: () => term.writeTimeLeftMs() > 0,
    async applyNetworkPolicy(policy) {
      if (term.writeTimeLeftMs() === 0) throw new NotLeadingError("Cannot write: this operator does not lead");
      await options.applyNetworkPolicy(policy);
    },
  };
  let membersAreFresh: Promise<void> | undefined;
  const queue = createQueue({
    lanes: {
      claim: { priority: 0, concurrency: 64, reconcile: (key) => reconcileClaim(key, context) },
      workload: { priority: 1, concurrency: 4, reconcile: (key) => reconcileWorkload(key, context) },
      pool: {
        priority: 2,
        concurrency: 8,
        async reconcile(key) {
          membersAreFresh ??= refreshMembers(context).catch(askAgain);
          await membersAreFresh;
          return reconcilePool(key, context);
        },
      },
      pod: { priority: 3, concurrency: 4, reconcile: (key) => reconcilePod(key, context) },
      helper: { priority: 3, concurrency: 1, reconcile: () => reconcileHelper(context) },
      archives: { priority: 3, concurrency: 1, reconcile: () => tendArchives(context, term.signal) },
      poolStatus: { priority: 3, concurrency: 2, reconcile: (key) => writePoolStatus(key, context) },
    },
    log,
    onReconciled: ({ lane, outcome, seconds }) => metrics.reconcileSeconds.observe({ lane, outcome }, seconds),
    isWorthLogging: (error) => !(error instanceof NotLeadingError),
  });
  queue.add("archives", "all", { afterMs: FIRST_TENDING_MS });

  function askAgain(error: unknown): never {
    membersAreFresh = undefined;
    throw error;
  }

  function addPool(name: string): void {
    queue.add("pool", `${config.namespace}/${name}`);
    // A burst of changes is one write.
    queue.add("poolStatus", `${config.namespace}/${name}`, { afterMs: POOL_STATUS_DELAY_MS });
  }

  /** Warm pods are offered to the claims that have waited longest, as many as there are pods. */
  function offerWarmPods(workload: string): void {
    let left = informers.pods.store.by("warm", workload).size;
    for (const claim of informers.claims.store.by("waitingFor", workload)) {
      if (left-- <= 0) return;
      queue.add("claim", keyOf(claim));
    }
  }

  /** The pods that claims take next have their restores wait in them. */
  function prepareRestores(name: string): void {
    const workload = informers.workloads.store.get(`${config.namespace}/${name}`);
    const template = workload && templateHash(workload, config);
    if (workload === undefined || template === undefined) return;
    if (withDefaults(workload.spec).filesystem.overlayDirs.length === 0) return;
    let left = PREPARED_PODS;
    for (const pod of informers.pods.store.by("warm", `${name}/${template}`)) {
      if (left-- <= 0) return;
      try {
        context.snapshots.prepare(pod);
      } catch (error) {
        // The event that led here may be another pod's.
        options.onFailure(error, { object: pod, resource: "pods", handler: "prepare" });
      }
    }
  }

  function addWorkload(name: string): void {
    queue.add("workload", `${config.namespace}/${name}`);
  }

  function addIfHeld(workload: string | undefined): void {
    const held = informers.workloads.store.get(`${config.namespace}/${workload}`);
    if (held?.metadata.deletionTimestamp !== undefined) addWorkload(held.metadata.name);
  }

  const wake: Wake = {
    claim({ type, object }) {
      if (type === "deleted" || object.status?.phase === "Error") addIfHeld(object.spec.workloadRef);
      if (type !== "deleted") {
        queue.add("claim", keyOf(object));
        return;
      }
      context.archiveLooks.forget(object.metadata.uid ?? "");
      context.restoreFailures.delete(object.metadata.uid ?? "");
      context.notices.delete(object.metadata.uid ?? "");
      for (const sibling of informers.claims.store.by("pair", pairKey(object))) queue.add("claim", keyOf(sibling));
      for (const pod of informers.pods.store.by("claimUid", object.metadata.uid ?? "")) queue.add("pod", keyOf(pod));
    },
    workload({ type, object, previous }) {
      if (type !== "deleted") queue.add("workload", keyOf(object));
      if (previous !== undefined && previous.spec.service !== object.spec.service)
        for (const claim of informers.claims.store.by("using", object.metadata.name)) queue.add("claim", keyOf(claim));
      const isNews =
        type !== "modified" ||
        object.status?.phase !== previous?.status?.phase ||
        previous?.status?.observedGeneration !== object.status?.observedGeneration;
      if (!isNews) return;
      queue.add("helper", SNAPSHOTS_NAME);
      for (const claim of informers.claims.store.by("waitingFor", object.metadata.name))
        queue.add("claim", keyOf(claim));
      for (const pool of informers.pools.store.by("workload", object.metadata.name)) {
        context.poolFailures.forget(pool.metadata.name);
        addPool(pool.metadata.name);
      }
    },
    pool({ type, object, previous }) {
      const { name } = object.metadata;
      if (type === "deleted") {
        addIfHeld(object.spec.workloadRef);
        metrics.poolReady.remove({ pool: name });
        for (const state of ["ready", "warming", "failed"]) {
          for (const pod of informers.pods.store.by("pool", `${name}/${state}`)) queue.add("pod", keyOf(pod));
        }
        return;
      }
      if (previous?.metadata.generation !== object.metadata.generation) {
        context.poolFailures.forget(name);
        const failure = type === "added" ? writtenFailure(object) : undefined;
        if (failure !== undefined) context.poolFailures.resume(name, failure);
        addPool(name);
      }
    },
    pod({ type, object, previous }) {
      const workload = object.metadata.labels?.[label.workload];
      const claimUid = object.metadata.annotations?.[annotation.claimUid];
      const [now, before] = [type === "deleted" ? undefined : memberState(object), previous && memberState(previous)];
      const pool = object.metadata.labels?.[label.pool] ?? previous?.metadata.labels?.[label.pool];
      if (pool !== undefined && now !== before) addPool(pool);
      if (pool !== undefined && now === "ready" && before !== "ready") context.poolFailures.started(pool, object);
      if (pool !== undefined && now === "warming" && isUnschedulable(object) !== isUnschedulable(previous))
        addPool(pool);
      if (now !== undefined) queue.add("pod", keyOf(object));
      if (now === "ready" && before !== "ready" && workload !== undefined) offerWarmPods(workload);
      if ((now === "ready") !== (before === "ready") && workload !== undefined) prepareRestores(workload);
      if (now !== "ready" && before === "ready" && !needsFiles(object)) context.snapshots.dismiss(object);
      if (type === "deleted") {
        const uid = object.metadata.uid ?? "";
        context.reservedPods.delete(uid);
        context.ownPods.delete(uid);
        context.restores.forget(uid);
        context.snapshots.dismiss(object);
        context.saves.forget(uid);
        context.startLooks.forget(uid);
        context.nodeSilence.forget(uid);
        addIfHeld(workload);
      }
      if (claimUid === undefined) return;
      if (type !== "deleted") context.nodeSilence.leftMs(object);
      // Files are saved through the program's container, and one that keeps ending does not run for long.
      if (previous !== undefined && isProgramRunning(object) && !isProgramRunning(previous))
        context.saves.hurry(object.metadata.uid ?? "");
      const holders = informers.claims.store.by("uid", claimUid);
      for (const claim of holders) queue.add("claim", keyOf(claim));
      if (holders.size === 0 && type !== "deleted") queue.add("pod", keyOf(object));
    },
    policy({ type, object, previous }) {
      if (object.metadata.name === SNAPSHOTS_NAME) queue.add("helper", SNAPSHOTS_NAME);
      const workload = object.metadata.labels?.[label.workload];
      const isEdited = type === "modified" && previous?.metadata.generation !== object.metadata.generation;
      if (workload !== undefined && (type === "deleted" || isEdited)) addWorkload(workload);
    },
    egressObject({ type, object, previous }) {
      for (const { metadata, spec } of informers.workloads.store.values()) {
        if (namesSecret(spec, object.metadata.name)) addWorkload(metadata.name);
      }
      if (type === "added") return;
      // Of one whose label was changed, the workload that it belonged to.
      const workload = (previous ?? object).metadata.labels?.[label.workload];
      if (workload !== undefined) addWorkload(workload);
    },
    helper(change) {
      queue.add("helper", SNAPSHOTS_NAME);
      if (change === undefined) return;
      if (change.type === "deleted" || !isHelperRunning(change.object)) {
        context.snapshots.leaveHelper();
        return;
      }
      if (change.previous !== undefined && isHelperRunning(change.previous)) return;
      helperStart.resolve();
      helperStart = createDeferred();
      context.archiveLooks.hurry();
      context.saves.hurry();
      for (const claim of informers.claims.store.by("needsHelper", "")) queue.add("claim", keyOf(claim));
    },
  };

  async function stop(): Promise<void> {
    await Promise.all([
      queue.stop(),
      context.archiveLooks.stop(),
      context.restores.stop(),
      context.saves.stop(),
      context.startLooks.work.stop(),
    ]);
    context.snapshots.close();
    context.serviceWatch.close();
    await events.flush();
  }

  return { wake, stop };
}
