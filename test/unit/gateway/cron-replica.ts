import { triggers } from "../../../crds/kinds.ts";
import type { Trigger, TriggerSpec } from "../../../crds/trigger.ts";
import type { Adapter, AdapterContext, IncomingEvent, Outcome } from "../../../edge/gateway/adapter.ts";
import { createCronStart } from "../../../edge/gateway/cron/start-cron.ts";
import { createTimers } from "../../../edge/gateway/cron/timers.ts";
import { createDeliveryLog } from "../../../edge/gateway/delivery-log.ts";
import { createTriggerState } from "../../../edge/gateway/triggers/trigger-state.ts";
import type { ManualClock } from "../manual-clock.ts";
import type { MemoryApi } from "../memory-api.ts";
import { silentLog } from "../silent-log.ts";

/** One edge process that serves a cron trigger. */
export interface CronReplica {
  readonly adapter: Adapter;
  /** Every occurrence that it ran, when the clock showed what. */
  readonly fired: { id: string; at: string }[];
  readonly missed: () => number;
  /** A clean stop; what runs may end. */
  stop(): Promise<void>;
  /** A clean stop whose grace is over. */
  cut(): Promise<void>;
  /** The process is gone: nothing of it reaches the cluster any more. */
  die(): void;
}

export function cronTrigger(config: TriggerSpec["config"], createdAt = "2020-01-01T00:00:00Z"): Trigger {
  return {
    metadata: { name: "tick", namespace: "tenancy", uid: "u", generation: 1, creationTimestamp: createdAt },
    spec: { type: "cron", workloadRef: "app", tenant: { static: "a" }, config },
  };
}

let processes = 0;

export async function startReplica(options: {
  clock: ManualClock;
  api: MemoryApi;
  trigger: Trigger;
  leaseMs?: number;
  /** What an event comes to; it may wait, and must heed the signal. */
  run?: (event: IncomingEvent, signal: AbortSignal) => Promise<Outcome>;
}): Promise<CronReplica> {
  const { clock, api, trigger } = options;
  const stopping = new AbortController();
  const cutting = new AbortController();
  const fired: CronReplica["fired"] = [];
  let missed = 0;
  let isDead = false;
  if (!api.has(triggers, trigger.metadata.name)) api.add(triggers, trigger);
  const state = createTriggerState({ cluster: api.cluster, trigger });
  const never = new Promise<never>(() => undefined);
  const alive = async <T>(call: () => Promise<T>): Promise<T> => (isDead ? never : call());
  const timers = createTimers({
    now: clock.now,
    after: (delayMs, callback) => clock.after(delayMs, () => isDead || callback()),
  });
  processes += 1;
  const start = createCronStart({
    timers,
    metrics: {
      count() {
        missed += 1;
      },
    },
    events: { record: () => undefined },
    deliveryLog: createDeliveryLog(),
    instance: `process-${processes}`,
    leaseMs: options.leaseMs ?? 10_000,
    hardStop: cutting.signal,
  });
  const answered: Outcome = {
    kind: "answered",
    reply: { status: 200, contentType: "text/plain", body: new Uint8Array(), text: "" },
  };
  const context: AdapterContext = {
    trigger,
    clock,
    log: silentLog,
    signal: stopping.signal,
    async run(event, { signal }) {
      fired.push({ id: event.id, at: new Date(clock.now()).toISOString() });
      const ended = new Promise<never>((_, reject) => {
        for (const one of [signal, cutting.signal]) one.addEventListener("abort", () => reject(one.reason));
      });
      return Promise.race([options.run?.(event, signal) ?? answered, ended]);
    },
    readState: () => alive(state.read),
    writeState: (written) => alive(() => state.write(written)),
    readSecret: () => Promise.reject(new Error("none")),
    whileHolding: () => Promise.reject(new Error("none")),
    report: () => undefined,
  };
  const adapter = await start(context);
  return {
    adapter: adapter as Adapter,
    fired,
    missed: () => missed,
    async stop() {
      stopping.abort(new Error("stopped"));
      await adapter.done;
    },
    async cut() {
      stopping.abort(new Error("stopped"));
      cutting.abort(new Error("cut"));
      await adapter.done;
    },
    die() {
      isDead = true;
    },
  };
}
