import { createBackoff } from "../../../crds/client/backoff.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import { describeError } from "../../../crds/describe-error.ts";
import type { Log } from "../../../crds/log.ts";
import type { Trigger, TriggerSpec } from "../../../crds/trigger.ts";
import type { Adapter, AdapterContext, StartAdapter } from "../adapter.ts";
import type { TriggerStatusWriter } from "./trigger-status.ts";

/** How a type of trigger is served. */
export interface ServedType {
  readonly start: StartAdapter;
  /**
   * How an edited trigger's adapter follows the one before: `overlap`, the new one serves before the old one stops, so that nothing comes
   * in between; `succession`, only when nothing of the old one runs any longer.
   */
  readonly replacement: "overlap" | "succession";
}

/** Keeps one adapter running for every trigger that can be served. */
export interface Supervisor {
  /** Looks at a trigger anew, by its name: starts, replaces or stops its adapter. */
  look(name: string): void;
  /** Resolves when every trigger that was looked at so far is served or shows why not. */
  settled(): Promise<void>;
  /** Stops the adapters of those types, and resolves when nothing of them runs any longer. */
  stop(types: readonly TriggerSpec["type"][]): Promise<void>;
}

interface Running {
  readonly trigger: Trigger;
  readonly stop: AbortController;
  /** Resolves when nothing of it runs any longer. */
  readonly ended: Promise<void>;
}

interface Seat {
  /** What the adapter or the trouble shown is for; undefined: nothing yet, or it is to be tried again. */
  servedAs: string | undefined;
  running: Running | undefined;
  looking: Promise<void> | undefined;
  dirty: boolean;
  readonly status: TriggerStatusWriter;
  readonly backoff: ReturnType<typeof createBackoff>;
  cancelRetry: () => void;
  /** Closes what a failed start left open to be told when to try again. */
  closeFailed: () => void;
}

/** An adapter that ran so long was well. */
const HEALTHY_MS = 60_000;

/** Makes a supervisor; triggers do not wait for each other, and what one throws harms no other. */
export function superviseTriggers(options: {
  /** The trigger as it is now; undefined when it is gone. */
  find: (name: string) => Trigger | undefined;
  /** Why a trigger cannot be served. */
  problemOf: (trigger: Trigger) => string | undefined;
  types: Readonly<Record<TriggerSpec["type"], ServedType>>;
  /** Makes a context for an adapter that is about to be started; `close` when nothing of it runs any longer. */
  open: (options: {
    trigger: Trigger;
    signal: AbortSignal;
    onSecretChange: () => void;
    report: AdapterContext["report"];
  }) => { context: AdapterContext; close: () => void };
  statusOf: (name: string) => TriggerStatusWriter;
  clock: Clock;
  log: Log;
}): Supervisor {
  const { find, problemOf, types, open, statusOf, clock, log } = options;
  const seats = new Map<string, Seat>();
  /** Everything that is not quite over yet. */
  const alive = new Set<Running>();
  const stopped = new Set<TriggerSpec["type"]>();

  function look(name: string): void {
    const seat = seats.get(name) ?? createSeat(name);
    seats.set(name, seat);
    seat.dirty = true;
    seat.looking ??= settle(name, seat)
      .catch((error: unknown) => retryLater(seat, name, error))
      .finally(() => {
        seat.looking = undefined;
        if (seat.dirty) look(name);
      });
  }

  /** Tries a trigger again for which even finding out what to do has failed. */
  function retryLater(seat: Seat, name: string, error: unknown): void {
    log.error({ trigger: name, error: describeError(error) }, "trigger cannot be looked at, the others go on");
    const trigger = find(name);
    if (trigger !== undefined) seat.status.show(trigger, error instanceof Error ? error.message : String(error));
    seat.servedAs = undefined;
    seat.cancelRetry();
    seat.cancelRetry = clock.after(seat.backoff.next(), () => again(seat, name));
  }

  function createSeat(name: string): Seat {
    return {
      servedAs: undefined,
      running: undefined,
      looking: undefined,
      dirty: false,
      status: statusOf(name),
      backoff: createBackoff({ initialMs: 1000, maxMs: 60_000 }),
      cancelRetry: nothing,
      closeFailed: nothing,
    };
  }

  async function settle(name: string, seat: Seat): Promise<void> {
    while (seat.dirty) {
      seat.dirty = false;
      const found = find(name);
      const trigger = found?.metadata.deletionTimestamp === undefined ? found : undefined;
      if (trigger === undefined) {
        quit(seat);
        endRunning(seat);
        if (!seat.dirty) seats.delete(name);
        continue;
      }
      const problem = problemOf(trigger);
      const wanted = JSON.stringify([trigger.metadata.uid, trigger.spec, problem]);
      if (seat.servedAs !== wanted && !stopped.has(trigger.spec.type)) {
        quit(seat);
        if (seat.servedAs !== undefined) seat.backoff.reset();
        seat.servedAs = wanted;
        if (problem === undefined) {
          await replace(seat, trigger);
        } else {
          endRunning(seat);
          seat.status.show(trigger, problem);
        }
      }
      seat.status.recheck();
    }
  }

  /** Ends the waiting for another try. */
  function quit(seat: Seat): void {
    seat.cancelRetry();
    seat.closeFailed();
    seat.cancelRetry = nothing;
    seat.closeFailed = nothing;
  }

  function endRunning(seat: Seat): Promise<void> {
    const { running } = seat;
    seat.running = undefined;
    running?.stop.abort(new Error("the trigger was edited or deleted"));
    return running?.ended ?? Promise.resolve();
  }

  async function replace(seat: Seat, trigger: Trigger): Promise<void> {
    const { name } = trigger.metadata;
    const type = types[trigger.spec.type];
    const isSuccession =
      type.replacement === "succession" ||
      (seat.running !== undefined && types[seat.running.trigger.spec.type].replacement === "succession");
    if (isSuccession) await endRunning(seat);
    const stop = new AbortController();
    let running: Running | undefined;
    let trouble: string | undefined;
    const { context, close } = open({
      trigger,
      signal: stop.signal,
      onSecretChange() {
        if (running === undefined) again(seat, name);
      },
      report(reported) {
        if (stop.signal.aborted) return;
        trouble = reported;
        // What is reported while the adapter starts is shown when it has.
        if (running !== undefined) seat.status.show(trigger, reported);
      },
    });
    try {
      const adapter = await type.start(context);
      running = follow(adapter, { seat, trigger, stop, close });
    } catch (error) {
      stop.abort();
      log.warn({ trigger: name, error: describeError(error) }, "trigger cannot be served");
      endRunning(seat);
      seat.status.show(trigger, error instanceof Error ? error.message : String(error));
      seat.closeFailed = close;
      seat.cancelRetry = clock.after(seat.backoff.next(), () => again(seat, name));
      return;
    }
    endRunning(seat);
    seat.running = running;
    seat.status.show(trigger, trouble);
    log.info({ trigger: name, type: trigger.spec.type }, "trigger is served");
  }

  /** Sees to the end of an adapter; one that ends by itself is started anew. */
  function follow(
    adapter: Adapter,
    { seat, trigger, stop, close }: { seat: Seat; trigger: Trigger; stop: AbortController; close: () => void },
  ): Running {
    const { name } = trigger.metadata;
    const startedAt = clock.now();
    let failure: unknown;
    const ended = adapter.done
      .catch((error: unknown) => {
        failure = error;
      })
      .then(() => {
        close();
        alive.delete(running);
        if (failure !== undefined) log.error({ trigger: name, error: describeError(failure) }, "adapter failed");
        if (stop.signal.aborted || seat.running !== running) return;
        stop.abort();
        seat.running = undefined;
        const why = failure instanceof Error ? failure.message : "it ended by itself";
        seat.status.show(trigger, `the adapter stopped and is started again: ${why}`);
        if (clock.now() - startedAt > HEALTHY_MS) seat.backoff.reset();
        seat.cancelRetry = clock.after(seat.backoff.next(), () => again(seat, name));
      });
    const running: Running = { trigger, stop, ended };
    alive.add(running);
    return running;
  }

  function again(seat: Seat, name: string): void {
    if (seats.get(name) !== seat) return;
    seat.servedAs = undefined;
    look(name);
  }

  return {
    look,
    async settled() {
      await Promise.all([...seats.values()].map(({ looking }) => looking));
    },
    async stop(all) {
      for (const type of all) stopped.add(type);
      await Promise.all([...seats.values()].map(({ looking }) => looking));
      for (const seat of seats.values()) {
        if (seat.running !== undefined && !stopped.has(seat.running.trigger.spec.type)) continue;
        quit(seat);
        void endRunning(seat);
      }
      await Promise.all([...alive].filter(({ stop }) => stop.signal.aborted).map(({ ended }) => ended));
    },
  };
}

function nothing(): void {
  // There is nothing to end.
}
