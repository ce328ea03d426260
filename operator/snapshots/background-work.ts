import { createBackoff } from "../../crds/client/backoff.ts";
import { type Clock, systemClock } from "../../crds/client/clock.ts";

/** Where one piece of work stands. */
export type WorkState<T> =
  | { readonly state: "running" }
  | { readonly state: "done"; readonly value: T }
  /** It is run again when it is asked for after `retryInMs` milliseconds. */
  | { readonly state: "failed"; readonly error: unknown; readonly failures: number; readonly retryInMs: number };

/** Work that takes too long for a reconcile: it is begun by one run of the reconciler, and a later run finds what came of it. */
export interface BackgroundWork<T> {
  /**
   * Says where the work of that id stands; begins it where there is none, and again where it has failed and its back-off is over.
   *
   * @param wake called when it has ended, either way
   */
  run(id: string, work: (signal: AbortSignal) => Promise<T>, wake: () => void): WorkState<T>;
  /**
   * Lets what has failed be run again at once: what it failed for may be mended.
   *
   * @param id @default everything
   */
  hurry(id?: string): void;
  /** Forgets how the work ended, and aborts it where it has not. */
  forget(id: string): void;
  /** Aborts everything and waits for its end. */
  stop(): Promise<void>;
}

interface Entry<T> {
  result: WorkState<T> | undefined;
  retryAt: number;
  failures: number;
  backoff: ReturnType<typeof createBackoff>;
  abort: AbortController;
}

/** Runs at most `concurrency` pieces of work at once, the others in the order in which they were asked for. */
export function createBackgroundWork<T>(options: {
  concurrency: number;
  /** @default 1000 */
  firstBackoffMs?: number;
  /** @default 300000 */
  maximumBackoffMs?: number;
  clock?: Clock;
}): BackgroundWork<T> {
  const { concurrency, firstBackoffMs = 1000, maximumBackoffMs = 300_000, clock = systemClock } = options;
  const entries = new Map<string, Entry<T>>();
  const waiting: (() => Promise<void>)[] = [];
  const running = new Set<Promise<void>>();
  let stopped = false;

  function pump(): void {
    while (!stopped && running.size < concurrency) {
      const next = waiting.shift();
      if (next === undefined) return;
      const work: Promise<void> = next().finally(() => {
        running.delete(work);
        pump();
      });
      running.add(work);
    }
  }

  function begin(entry: Entry<T>, work: (signal: AbortSignal) => Promise<T>, wake: () => void): void {
    entry.result = undefined;
    entry.abort = new AbortController();
    const { signal } = entry.abort;
    waiting.push(async () => {
      if (signal.aborted) return;
      try {
        const value = await work(signal);
        if (signal.aborted) return;
        entry.result = { state: "done", value };
      } catch (error) {
        if (signal.aborted) return;
        entry.failures += 1;
        const retryInMs = entry.backoff.next();
        entry.retryAt = clock.now() + retryInMs;
        entry.result = { state: "failed", error, failures: entry.failures, retryInMs };
      }
      wake();
    });
    pump();
  }

  return {
    run(id, work, wake) {
      let entry = entries.get(id);
      if (entry === undefined) {
        const backoff = createBackoff({ initialMs: firstBackoffMs, maxMs: maximumBackoffMs });
        entry = { result: undefined, retryAt: 0, failures: 0, backoff, abort: new AbortController() };
        entries.set(id, entry);
        begin(entry, work, wake);
      } else if (entry.result?.state === "failed") {
        const retryInMs = entry.retryAt - clock.now();
        if (retryInMs > 0) return { ...entry.result, retryInMs };
        begin(entry, work, wake);
      }
      return entry.result ?? { state: "running" };
    },
    hurry(id) {
      for (const [own, entry] of entries) {
        if (id !== undefined && own !== id) continue;
        entry.retryAt = 0;
        entry.backoff.reset();
      }
    },
    forget(id) {
      entries.get(id)?.abort.abort(new Error("nobody waits for it any longer"));
      entries.delete(id);
    },
    async stop() {
      stopped = true;
      waiting.length = 0;
      for (const { abort } of entries.values()) abort.abort(new Error("the operator stops"));
      await Promise.all(running);
      entries.clear();
    },
  };
}
