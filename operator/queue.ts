import { type Backoff, createBackoff } from "../crds/client/backoff.ts";
import { type Clock, systemClock } from "../crds/client/clock.ts";
import type { Log } from "../crds/log.ts";

/** The result of a reconcile: undefined, or a delay after which the key is reconciled again without an event. */
export type ReconcileResult = { requeueAfterMs: number } | undefined;

export interface Reconciler<Name extends string> {
  readonly name: Name;
  /** Lower numbers go first. */
  readonly priority: number;
  /** The most concurrent reconciles, so that slow work of one controller leaves room for the others. */
  readonly concurrency: number;
  /**
   * The delay of an `add` without `afterMs`, in milliseconds, so that several changes take one reconcile.
   *
   * @default 0
   */
  readonly batchMs?: (key: string) => number;
  /**
   * Brings one object's actual state closer to its desired state. If it throws, it is tried again with backoff.
   *
   * @param options.signal aborted when the queue stops, for long work that may be interrupted
   */
  reconcile(key: string, options: { signal: AbortSignal }): Promise<ReconcileResult>;
}

export interface Queue<Name extends string> {
  /** Requests a reconcile now, or after a delay; of several requests, the earliest counts. */
  add(controller: Name, key: string, options?: { afterMs?: number }): void;
  /** The number of a controller's keys that wait or run. */
  depth(controller: Name): number;
  /** Accepts no more keys, aborts the signal of running reconciles, and waits for their end. */
  stop(): Promise<void>;
}

interface Entry<Name extends string> {
  controller: Work<Name>;
  key: string;
  state: "idle" | "waiting" | "running" | "running-dirty";
  /** Set from its first failure to its next success. */
  backoff: Backoff | undefined;
  cancelTimer: () => void;
  /** When its timer is due, in the clock's milliseconds; infinite without one. */
  dueAt: number;
}

/** One controller's part of the queue. */
interface Work<Name extends string> extends Reconciler<Name> {
  readonly waiting: Set<Entry<Name>>;
  readonly running: Set<Promise<void>>;
}

const nothing = (): void => undefined;

// setTimeout takes 31 bits of milliseconds and fires at once for more, so a longer delay is split into steps.
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/**
 * A queue of keys to reconcile, as in controller-runtime. A key is in it once and is never reconciled twice at the same
 * time. If it is added during its reconcile, it runs again. If its reconcile throws, the key backs off; an event ends
 * the backoff early.
 */
export function createQueue<Name extends string>(options: {
  controllers: readonly Reconciler<Name>[];
  log: Log;
  onReconciled?: (result: { controller: Name; outcome: "done" | "failed"; seconds: number }) => void;
  /** The wait after a key's first failure, in milliseconds. @default 200 */
  firstBackoffMs?: number;
  /** The longest wait after a failure, in milliseconds. @default 60000 */
  maximumBackoffMs?: number;
  /** Whether an error is worth a log line; errors that only say "look again" are not. @default every error is */
  isWorthLogging?: (error: unknown) => boolean;
  clock?: Clock;
}): Queue<Name> {
  const {
    controllers,
    log,
    firstBackoffMs = 200,
    maximumBackoffMs = 60_000,
    isWorthLogging = () => true,
    clock = systemClock,
  } = options;
  const byPriority: readonly Work<Name>[] = [...controllers]
    .sort((a, b) => a.priority - b.priority)
    .map((controller) => ({ ...controller, waiting: new Set(), running: new Set() }));
  const byName = new Map(byPriority.map((controller) => [controller.name, controller]));
  const entries = new Map<string, Entry<Name>>();
  const stopping = new AbortController();
  let pumpIsDue = false;

  function add(name: Name, key: string, options: { afterMs?: number } = {}): void {
    const controller = byName.get(name);
    if (controller === undefined || stopping.signal.aborted) return;
    const { afterMs = controller.batchMs?.(key) ?? 0 } = options;
    const id = `${name} ${key}`;
    let entry = entries.get(id);
    if (entry === undefined) {
      const dueAt = Number.POSITIVE_INFINITY;
      entry = { controller, key, state: "idle", backoff: undefined, cancelTimer: nothing, dueAt };
      entries.set(id, entry);
    }
    if (afterMs > 0) schedule(entry, afterMs);
    else makeReady(entry);
  }

  function schedule(entry: Entry<Name>, afterMs: number): void {
    const dueAt = clock.now() + afterMs;
    if (entry.state === "waiting" || dueAt >= entry.dueAt) return;
    entry.cancelTimer();
    entry.dueAt = dueAt;
    const stepMs = Math.min(afterMs, LONGEST_TIMER_MS);
    entry.cancelTimer = clock.after(stepMs, () => {
      entry.dueAt = Number.POSITIVE_INFINITY;
      // Count steps, since the clock may have been set back in the meantime.
      if (afterMs > stepMs) schedule(entry, afterMs - stepMs);
      else makeReady(entry);
    });
  }

  function makeReady(entry: Entry<Name>): void {
    entry.cancelTimer();
    entry.dueAt = Number.POSITIVE_INFINITY;
    if (entry.state === "running" || entry.state === "running-dirty") {
      entry.state = "running-dirty";
      return;
    }
    entry.state = "waiting";
    entry.controller.waiting.add(entry);
    if (pumpIsDue) return;
    pumpIsDue = true;
    queueMicrotask(pump);
  }

  function pump(): void {
    pumpIsDue = false;
    if (stopping.signal.aborted) return;
    for (const { concurrency, waiting, running } of byPriority) {
      for (const entry of waiting) {
        if (running.size >= concurrency) break;
        waiting.delete(entry);
        entry.state = "running";
        const work: Promise<void> = run(entry).finally(() => {
          running.delete(work);
          pump();
        });
        running.add(work);
      }
    }
  }

  async function run(entry: Entry<Name>): Promise<void> {
    const { key, controller } = entry;
    const { name } = controller;
    const { signal } = stopping;
    const started = performance.now();
    let retryAfterMs: number | undefined;
    try {
      retryAfterMs = (await controller.reconcile(key, { signal }))?.requeueAfterMs;
      entry.backoff = undefined;
      options.onReconciled?.({ controller: name, outcome: "done", seconds: (performance.now() - started) / 1000 });
    } catch (error) {
      entry.backoff ??= createBackoff({ initialMs: firstBackoffMs, maxMs: maximumBackoffMs });
      retryAfterMs = entry.backoff.next();
      options.onReconciled?.({ controller: name, outcome: "failed", seconds: (performance.now() - started) / 1000 });
      if (!signal.aborted && isWorthLogging(error)) {
        log.warn({ controller: name, key, retryAfterMs: Math.round(retryAfterMs), error }, "reconcile failed");
      }
    }
    const wasAddedMeanwhile = entry.state === "running-dirty";
    entry.state = "idle";
    if (signal.aborted) return;
    // If a key changed while its reconcile failed, it still waits for its backoff: the change is usually the echo of
    // its own writes.
    if (wasAddedMeanwhile && entry.backoff === undefined) makeReady(entry);
    else if (retryAfterMs !== undefined) schedule(entry, retryAfterMs);
    else if (entry.dueAt === Number.POSITIVE_INFINITY) entries.delete(`${name} ${key}`);
  }

  async function stop(): Promise<void> {
    stopping.abort(new Error("the operator stops"));
    for (const entry of entries.values()) entry.cancelTimer();
    await Promise.all(byPriority.flatMap(({ running }) => [...running]));
    entries.clear();
  }

  function depth(name: Name): number {
    const { waiting, running } = byName.get(name) ?? {};
    return (waiting?.size ?? 0) + (running?.size ?? 0);
  }

  return { add, stop, depth };
}
