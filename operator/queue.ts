import { type Backoff, createBackoff } from "../crds/client/backoff.ts";
import { type Clock, systemClock } from "../crds/client/clock.ts";
import type { Log } from "../crds/log.ts";

/** What a reconcile asks for: nothing, or to be run again after a delay although no event came. */
export type ReconcileResult = { requeueAfterMs: number } | undefined;

export interface Lane {
  /** Lower numbers go first. */
  priority: number;
  /** Reconciles of this lane at once, so that slow work of one lane leaves room for the others. */
  concurrency: number;
  /** Brings one object's actual state towards its desired state. Throws to be tried again with back-off. */
  reconcile(key: string): Promise<ReconcileResult>;
}

export interface Queue<LaneName extends string> {
  /** Asks for a reconcile now, or after a delay; the earliest of several asks counts. */
  add(lane: LaneName, key: string, options?: { afterMs: number }): void;
  /** Keys that wait or run, by lane. */
  depth(lane: LaneName): number;
  /** Takes no more work and waits for the reconciles under way, which are not aborted. */
  stop(): Promise<void>;
}

interface Entry {
  lane: string;
  key: string;
  state: "idle" | "waiting" | "running" | "running-dirty";
  /** Set from its first failure to its next success. */
  backoff: Backoff | undefined;
  cancelTimer: () => void;
  /** When its timer is due, in the clock's milliseconds; infinite without one. */
  dueAt: number;
}

const nothing = (): void => undefined;

// setTimeout takes 31 bits of milliseconds and fires at once beyond; a longer delay is taken in steps.
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/**
 * A queue of keys to reconcile, as in controller-runtime: a key stands in it once, is never reconciled twice at the same time, runs
 * again when it was added meanwhile, and backs off on its own when its reconcile throws. An event ends a back-off early.
 */
export function createQueue<LaneName extends string>(options: {
  lanes: Record<LaneName, Lane>;
  log: Log;
  onReconciled?: (result: { lane: LaneName; outcome: "done" | "failed"; seconds: number }) => void;
  /** The wait after a key's first failure, in milliseconds. @default 200 */
  firstBackoffMs?: number;
  /** The longest wait after a failure, in milliseconds. @default 60000 */
  maximumBackoffMs?: number;
  /** Whether an error is worth a log line; errors that only say "look again" are not. @default every error is */
  isWorthLogging?: (error: unknown) => boolean;
  clock?: Clock;
}): Queue<LaneName> {
  const {
    lanes,
    log,
    firstBackoffMs = 200,
    maximumBackoffMs = 60_000,
    isWorthLogging = () => true,
    clock = systemClock,
  } = options;
  const byPriority = (Object.keys(lanes) as LaneName[]).sort((a, b) => lanes[a].priority - lanes[b].priority);
  const entries = new Map<string, Entry>();
  const waiting = new Map<LaneName, Set<Entry>>(byPriority.map((lane) => [lane, new Set()]));
  const running = new Map<LaneName, Set<Promise<void>>>(byPriority.map((lane) => [lane, new Set()]));
  let stopped = false;
  let pumpIsDue = false;

  function add(lane: LaneName, key: string, { afterMs = 0 }: { afterMs?: number } = {}): void {
    if (stopped) return;
    const id = `${lane} ${key}`;
    let entry = entries.get(id);
    if (entry === undefined) {
      entry = { lane, key, state: "idle", backoff: undefined, cancelTimer: nothing, dueAt: Number.POSITIVE_INFINITY };
      entries.set(id, entry);
    }
    if (afterMs > 0) schedule(entry, afterMs);
    else makeReady(entry);
  }

  function schedule(entry: Entry, afterMs: number): void {
    const dueAt = clock.now() + afterMs;
    if (entry.state === "waiting" || dueAt >= entry.dueAt) return;
    entry.cancelTimer();
    entry.dueAt = dueAt;
    entry.cancelTimer = clock.after(Math.min(afterMs, LONGEST_TIMER_MS), () => {
      const remainingMs = entry.dueAt - clock.now();
      entry.dueAt = Number.POSITIVE_INFINITY;
      if (remainingMs > 1) schedule(entry, remainingMs);
      else makeReady(entry);
    });
  }

  function makeReady(entry: Entry): void {
    entry.cancelTimer();
    entry.dueAt = Number.POSITIVE_INFINITY;
    if (entry.state === "running" || entry.state === "running-dirty") {
      entry.state = "running-dirty";
      return;
    }
    entry.state = "waiting";
    waiting.get(entry.lane as LaneName)?.add(entry);
    if (pumpIsDue) return;
    pumpIsDue = true;
    queueMicrotask(pump);
  }

  function pump(): void {
    pumpIsDue = false;
    if (stopped) return;
    for (const lane of byPriority) {
      const ready = waiting.get(lane) as Set<Entry>;
      const active = running.get(lane) as Set<Promise<void>>;
      for (const entry of ready) {
        if (active.size >= lanes[lane].concurrency) break;
        ready.delete(entry);
        entry.state = "running";
        const work: Promise<void> = run(lane, entry).finally(() => {
          active.delete(work);
          pump();
        });
        active.add(work);
      }
    }
  }

  async function run(lane: LaneName, entry: Entry): Promise<void> {
    const started = performance.now();
    let retryAfterMs: number | undefined;
    try {
      retryAfterMs = (await lanes[lane].reconcile(entry.key))?.requeueAfterMs;
      entry.backoff = undefined;
      options.onReconciled?.({ lane, outcome: "done", seconds: (performance.now() - started) / 1000 });
    } catch (error) {
      entry.backoff ??= createBackoff({ initialMs: firstBackoffMs, maxMs: maximumBackoffMs });
      retryAfterMs = entry.backoff.next();
      options.onReconciled?.({ lane, outcome: "failed", seconds: (performance.now() - started) / 1000 });
      if (!stopped && isWorthLogging(error)) {
        log.warn({ lane, key: entry.key, retryAfterMs: Math.round(retryAfterMs), error }, "reconcile failed");
      }
    }
    const wasAddedMeanwhile = entry.state === "running-dirty";
    entry.state = "idle";
    if (stopped) return;
    // A key that changed while its reconcile failed still waits out its back-off: the change is mostly the echo of its own writes.
    if (wasAddedMeanwhile && entry.backoff === undefined) makeReady(entry);
    else if (retryAfterMs !== undefined) schedule(entry, retryAfterMs);
    else if (entry.dueAt === Number.POSITIVE_INFINITY) entries.delete(`${lane} ${entry.key}`);
  }

  async function stop(): Promise<void> {
    stopped = true;
    for (const entry of entries.values()) entry.cancelTimer();
    await Promise.all([...running.values()].flatMap((active) => [...active]));
    entries.clear();
  }

  return { add, stop, depth: (lane) => (waiting.get(lane)?.size ?? 0) + (running.get(lane)?.size ?? 0) };
}
