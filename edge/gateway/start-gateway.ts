import type { Registry } from "prom-client";
import type { Claim } from "../../crds/claim.ts";
import { steadyClock } from "../../crds/client/clock.ts";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import { createEventRecorder } from "../../crds/client/event-recorder.ts";
import type { Change } from "../../crds/client/watch/informer.ts";
import type { Log } from "../../crds/log.ts";
import type { SecretPolicy } from "../../crds/secret-refusal.ts";
import type { Trigger } from "../../crds/trigger.ts";
import { within } from "../../crds/waits.ts";
import type { Activity } from "../activity.ts";
import type { Deliverer } from "../api/deliveries.ts";
import { type CachedTriggers, webhookPath } from "../cluster/watch-cluster.ts";
import type { TriggerLimits } from "../config.ts";
import { HttpError } from "../http/http-error.ts";
import { createReleaseHolds } from "../release-hold.ts";
import type { AdapterContext } from "./adapter.ts";
import { createAdapterContext } from "./adapter-context.ts";
import { createAdapterTypes } from "./adapter-types.ts";
import { createDeliveryLog } from "./delivery-log.ts";
import { createEventSlots } from "./events/event-slots.ts";
import type { EventServices } from "./events/run-event.ts";
import { createGatewayMetrics } from "./gateway-metrics.ts";
import { createPolledBots } from "./messenger/polled-bots.ts";
import { reconcileTriggers } from "./triggers/reconcile-triggers.ts";
import { createSecretReaders } from "./triggers/secret-reader.ts";
import { createWorkloadProblems, triggerProblem } from "./triggers/trigger-problem.ts";
import { createTriggerEvents, createTriggerStatus } from "./triggers/trigger-status.ts";
import { pathProblem, type WebhookPaths } from "./webhook/webhook-paths.ts";

/** A running trigger gateway. */
export interface Gateway extends Deliverer {
  /** Webhook paths; the handler checks them before its routes. */
  readonly webhooks: Pick<WebhookPaths, "find">;
  /** Resolves when every existing trigger is served or reports why not. */
  readonly synced: Promise<void>;
  /** Lets a release of the claim wait only for events that are already at its pod. */
  onClaim(change: Change<Claim>): void;
  /** Reconciles the triggers of a workload that was added, changed or deleted. */
  enqueueWorkload(name: string): void;
  /** Reconciles a trigger of the initial list, or one that was added, changed or deleted. */
  enqueueTrigger(change: Change<Trigger>): void;
  /**
   * Stops polls and schedules, and waits at most `graceMs` for their events; webhooks continue.
   *
   * @returns whether all finished
   */
  drain(options: { graceMs: number }): Promise<boolean>;
  /** Ends everything that is left. */
  close(): Promise<void>;
}

/** Number of events that may wait for each slot. */
const WAITING_PER_SLOT = 3;
/** Slow events of fewer tenants than this cannot occupy all slots of a trigger. */
const TENANTS_PER_TRIGGER = 4;
/** How long events in flight may take to end after the hard stop. */
const HARD_STOP_MS = 2000;
const COMPONENT = "tenancy-gateway";

/** Runs one adapter for each trigger that can be served. */
export function startGateway(options: {
  /** `waitLimitMs` is that of the API's claim calls, which the gateway does not use. */
  client: ClusterClient;
  claims: EventServices["claims"];
  /** The API server's time, to compare with times of objects. @default the time of `claims.clock` */
  timeOfDay?: (() => number) | undefined;
  /** The triggers; `enqueueTrigger` is called with every change. */
  triggers: CachedTriggers;
  triggersSynced: Promise<void>;
  /** Resolves when the cache of workloads is synced: before that no workload counts as missing. */
  workloadsSynced: Promise<unknown>;
  activity: Pick<Activity, "duringInFlight" | "announceInFlight" | "clearInFlight">;
  /** How long a release waits for an event that its pod is handling. */
  drainMs: number;
  limits: TriggerLimits;
  localOnly: boolean;
  secretPolicy: SecretPolicy;
  /** Unique to this process. */
  instance: string;
  registry: Registry;
  log: Log;
}): Gateway {
  const { activity, drainMs, limits, localOnly, secretPolicy, instance, registry, log, triggers: cache } = options;
  const { client } = options;
  const { cluster, namespace, clock } = options.claims;
  const claims: EventServices["claims"] = { ...options.claims, waitLimitMs: limits.claimWaitMs };
  const closing = new AbortController();
  const hardStop = new AbortController();
  const slots = createEventSlots({
    perTenant: Math.ceil(limits.perTrigger / TENANTS_PER_TRIGGER),
    perTrigger: limits.perTrigger,
    inAll: limits.inAll,
    maxWaiting: limits.perTrigger * WAITING_PER_SLOT,
  });
  const find = (name: string): Trigger | undefined => cache.store.get({ namespace, name });
  const holds = createReleaseHolds({
    activity,
    clock: steadyClock,
    timeOfDay: options.timeOfDay ?? clock.now,
    signal: hardStop.signal,
  });
  const polledBots = createPolledBots(clock);
  const metrics = createGatewayMetrics(registry, {
    inFlight: () => slots.inFlight,
    waiting: () => slots.waiting,
    botsPolled: () => polledBots.count(),
    triggers: () => countTriggers(cache.store.values()),
  });
  const recorder = createEventRecorder({ client, namespace, component: COMPONENT, log });
  const events = createTriggerEvents({ recorder, clock });
  const openSecrets = createSecretReaders({ client, cluster, namespace, policy: secretPolicy, clock, log });
  const deliveryLog = createDeliveryLog();
  const adapterTypes = createAdapterTypes({
    clock,
    limits,
    metrics,
    events,
    deliveryLog,
    tracer: claims.tracer,
    polledBots,
    localOnly,
    instance,
    hardStop: hardStop.signal,
  });
  const workloadProblems = createWorkloadProblems({ namespace, workloads: options.claims.cache.workloads.store });
  const services = {
    client,
    claims,
    activity,
    drainMs,
    holds,
    slots,
    metrics,
    events,
    deliveryLog,
    log,
    hardStop: hardStop.signal,
    instance,
    leaseMs: limits.leaseMs,
  };
  let adapters = 0;
  /** The newest context of each trigger, by name. */
  const contexts = new Map<string, AdapterContext>();

  const reconciler = reconcileTriggers({
    find,
    problemOf: (trigger) => triggerProblem(trigger, cache.store.by("path", webhookPath(trigger) ?? "")),
    types: adapterTypes.types,
    open({ trigger, signal, onSecretChange, report }) {
      adapters += 1;
      const secrets = openSecrets(onSecretChange);
      const context = createAdapterContext({
        trigger,
        services,
        number: adapters,
        secrets,
        report,
        signal,
      });
      const { name } = trigger.metadata;
      contexts.set(name, context);
      return {
        context,
        close() {
          if (contexts.get(name) === context) contexts.delete(name);
          secrets.close();
        },
      };
    },
    statusOf: (name) =>
      createTriggerStatus({
        cluster,
        name,
        current: () => find(name),
        workloadProblemOf: workloadProblems.find,
        events,
        clock,
        log,
        signal: closing.signal,
      }),
    clock,
    log,
  });

  options.workloadsSynced.then(
    () => {
      workloadProblems.onSynced();
      for (const { metadata } of cache.store.values()) reconciler.enqueue(metadata.name);
    },
    // The edge itself fails then.
    () => undefined,
  );

  let isReconciled = false;
  const synced = options.triggersSynced.then(async () => {
    await reconciler.idle();
    isReconciled = true;
  });

  return {
    webhooks: {
      find: (path) =>
        adapterTypes.webhookPaths.find(path) ??
        (isReconciled || pathProblem(path) !== undefined ? undefined : startingUp),
    },
    synced,
    onClaim({ object, previous }) {
      const { instanceId } = object.status ?? {};
      const isNew = object.metadata.deletionTimestamp !== undefined && !previous?.metadata.deletionTimestamp;
      if (!isNew || instanceId === undefined) return;
      holds.forget(object);
      void activity.clearInFlight(instanceId);
    },
    enqueueWorkload(name) {
      for (const { metadata } of cache.store.by("workload", name)) reconciler.enqueue(metadata.name);
    },
    find,
    deliveriesOf: deliveryLog.read,
    runnerOf({ metadata }) {
      const context = contexts.get(metadata.name);
      const isServed = context?.trigger.metadata.uid === metadata.uid && !context?.signal.aborted;
      return isServed ? context : undefined;
    },
    enqueueTrigger({ type, object, previous }) {
      if (type === "deleted") deliveryLog.forget(object);
      reconciler.enqueue(object.metadata.name);
      // Other triggers may be waiting for a path that this one releases.
      const paths = new Set([webhookPath(object), previous && webhookPath(previous)]);
      for (const path of paths) {
        if (path === undefined) continue;
        for (const other of cache.store.by("path", path)) reconciler.enqueue(other.metadata.name);
      }
    },
    isReady: () => isReconciled && cache.isFresh(),
    async drain({ graceMs }) {
      const ended = reconciler.stop("pulling");
      const finished = await within(ended, graceMs);
      if (finished) return true;
      hardStop.abort(new Error("the gateway is stopping"));
      await within(ended, HARD_STOP_MS);
      return false;
    },
    async close() {
      hardStop.abort(new Error("the gateway is stopping"));
      await within(reconciler.stop("all"), HARD_STOP_MS);
      adapterTypes.close();
      await within(recorder.flush(), HARD_STOP_MS);
      closing.abort();
    },
  };
}

/** Until every trigger was reconciled once, an unknown path may still get a webhook. */
async function startingUp(): Promise<never> {
  throw new HttpError(503, "the trigger cache is not synced yet; try again shortly", {
    headers: { "retry-after": "1" },
  });
}

function countTriggers(all: Iterable<Trigger>): Iterable<{ type: string; phase: string; count: number }> {
  const counts = new Map<string, { type: string; phase: string; count: number }>();
  for (const { spec, status } of all) {
    const { type } = spec;
    const phase = status?.phase ?? "none";
    const counted = counts.get(`${type} ${phase}`) ?? { type, phase, count: 0 };
    counts.set(`${type} ${phase}`, { ...counted, count: counted.count + 1 });
  }
  return counts.values();
}
