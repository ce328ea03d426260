import type { Clock } from "../../../crds/client/clock.ts";

/** Callbacks at wall-clock times, all on one timer. */
export interface Timers {
  /** Calls back once, as soon as the clock shows that time or a later one; returns a function that cancels it. */
  at(time: number, callback: () => void): () => void;
  close(): void;
}

interface Entry {
  readonly time: number;
  readonly callback: () => void;
  isCancelled: boolean;
}

/** A clock that is set forward is noticed within this time; one that is set back fires nothing early. */
const LONGEST_SLEEP_MS = 30_000;

/** Makes timers over a heap of times, with a single timer of the clock. */
export function createTimers(clock: Clock): Timers {
  const heap: Entry[] = [];
  let armed: { cancel: () => void; time: number } | undefined;

  function arm(): void {
    while (heap[0]?.isCancelled) pop(heap);
    const [first] = heap;
    if (armed !== undefined && armed.time === first?.time) return;
    armed?.cancel();
    armed = undefined;
    if (first === undefined) return;
    const delayMs = Math.min(LONGEST_SLEEP_MS, Math.max(0, first.time - clock.now()));
    armed = { cancel: clock.after(delayMs, fire), time: first.time };
  }

  function fire(): void {
    armed = undefined;
    const now = clock.now();
    const due: Entry[] = [];
    for (let [first] = heap; first !== undefined && (first.isCancelled || first.time <= now); [first] = heap) {
      pop(heap);
      due.push(first);
    }
    for (const entry of due) if (!entry.isCancelled) entry.callback();
    arm();
  }

  return {
    at(time, callback) {
      const entry = { time, callback, isCancelled: false };
      push(heap, entry);
      arm();
      return () => {
        entry.isCancelled = true;
        arm();
      };
    },
    close() {
      armed?.cancel();
      armed = undefined;
      heap.length = 0;
    },
  };
}

function push(heap: Entry[], entry: Entry): void {
  let at = heap.push(entry) - 1;
  while (at > 0) {
    const parent = (at - 1) >> 1;
    if (timeAt(heap, parent) <= entry.time) break;
    swap(heap, at, parent);
    at = parent;
  }
}

function pop(heap: Entry[]): void {
  const last = heap.pop();
  if (last === undefined || heap.length === 0) return;
  heap[0] = last;
  for (let at = 0; ; ) {
    const [left, right] = [2 * at + 1, 2 * at + 2];
    const least = timeAt(heap, right) < timeAt(heap, left) ? right : left;
    if (timeAt(heap, least) >= last.time) break;
    swap(heap, at, least);
    at = least;
  }
}

function timeAt(heap: readonly Entry[], index: number): number {
  return heap[index]?.time ?? Number.POSITIVE_INFINITY;
}

function swap(heap: Entry[], a: number, b: number): void {
  const [first, second] = [heap[a], heap[b]];
  if (first === undefined || second === undefined) return;
  heap[a] = second;
  heap[b] = first;
}
