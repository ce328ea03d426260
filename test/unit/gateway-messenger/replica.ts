import type { Clock } from "../../../crds/client/clock.ts";
import type { Log } from "../../../crds/log.ts";
import type { Trigger } from "../../../crds/trigger.ts";
import { onAbort } from "../../../crds/waits.ts";
import type { AdapterContext, IncomingEvent, Outcome, StartAdapter } from "../../../edge/gateway/adapter.ts";
import type { Fetch } from "../../../edge/gateway/messenger/messenger-client.ts";
import { createMessenger } from "../../../edge/gateway/messenger/start-messenger.ts";
import { holdLease, type MemoryCluster } from "./cluster.ts";

/** What the pipeline makes of an event in a test. */
export type Run = (
  event: IncomingEvent,
  options: { signal: AbortSignal; onColdStart?: (() => void) | undefined },
) => Promise<Outcome>;

/** What happens to a process at its `step`-th call to the outside, counted from 1. */
export interface Mishap {
  readonly step: number;
  /**
   * `before`: the call is never made; `after`: it is made, and its answer never read; `freeze`: the answer is read a
   * minute late; `stop`: it is told to stop then.
   */
  readonly kind: "before" | "after" | "freeze" | "stop";
}

const FROZEN_MS = 60_000;

export interface Replica {
  readonly reports: (string | undefined)[];
  /** Those of the reports that may end without anybody's doing. */
  readonly passing: string[];
  readonly logs: string[];
  readonly events: IncomingEvent[];
  /** Calls to the outside so far. */
  steps(): number;
  /** Whether it has ended, killed or stopped. */
  gone(): boolean;
  /** Ends the process between two instructions: nothing of it runs any longer. */
  kill(): void;
  /** Cuts the process off the API server, or no longer. */
  partition(cut: boolean): void;
  /** Tells the adapter to stop; resolves when it has. */
  stop(): Promise<void>;
}

/** One process of the gateway that serves the trigger, over an in-memory cluster. */
export function startReplica(options: {
  cluster: MemoryCluster;
  trigger: Trigger;
  fetch: Fetch;
  run: Run;
  mishap?: Mishap | undefined;
  /** Of a process that serves other triggers too. */
  adapter?: StartAdapter;
}): Replica {
  const { cluster, trigger, fetch, run, mishap } = options;
  const state = cluster.open(trigger);
  const identity = {};
  const stop = new AbortController();
  const death = new AbortController();
  const reports: (string | undefined)[] = [];
  const passing: string[] = [];
  const logs: string[] = [];
  const events: IncomingEvent[] = [];
  const watchers: (() => void)[] = [];
  let steps = 0;
  let cut = false;
  let frozenUntil = 0;

  const never = () => new Promise<never>(() => undefined);

  function kill(): void {
    if (death.signal.aborted) return;
    death.abort(new Error("the process is dead"));
    for (const watcher of watchers) cluster.unwatchSecrets(watcher);
  }

  /** Time as the process has it: it stops with the process. */
  const clock: Clock = {
    now: () => cluster.clock.now(),
    after(delayMs, callback) {
      let cancel: () => void = () => undefined;
      const fire = () => {
        if (death.signal.aborted) return;
        const lateMs = frozenUntil - cluster.clock.now();
        if (lateMs > 0) cancel = cluster.clock.after(lateMs, fire);
        else callback();
      };
      cancel = cluster.clock.after(delayMs, fire);
      return () => cancel();
    },
  };

  async function step<T>(effect: () => Promise<T> | T): Promise<T> {
    if (death.signal.aborted) return never();
    const mine = ++steps === mishap?.step ? mishap.kind : undefined;
    if (mine === "before") {
      kill();
      return never();
    }
    const result = await settled(effect);
    if (mine === "after") kill();
    if (mine === "stop") void stopNow();
    if (mine === "freeze") frozenUntil = cluster.clock.now() + FROZEN_MS;
    await thawed();
    if (death.signal.aborted) return never();
    if ("error" in result) throw result.error;
    return result.value;
  }

  async function thawed(): Promise<void> {
    while (frozenUntil > cluster.clock.now() && !death.signal.aborted) {
      const lateMs = frozenUntil - cluster.clock.now();
      await new Promise<void>((resolve) => cluster.clock.after(lateMs, resolve));
    }
  }

  const write = (level: string) => (fields: object, message: string) => {
    const shown = JSON.stringify(fields, (_, value: unknown) =>
      value instanceof Error
        ? { ...value, name: value.name, message: value.message, stack: value.stack, cause: String(value.cause) }
        : value,
    );
    logs.push(`${level} ${message} ${shown}`);
  };
  const log: Log = { debug: write("debug"), info: write("info"), warn: write("warn"), error: write("error") };

  function reach(): void {
    if (cut) throw new Error("the API server cannot be reached");
  }

  const context: AdapterContext = {
    trigger,
    clock,
    log,
    signal: stop.signal,
    run: (event, how) =>
      step(() => {
        events.push(event);
        return run(event, how);
      }),
    readSecret: (ref, how) =>
      step(() => {
        if (how?.onChange !== undefined && !watchers.includes(how.onChange)) {
          const { onChange } = how;
          const watcher = () => {
            if (!death.signal.aborted) onChange();
          };
          watchers.push(watcher);
          cluster.watchSecrets(watcher);
        }
        return cluster.readSecret(ref.name);
      }),
    readState: () =>
      step(() => {
        reach();
        return state.read();
      }),
    writeState: (written) =>
      step(() => {
        reach();
        return state.write(written);
      }),
    whileHolding: (lease, work) =>
      holdLease({
        cluster,
        lease,
        holder: identity,
        clock,
        signal: stop.signal,
        reachable: () => !cut && !death.signal.aborted,
        work,
      }),
    report: (trouble, { mayPass = false } = {}) => {
      if (death.signal.aborted || reports.at(-1) === trouble) return;
      reports.push(trouble);
      if (mayPass && trouble !== undefined) passing.push(trouble);
    },
  };

  /**
   * A dead process has no connections: to let its calls fail, instead of hang, leaves no timer behind that would keep
   * the test alive.
   */
  function fetchWhileAlive(url: string, init: Parameters<Fetch>[1]): ReturnType<Fetch> {
    return new Promise((resolve, reject) => {
      const connection = new AbortController();
      const ends = [init.signal ?? undefined, death.signal].map((signal) =>
        onAbort(signal, () => connection.abort(new Error("the connection is closed"))),
      );
      if (death.signal.aborted) return reject(death.signal.reason);
      const die = onAbort(death.signal, () => reject(death.signal.reason));
      const close = () => {
        for (const end of [...ends, die]) end();
      };
      step(async () => {
        const response = await fetch(url, { ...init, signal: connection.signal });
        const body = await response.text();
        return { status: response.status, text: async () => body };
      })
        .then(resolve, reject)
        .finally(close);
    });
  }

  const start = options.adapter ?? createMessenger({ random: () => 1, fetch: fetchWhileAlive });
  const done = Promise.resolve(start(context)).then((adapter) => adapter.done);
  let stopped = false;

  async function stopNow(): Promise<void> {
    stop.abort(new Error("the edge stops"));
    await done;
    kill();
    stopped = true;
  }

  return {
    reports,
    passing,
    logs,
    events,
    steps: () => steps,
    kill,
    partition(now) {
      cut = now;
    },
    gone: () => stopped || death.signal.aborted,
    stop: stopNow,
  };
}

async function settled<T>(effect: () => Promise<T> | T): Promise<{ value: T } | { error: unknown }> {
  try {
    return { value: await effect() };
  } catch (error) {
    return { error };
  }
}
