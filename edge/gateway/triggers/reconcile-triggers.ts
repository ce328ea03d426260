import { createBackoff } from "../../../crds/client/backoff.ts";
import type { Clock } from "../../../crds/client/clock.ts";
import { describeError } from "../../../crds/describe-error.ts";
import type { Log } from "../../../crds/log.ts";
import type { Trigger, TriggerSpec } from "../../../crds/trigger.ts";
import type { Adapter, AdapterContext, StartAdapter } from "../adapter.ts";
import { mayPass } from "./trigger-problem.ts";
import type { TriggerStatusWriter } from "./trigger-status.ts";

export interface AdapterType {
  readonly start: StartAdapter;
  /**
   * How the adapter of an edited trigger is replaced: `overlap` starts the new one before stopping the old one, so that
   * no event is missed; `succession` waits until the old one has ended.
   */
  readonly replacement: "overlap" | "succession";
  /** Whether it fetches its events itself, so that it is stopped before adapters that receive events. */
  readonly pulls: boolean;
}

/** Keeps one adapter running for every trigger that can be served. */
export interface TriggerReconciler {
  /** Reconciles a trigger by name: starts, replaces or stops its adapter. */
  enqueue(name: string): void;
  /** Resolves when every trigger enqueued so far is served or reports why not. */
  idle(): Promise<void>;
  /** Stops the adapters that pull, or all, and starts none of them again; resolves when they have ended. */
  stop(which: "pulling" | "all"): Promise<void>;
}

interface Running {
  readonly trigger: Trigger;
  readonly stop: AbortController;
  /** Resolves when the adapter has ended. */
  readonly ended: Promise<void>;
}

/** The state of one trigger. */
interface Runner {
  /** Uid, spec and problem of the last reconcile; undefined if there was none, or it must be retried. */
  reconciled: string | undefined;
  running: Running | undefined;
  reconciling: Promise<void> | undefined;
  dirty: boolean;
  readonly status: TriggerStatusWriter;
  readonly backoff: ReturnType<typeof createBackoff>;
  cancelRetry: () => void;
  /** Closes the context of a failed start, which stays open to be notified of changed Secrets. */
  closeFailed: () => void;
  /** The logged problems, by log message. */
  readonly logged: Map<string, string>;
}

/** An adapter that has run for this long counts as healthy. */
const HEALTHY_MS = 60_000;
const NOT_STARTED = "trigger adapter not started";

/** Makes a reconciler; triggers do not wait for each other, and an error of one does not affect the others. */
export function reconcileTriggers(options: {
  /** The current trigger; undefined if it is gone. */
  find: (name: string) => Trigger | undefined;
  /** Why a trigger cannot be served. */
  problemOf: (trigger: Trigger) => string | undefined;
  types: Readonly<Record<TriggerSpec["type"], AdapterType>>;
  /** Makes the context of an adapter that is about to start; `close` is called when the adapter has ended. */
  open: (options: {
    trigger: Trigger;
    signal: AbortSignal;
    onSecretChange: () => void;
    report: AdapterContext["report"];
  }) => { context: AdapterContext; close: () => void };
  statusOf: (name: string) => TriggerStatusWriter;
  clock: Clock;
  log: Log;
}): TriggerReconciler {
  const { find, problemOf, types, open, statusOf, clock, log } = options;
  const runners = new Map<string, Runner>();
  /** Adapters that have not ended yet, replaced ones included. */
  const alive = new Set<Running>();
  let stopped: "none" | "pulling" | "all" = "none";

  function isStopped({ spec }: Trigger): boolean {
    return stopped === "all" || (stopped === "pulling" && types[spec.type].pulls);
  }

  function enqueue(name: string): void {
    const runner = runners.get(name) ?? createRunner(name);
    runners.set(name, runner);
    runner.dirty = true;
    runner.reconciling ??= reconcile(name, runner)
      .catch((error: unknown) => retryLater(runner, name, error))
      .finally(() => {
        runner.reconciling = undefined;
        if (runner.dirty) enqueue(name);
      });
  }

  /** Retries a trigger whose reconcile has thrown. */
  function retryLater(runner: Runner, name: string, error: unknown): void {
    logProblem(runner, { trigger: name, error, level: "error", message: "trigger reconcile failed" });
    const trigger = find(name);
    if (trigger !== undefined) runner.status.write(trigger, error instanceof Error ? error.message : String(error));
    runner.reconciled = undefined;
    runner.cancelRetry();
    runner.cancelRetry = clock.after(runner.backoff.next(), () => retry(runner, name));
  }

  /** Logs a problem once, not with each retry. */
  function logProblem(
    { logged }: Runner,
    problem: { trigger: string; error: unknown; level: "warn" | "error"; message: string },
  ): void {
    const { trigger, error, level, message } = problem;
    const why = error instanceof Error ? error.message : String(error);
    log[logged.get(message) === why ? "debug" : level]({ trigger, error: describeError(error) }, message);
    logged.set(message, why);
  }

  function createRunner(name: string): Runner {
    return {
      reconciled: undefined,
      running: undefined,
      reconciling: undefined,
      dirty: false,
      status: statusOf(name),
      backoff: createBackoff({ initialMs: 1000, maxMs: 60_000 }),
      cancelRetry: nothing,
      closeFailed: nothing,
      logged: new Map(),
    };
  }

  async function reconcile(name: string, runner: Runner): Promise<void> {
    while (runner.dirty) {
      runner.dirty = false;
      const found = find(name);
      const trigger = found?.metadata.deletionTimestamp === undefined ? found : undefined;
      if (trigger === undefined) {
        cancelRetry(runner);
        stopAdapter(runner);
        if (!runner.dirty) runners.delete(name);
        continue;
      }
      const problem = problemOf(trigger);
      const wanted = JSON.stringify([trigger.metadata.uid, trigger.spec, problem]);
      if (runner.reconciled !== wanted && !isStopped(trigger)) {
        cancelRetry(runner);
        if (runner.reconciled !== undefined) runner.backoff.reset();
        runner.reconciled = wanted;
        if (problem === undefined) {
          await replaceAdapter(runner, trigger);
        } else {
          stopAdapter(runner);
          runner.status.write(trigger, problem);
        }
      }
      runner.status.recheck();
    }
  }

  function cancelRetry(runner: Runner): void {
    runner.cancelRetry();
    runner.closeFailed();
    runner.cancelRetry = nothing;
    runner.closeFailed = nothing;
  }

  function stopAdapter(runner: Runner): Promise<void> {
    const { running } = runner;
    runner.running = undefined;
    running?.stop.abort(new Error("the trigger was edited or deleted"));
    return running?.ended ?? Promise.resolve();
  }

  async function replaceAdapter(runner: Runner, trigger: Trigger): Promise<void> {
    const { name } = trigger.metadata;
    const type = types[trigger.spec.type];
    const isSuccession =
      type.replacement === "succession" ||
      (runner.running !== undefined && types[runner.running.trigger.spec.type].replacement === "succession");
    if (isSuccession) await stopAdapter(runner);
    const stop = new AbortController();
    let running: Running | undefined;
    let reported: Parameters<AdapterContext["report"]> = [undefined];
    const { context, close } = open({
      trigger,
      signal: stop.signal,
      onSecretChange() {
        if (running === undefined) retry(runner, name);
      },
      report(...problem) {
        if (stop.signal.aborted) return;
        reported = problem;
        // A problem reported during the start is written after it.
        if (running !== undefined) runner.status.write(trigger, ...problem);
      },
    });
    try {
      const adapter = await type.start(context);
      running = watchAdapter(adapter, { runner, trigger, stop, close });
    } catch (error) {
      stop.abort();
      logProblem(runner, { trigger: name, error, level: "warn", message: NOT_STARTED });
      stopAdapter(runner);
      const why = error instanceof Error ? error.message : String(error);
      runner.status.write(trigger, why, { mayPass: mayPass(error) });
      runner.closeFailed = close;
      runner.cancelRetry = clock.after(runner.backoff.next(), () => retry(runner, name));
      return;
    }
    stopAdapter(runner);
    runner.running = running;
    runner.logged.delete(NOT_STARTED);
    runner.status.write(trigger, ...reported);
    log.info({ trigger: name, type: trigger.spec.type }, "trigger adapter started");
  }

  /** Cleans up after an adapter; one that ends by itself is restarted. */
  function watchAdapter(
    adapter: Adapter,
    { runner, trigger, stop, close }: { runner: Runner; trigger: Trigger; stop: AbortController; close: () => void },
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
        if (failure !== undefined)
          logProblem(runner, { trigger: name, error: failure, level: "error", message: "trigger adapter failed" });
        if (stop.signal.aborted || runner.running !== running) return;
        stop.abort();
        runner.running = undefined;
        const why = failure instanceof Error ? failure.message : "it ended by itself";
        runner.status.write(trigger, `the adapter stopped and is being restarted: ${why}`, { mayPass: true });
        if (clock.now() - startedAt > HEALTHY_MS) {
          runner.backoff.reset();
          runner.logged.clear();
        }
        runner.cancelRetry = clock.after(runner.backoff.next(), () => retry(runner, name));
      });
    const running: Running = { trigger, stop, ended };
    alive.add(running);
    return running;
  }

  function retry(runner: Runner, name: string): void {
    if (runners.get(name) !== runner) return;
    runner.reconciled = undefined;
    enqueue(name);
  }

  async function idle(): Promise<void> {
    await Promise.all([...runners.values()].map(({ reconciling }) => reconciling));
  }

  return {
    enqueue,
    idle,
    async stop(which) {
      if (stopped !== "all") stopped = which;
      await idle();
      for (const runner of runners.values()) {
        if (runner.running !== undefined && !isStopped(runner.running.trigger)) continue;
        cancelRetry(runner);
        void stopAdapter(runner);
      }
      await Promise.all([...alive].filter(({ stop }) => stop.signal.aborted).map(({ ended }) => ended));
    },
  };
}

function nothing(): void {
  // There is nothing to cancel.
}
