import type { Registry } from "prom-client";
import { createEventRecorder } from "../../crds/client/event-recorder.ts";
import type { ReportHandlerFailure } from "../../crds/client/watch/handler-failures.ts";
import { triggers } from "../../crds/kinds.ts";
import type { Log } from "../../crds/log.ts";
import type { SecretPolicy } from "../../crds/secret-refusal.ts";
import type { Trigger } from "../../crds/trigger.ts";
import { within } from "../../crds/waits.ts";
import type { Activity } from "../activity.ts";
import { watchKind } from "../cluster/watch-kind.ts";
import { HttpError } from "../http/http-error.ts";
import { createAdapterContext } from "./adapter-context.ts";
import { createCronStart } from "./cron/start-cron.ts";
import { createTimers } from "./cron/timers.ts";
import { createTurns } from "./events/event-slots.ts";
import type { EventServices } from "./events/run-event.ts";
import { createGatewayMetrics } from "./gateway-metrics.ts";
import { startMessenger } from "./messenger/start-messenger.ts";
import type { TriggerLimits } from "./trigger-limits.ts";
import { superviseTriggers } from "./triggers/reconcile-triggers.ts";
import { createSecretReaders } from "./triggers/secret-reader.ts";
import { createTriggerEvents } from "./triggers/trigger-events.ts";
import { triggerProblem } from "./triggers/trigger-problem.ts";
import { createTriggerStatus, type TriggerTrouble } from "./triggers/trigger-status.ts";
import { createDeliveries } from "./webhook/deliveries.ts";
import { createWebhookStart } from "./webhook/start-webhook.ts";
import { createUnverifiedBodies } from "./webhook/unverified-bodies.ts";
import { createWebhookPaths, pathProblem, type WebhookPaths } from "./webhook/webhook-paths.ts";

/** A running trigger gateway. */
export interface Gateway {
  /** Paths of webhooks, for the handler to look into before its routes. */
  readonly webhooks: Pick<WebhookPaths, "find">;
  /** Resolves when every trigger that is there is served or shows why not. */
  readonly synced: Promise<void>;
  /** Looks again at the triggers of a workload that came, changed or went. */
  lookAtWorkload(name: string): void;
  /** Rejects where the view of the triggers can never be trusted again. */
  readonly done: Promise<void>;
  /** Whether it has looked at every trigger, and the watch is open. */
  isReady(): boolean;
  /** Stops polls and schedules, and lets their events finish for at most `graceMs`; webhooks go on. @returns whether all finished */
  drain(options: { graceMs: number }): Promise<boolean>;
  /** Ends everything that is left. */
  close(): Promise<void>;
}

/** Events that may wait for each that may be in flight. */
const WAITING_PER_PLACE = 3;
/** Deliveries that may be open for each that may be in flight: more than may wait, so that turns decide whose are too many. */
const OPEN_PER_PLACE = 8;
/** It takes at least so many tenants to fill a trigger with slow events. */
const TENANTS_PER_TRIGGER = 4;
/** For what was cut to notice it. */
const CUT_MS = 2000;
const COMPONENT = "tenancy-gateway";

/** Watches the triggers, and runs one adapter for each that can be served. */
export function startGateway(options: {
  /** `waitLimitMs` is that of the API's claim calls, which the gateway does not use. */
  claims: EventServices["claims"];
  /** Resolves when the cache of workloads is synced: before that none is taken for missing. */
  workloadsSynced: Promise<unknown>;
  activity: Pick<Activity, "during">;
  limits: TriggerLimits;
  localOnly: boolean;
  secretPolicy: SecretPolicy;
  /** Unique to this process. */
  instance: string;
  registry: Registry;
  onFailure: ReportHandlerFailure;
  log: Log;
}): Gateway {
  const { activity, limits, localOnly, secretPolicy, instance, registry, log } = options;
  const { client, namespace, clock } = options.claims;
  const claims: EventServices["claims"] = { ...options.claims, waitLimitMs: limits.claimWaitMs };
  const watching = new AbortController();
  const cut = new AbortController();
  const turns = createTurns({
    perTenant: Math.ceil(limits.perTrigger / TENANTS_PER_TRIGGER),
    perTrigger: limits.perTrigger,
    inAll: limits.inAll,
    maxWaiting: limits.perTrigger * WAITING_PER_PLACE,
  });
  const cache = watchKind<Trigger, "path" | "workload">({
    client,
    resource: triggers,
    namespace,
    indexes: { path: pathOf, workload: ({ spec }) => spec.workloadRef },
    onChange({ object, previous }) {
      supervisor.look(object.metadata.name);
      // Whoever wants a path that is taken or freed by this.
      const paths = new Set([pathOf(object), previous && pathOf(previous)]);
      for (const path of paths) {
        if (path === undefined) continue;
        for (const rival of cache.store.by("path", path)) supervisor.look(rival.metadata.name);
      }
    },
    onFailure: options.onFailure,
    signal: watching.signal,
    log,
    clock,
  });
  const find = (name: string): Trigger | undefined => cache.store.get(`${namespace}/${name}`);
  const metrics = createGatewayMetrics(registry, {
    inFlight: () => turns.inFlight,
    waiting: () => turns.waiting,
    triggers: () => countByPhase(cache.store.values()),
  });
  const recorder = createEventRecorder({ client, namespace, component: COMPONENT, log });
  const events = createTriggerEvents({ recorder, clock });
  const openSecrets = createSecretReaders({ client, namespace, policy: secretPolicy, clock, log });
  const paths = createWebhookPaths();
  const timers = createTimers(clock);
  const services = {
    claims,
    activity,
    turns,
    metrics,
    events,
    log,
    cut: cut.signal,
    instance,
    leaseMs: limits.leaseMs,
  };
  let adapters = 0;

  const supervisor = superviseTriggers({
    find,
    problemOf: (trigger) => triggerProblem(trigger, cache.store.by("path", pathOf(trigger) ?? "")),
    types: {
      webhook: {
        start: createWebhookStart({
          paths,
          deliveries: createDeliveries({ clock }),
          bodies: createUnverifiedBodies({ clock }),
          metrics,
          localOnly,
          maxOpen: limits.perTrigger * OPEN_PER_PLACE,
          maxOpenInAll: limits.inAll * OPEN_PER_PLACE,
          cut: cut.signal,
        }),
        replacement: "overlap",
      },
      cron: {
        start: createCronStart({
          timers,
          metrics,
          events,
          instance,
          leaseMs: limits.leaseMs,
          cut: cut.signal,
        }),
        replacement: "overlap",
      },
      messenger: { start: startMessenger, replacement: "succession" },
    },
    open({ trigger, signal, onSecretChange, report }) {
      adapters += 1;
      const secrets = openSecrets(onSecretChange);
      const context = createAdapterContext({
        trigger,
        services,
        number: adapters,
        secrets,
        report,
        put: cache.put,
        signal,
      });
      return { context, close: secrets.close };
    },
    statusOf: (name) =>
      createTriggerStatus({
        client,
        namespace,
        name,
        held: () => find(name),
        put: cache.put,
        obstacleOf: workloadTrouble,
        events,
        clock,
        log,
        signal: watching.signal,
      }),
    clock,
    log,
  });

  let knowsWorkloads = false;
  options.workloadsSynced.then(
    () => {
      knowsWorkloads = true;
      for (const { metadata } of cache.store.values()) supervisor.look(metadata.name);
    },
    // The edge fails with it.
    () => undefined,
  );

  /** The trigger is served all the same: its events find the workload as soon as that is there. */
  function workloadTrouble({ spec }: Trigger): TriggerTrouble | undefined {
    const { workloadRef } = spec;
    const workload = options.claims.cache.workloads.store.get(`${namespace}/${workloadRef}`);
    if (workload === undefined && knowsWorkloads) {
      const message = `spec.workloadRef: workload "${workloadRef}" does not exist in namespace "${namespace}": create it, or name another`;
      return { reason: "WorkloadNotFound", message };
    }
    if (workload?.metadata.deletionTimestamp === undefined) return undefined;
    return {
      reason: "WorkloadTerminating",
      message: `spec.workloadRef: workload "${workloadRef}" is being deleted: name another`,
    };
  }

  let isSettled = false;
  const synced = cache.synced.then(async () => {
    await supervisor.settled();
    isSettled = true;
  });

  return {
    webhooks: {
      find: (path) => paths.find(path) ?? (isSettled || pathProblem(path) !== undefined ? undefined : startingUp),
    },
    synced,
    lookAtWorkload(name) {
      for (const { metadata } of cache.store.by("workload", name)) supervisor.look(metadata.name);
    },
    done: cache.done,
    isReady: () => isSettled && cache.isFresh(),
    async drain({ graceMs }) {
      const ended = supervisor.stop(["cron", "messenger"]);
      const finished = await within(ended, graceMs);
      if (finished) return true;
      cut.abort(new Error("the gateway stops"));
      await within(ended, CUT_MS);
      return false;
    },
    async close() {
      cut.abort(new Error("the gateway stops"));
      await within(supervisor.stop(["webhook", "cron", "messenger"]), CUT_MS);
      timers.close();
      await within(recorder.flush(), CUT_MS);
      watching.abort();
      await cache.done;
    },
  };
}

/** Until the first look is over, a path without a holder may get one in a moment. */
async function startingUp(): Promise<never> {
  throw new HttpError(503, "the triggers are not in cache yet; try again shortly", { headers: { "retry-after": "1" } });
}

function pathOf({ spec }: Trigger): string | undefined {
  return spec.type === "webhook" ? spec.config.path : undefined;
}

function countByPhase(all: Iterable<Trigger>): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { status } of all) {
    const phase = status?.phase ?? "none";
    counts.set(phase, (counts.get(phase) ?? 0) + 1);
  }
  return counts;
}
