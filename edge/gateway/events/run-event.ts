import { claimKey } from "../../../crds/claims/claim-key.ts";
import { isDestroyed } from "../../../crds/claims/claim-pod.ts";
import type { ClaimResponse } from "../../../crds/claims/claim-response.ts";
import { describeError } from "../../../crds/describe-error.ts";
import type { Log } from "../../../crds/log.ts";
import { inSpan, type Span } from "../../../crds/tracing/tracer.ts";
import type { Trigger } from "../../../crds/trigger.ts";
import { linkSignals } from "../../../crds/waits.ts";
import type { Activity } from "../../activity.ts";
import type { ClaimServices } from "../../api/claims/claim-services.ts";
import { claimStep } from "../../api/claims/claim-step.ts";
import { ReleasedMeanwhile } from "../../api/claims/claim-tenant.ts";
import { joinSession } from "../../api/claims/join-session.ts";
import type { Delivery } from "../../api/deliveries.ts";
import type { ClusterCache } from "../../cluster/watch-cluster.ts";
import { HttpError } from "../../http/http-error.ts";
import type { ReleaseHolds } from "../../release-hold.ts";
import type { AdapterContext, IncomingEvent, Outcome, RunOptions } from "../adapter.ts";
import type { DeliverySink } from "../delivery-log.ts";
import { type Driver, DriverError, type DriverReply, type TriggerPayload } from "../drivers/driver.ts";
import type { EventResult, GatewayMetrics } from "../gateway-metrics.ts";
import type { Guard } from "../guards.ts";
import { createListedTenant, runGuards } from "../guards.ts";
import type { TriggerEvents } from "../triggers/trigger-status.ts";
import { untilPodChanges, whilePodIsCurrent } from "./claimed-pod.ts";
import { type EventSlots, TooManyWaiting } from "./event-slots.ts";
import { resolveTenant } from "./resolve-tenant.ts";

export interface EventServices {
  /** `waitLimitMs` is how long an event waits for its pod. */
  readonly claims: ClaimServices & { readonly cache: Pick<ClusterCache, "pods"> };
  readonly activity: Pick<Activity, "duringInFlight">;
  /** How long a release waits for an event that its pod is handling. */
  readonly drainMs: number;
  readonly holds: Pick<ReleaseHolds, "of">;
  readonly slots: EventSlots;
  readonly metrics: GatewayMetrics;
  readonly events: TriggerEvents;
  readonly deliveryLog: DeliverySink;
  readonly log: Log;
  /** Aborted when everything in flight must end. */
  readonly hardStop: AbortSignal;
}

/** The settings of one trigger's events. */
export interface EventPipeline {
  readonly trigger: Trigger;
  readonly guards: readonly Guard[];
  readonly driver: Driver;
  /** Reads the driver's token; undefined if it needs none. */
  readonly readToken: (() => Promise<string>) | undefined;
  /** Reads what signs the requests to the container; undefined if they are not signed. */
  readonly readSigningSecrets?: (() => Promise<readonly Buffer[]>) | undefined;
}

/** Makes the runner of a trigger's events: tenant, slot, guards, claim, driver. */
export function createEventRunner(pipeline: EventPipeline, services: EventServices): AdapterContext["run"] {
  const { trigger, guards, driver, readToken, readSigningSecrets } = pipeline;
  const { spec } = trigger;
  const { slots, metrics, events, deliveryLog, log, claims } = services;
  const { clock, cache } = claims;
  const name = trigger.metadata.name;
  const listedTenant = createListedTenant(spec.guards ?? []);

  return async (event, options) => {
    const arrivedAt = clock.now();
    const found: Found = {};
    const end = (result: EventResult, status?: number, reason?: string): void => {
      const ms = Math.max(0, clock.now() - arrivedAt);
      const { id, test } = event;
      // A test must not trigger alerts, so it is not measured; it does record Events, which alone say what failed.
      if (test !== true) metrics.observe(spec.type, result, ms / 1000);
      const delivery: Delivery = {
        id,
        at: new Date(arrivedAt).toISOString(),
        result,
        status,
        ms,
        ...found,
        reason,
        test,
      };
      deliveryLog.add(trigger, delivery);
      options.onEnded?.(delivery);
    };
    const linked = linkSignals(options.signal, services.hardStop);
    const span = startEventSpan(options.span);
    try {
      const outcome = await run(event, { signal: linked.signal, onColdStart: options.onColdStart, found, span });
      end(outcome.kind, ...shownOf(outcome));
      span?.set({ "tenancy.event.outcome": outcome.kind });
      span?.end();
      return outcome;
    } catch (error) {
      span?.end({ error });
      if (linked.signal.aborted) {
        end(
          "aborted",
          undefined,
          "the edge stopped, the trigger was edited or deleted, or a test's caller disconnected",
        );
        throw linked.signal.reason;
      }
      if (error instanceof TooManyWaiting) {
        end("rejected", 429, error.message);
        return { kind: "failed", message: error.message, status: 429 };
      }
      const { status, message, detail } = eventFailure(error);
      end("failed", status, message);
      log.warn({ trigger: name, event: event.id, error: describeError(error) }, "event failed");
      events.record(trigger, { type: "Warning", reason: "EventFailed", message: `an event got no answer: ${detail}` });
      return { kind: "failed", message, status };
    } finally {
      linked.close();
    }
  };

  function startEventSpan(parent: Span | undefined): Span | undefined {
    const title = `${spec.type} event`;
    const attributes = { "tenancy.trigger": name, "tenancy.workload": spec.workloadRef };
    return parent === undefined
      ? claims.tracer?.start(title, { kind: "consumer", attributes })
      : parent.child(title, { attributes });
  }

  async function run(event: IncomingEvent, options: RunOptions & { found: Found }): Promise<Outcome> {
    const { signal, span } = options;
    const resolved = resolveTenant(spec.tenant, event.fields);
    if ("problem" in resolved) {
      events.record(trigger, {
        type: "Warning",
        reason: "EventRefused",
        message: `an event was refused: ${resolved.problem}`,
      });
      return { kind: "refused", message: resolved.problem };
    }
    const tenantId = spec.tenant.static ?? listedTenant(resolved.tenantId);
    options.found.tenantId = tenantId;
    const payload: TriggerPayload = {
      id: event.id,
      trigger: name,
      source: spec.type,
      tenantId,
      ...(event.text !== undefined && { text: event.text }),
      data: event.data,
      receivedAt: event.receivedAt,
    };
    const tenant = spec.tenant.static === undefined ? tenantId : undefined;
    const releaseSlot = await slots.acquire({ trigger: trigger.metadata.uid ?? name, tenant }, signal);
    try {
      const guarding = guards.length > 0 ? span?.child("guards") : undefined;
      const verdict = await runGuards(guards, payload, { signal });
      guarding?.set({ "tenancy.guard.allowed": verdict.allowed });
      guarding?.end();
      signal.throwIfAborted();
      if (!verdict.allowed) {
        events.record(trigger, { type: "Normal", reason: "EventDenied", message: "a guard denied an event" });
        return { kind: "denied", message: verdict.message };
      }
      const reply = await roundTrip(payload, options);
      return { kind: "answered", reply };
    } finally {
      releaseSlot();
    }
  }

  async function roundTrip(
    payload: TriggerPayload,
    { signal, onColdStart, found, span }: RunOptions & { found: Found },
  ): Promise<DriverReply> {
    const key = { tenantId: payload.tenantId, workloadRef: spec.workloadRef };
    const step = claimStep(cache.claims.store.by("key", claimKey(key)), new Set());
    if (step.kind !== "answer" || isDestroyed(step.claim)) onColdStart?.();
    const until = clock.now() + claims.waitLimitMs;
    for (let tries = 1; ; tries += 1) {
      const limited = { ...claims, waitLimitMs: Math.max(1, until - clock.now()) };
      const claimed = await joinSession(key, limited, { signal, claim: spec.claim, span });
      found.source = claimed.source;
      found.instanceId = claimed.instanceId;
      try {
        const attributes = { "k8s.pod.name": claimed.instanceId, "tenancy.driver": spec.driver ?? "http" };
        const driving = span?.child("forward to instance", { kind: "client", attributes });
        return await inSpan(driving, () => drive(payload, claimed, signal));
      } catch (error) {
        // The pod may have been lost between the claim and the driver.
        const isRetryable = error instanceof DriverError && error.nothingSent && tries === 1;
        if (signal.aborted || !isRetryable) throw error;
      }
      log.info({ trigger: name, event: payload.id, instance: claimed.instanceId }, "pod not reached, claiming again");
      await untilPodChanges({ ...key, ...claimed }, claims, signal);
    }
  }

  async function drive(payload: TriggerPayload, claimed: ClaimResponse, signal: AbortSignal): Promise<DriverReply> {
    const { endpoint, instanceId } = claimed;
    if (endpoint === undefined || instanceId === undefined) {
      throw new HttpError(500, `the claim on workload "${spec.workloadRef}" is Active without a pod`);
    }
    return services.activity.duringInFlight(instanceId, async () => {
      const token = await readToken?.();
      const signedWith = await readSigningSecrets?.();
      const { drainMs, holds } = services;
      const followed = { ...claims, drainMs, holds };
      return whilePodIsCurrent({ ...claimed, instanceId, endpoint }, followed, signal, (pod) =>
        driver({
          payload,
          endpoint,
          options: spec.driverOptions,
          ...(token !== undefined && { token }),
          signedWith,
          ...pod,
        }),
      );
    });
  }
}

/** What is known about an event so far. */
interface Found {
  tenantId?: string | undefined;
  source?: ClaimResponse["source"] | undefined;
  instanceId?: string | undefined;
}

/** The part of an outcome that the log shows; a guard's own words are only for the event's source. */
function shownOf(outcome: Outcome): [status: number | undefined, reason?: string] {
  switch (outcome.kind) {
    case "answered":
      return [outcome.reply.status];
    case "denied":
      return [403, "a guard denied it"];
    case "refused":
      return [400, outcome.message];
    case "failed":
      return [outcome.status, outcome.message];
    default:
      return outcome satisfies never;
  }
}

/** A failure as reported to the event's source, without internals, and to the trigger's owner. */
interface EventFailure {
  /** The status for sources that use HTTP. */
  readonly status: 502 | 503 | 504;
  /** For the source. */
  readonly message: string;
  /** For the owner: what failed and, if known, why. */
  readonly detail: string;
}

/** Converts the error of a claim or a driver. */
function eventFailure(error: unknown): EventFailure {
  if (error instanceof DriverError) {
    const isLate = error.cause instanceof Error && error.cause.name === "TimeoutError";
    return isLate
      ? { status: 504, message: "the container did not answer in time", detail: error.message }
      : { status: 502, message: "the container did not answer", detail: error.message };
  }
  if (error instanceof HttpError) {
    if (error.status === 504) {
      return { status: 504, message: "the container was not ready in time; try again later", detail: error.message };
    }
    if ([429, 503].includes(error.status) || error instanceof ReleasedMeanwhile)
      return { ...unavailable, detail: error.message };
    return { status: 502, message: "the container could not be started", detail: error.message };
  }
  return { ...unavailable, detail: error instanceof Error ? error.message : String(error) };
}

const unavailable = { status: 503, message: "not available now; try again later" } as const;
