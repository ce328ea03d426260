import { createBackoff } from "../crds/client/backoff.ts";
import { type Clock, systemClock } from "../crds/client/clock.ts";

/** Where one piece of work stands. */
export type WorkState<T> =
  | { readonly state: "running" }
  | { readonly state: "done"; readonly value: T }
  /** It is run again when it is asked for after `retryInMs` milliseconds. */
  | { readonly state: "failed"; readonly error: unknown; readonly failures: number; readonly retryInMs: number };

/**
 * Work that takes too long for a reconcile: one run of the reconciler begins it, and a later run finds its result.
 *
 * Not a controller of the queue, which bounds each by one number: here no tenant, no failure and nothing slow may keep
 * others waiting, and one piece can be aborted alone. And so a claim's own reconcile stays the only one that writes the
 * claim, also while its files are saved.
 */
export interface BackgroundWork<T> {
  /**
   * Says where the work of that id stands; begins it where there is none, and again where it has failed and its
   * back-off is over.
   *
   * @param onEnd called when it has ended, either way
   * @param tenant whose work it is, where nobody's may keep others waiting
   */
  run(id: string, work: (signal: AbortSignal) => Promise<T>, onEnd: () => void, tenant?: string): WorkState<T>;
  /**
   * Lets what has failed run again at once, because its cause may be gone.
   *
   * @param id @default everything
   */
  retryNow(id?: string): void;
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

/** What waits for a slot or holds one. */
interface Piece {
  readonly tenant: string | undefined;
  readonly isRetry: boolean;
  readonly signal: AbortSignal;
  readonly begin: () => Promise<void>;
  begunAt: number;
}

/** What takes longer gives its slot up, so that a few slow ones keep nobody waiting. */
const LONG_MS = 60_000;

/**
 * Runs at most `concurrency` pieces of work at once, and as many again that take longer than a minute; the others in
 * the order in which they were asked for, new ones first. Of one tenant, and of what has failed before, at most half of
 * `concurrency` run at once, also while nobody waits: who comes next would have to wait for their end.
 */
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
  const share = Math.max(1, Math.floor(concurrency / 2));
  const running = new Map<Piece, Promise<void>>();
  let waiting: Piece[] = [];
  let stopped = false;
  /** Of the moment at which the next slot is given up. */
  let cancelTimer = (): void => undefined;

  function pump(): void {
    waiting = waiting.filter(({ signal }) => !signal.aborted);
    for (let next = pick(); next !== undefined; next = pick()) start(next);
    cancelTimer();
    const leftMs = [...running.keys()].map(({ begunAt }) => begunAt + LONG_MS - clock.now()).filter((left) => left > 0);
    if (waiting.length > 0 && leftMs.length > 0) cancelTimer = clock.after(Math.min(...leftMs), pump);
  }

  function pick(): Piece | undefined {
    const held = [...running.keys()];
    const short = held.filter(({ begunAt }) => clock.now() - begunAt < LONG_MS);
    if (stopped || short.length >= concurrency || held.length >= 2 * concurrency) return undefined;
    const isFull = (isAlike: (piece: Piece) => boolean) => held.filter(isAlike).length >= share;
    const mayBegin = ({ tenant, isRetry }: Piece) =>
      !(tenant !== undefined && isFull((piece) => piece.tenant === tenant)) &&
      !(isRetry && isFull((piece) => piece.isRetry));
    return waiting.find((piece) => !piece.isRetry && mayBegin(piece)) ?? waiting.find(mayBegin);
  }

  function start(piece: Piece): void {
    waiting = waiting.filter((other) => other !== piece);
    piece.begunAt = clock.now();
    const work = piece.begin().finally(() => {
      running.delete(piece);
      pump();
    });
    running.set(piece, work);
  }

  function begin(
    entry: Entry<T>,
    {
      work,
      onEnd,
      tenant,
    }: { work: (signal: AbortSignal) => Promise<T>; onEnd: () => void; tenant: string | undefined },
  ): void {
    entry.result = undefined;
    entry.abort = new AbortController();
    const { signal } = entry.abort;
    const run = async () => {
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
      onEnd();
    };
    waiting.push({ tenant, isRetry: entry.failures > 0, signal, begin: run, begunAt: 0 });
    pump();
  }

  return {
    run(id, work, onEnd, tenant) {
      let entry = entries.get(id);
      if (entry === undefined) {
        const backoff = createBackoff({ initialMs: firstBackoffMs, maxMs: maximumBackoffMs });
        entry = { result: undefined, retryAt: 0, failures: 0, backoff, abort: new AbortController() };
        entries.set(id, entry);
        begin(entry, { work, onEnd, tenant });
      } else if (entry.result?.state === "failed") {
        const retryInMs = entry.retryAt - clock.now();
        if (retryInMs > 0) return { ...entry.result, retryInMs };
        begin(entry, { work, onEnd, tenant });
      }
      return entry.result ?? { state: "running" };
    },
    retryNow(id) {
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
      waiting = [];
      cancelTimer();
      for (const { abort } of entries.values()) abort.abort(new Error("the operator stops"));
      await Promise.all(running.values());
      entries.clear();
    },
  };
}
