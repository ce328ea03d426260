import { createBackoff } from "../crds/client/backoff.ts";
import { type Clock, systemClock } from "../crds/client/clock.ts";

/** Where one piece of work stands. */
export type WorkState<T> =
  | { readonly state: "running" }
  | { readonly state: "done"; readonly value: T }
  /** It is run again when it is asked for after `retryInMs` milliseconds. */
  | { readonly state: "failed"; readonly error: unknown; readonly failures: number; readonly retryInMs: number };

/** @param onBytes to be called with how many bytes have passed, where any do: what is slow takes less of a slot */
export type Work<T> = (signal: AbortSignal, onBytes: (bytes: number) => void) => Promise<T>;

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
  run(id: string, work: Work<T>, onEnd: () => void, tenant?: string): WorkState<T>;
  /** Says where the work of that id stands, and begins nothing; undefined where none was asked for. */
  look(id: string): WorkState<T> | undefined;
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
  isForgotten: boolean;
}

/** What waits for a slot or holds one. */
interface Piece {
  readonly tenant: string | undefined;
  readonly isRetry: boolean;
  /** Whether it has given way to others before. */
  readonly isPutOff: boolean;
  readonly signal: AbortSignal;
  readonly begin: () => Promise<void>;
  begunAt: number;
  /** What has passed lately; undefined before anything has, and of work that counts nothing. */
  passed: { readonly since: number; bytes: number } | undefined;
  /** Bytes a second of the last minute that was counted. */
  pace: number | undefined;
  /** Ends it for the sake of those that wait; it is run again after them, which is no failure. */
  readonly giveWay: () => void;
}

/** What takes longer gives its slot up, so that a few slow ones keep nobody waiting. */
const LONG_MS = 60_000;
/** What takes long and is slower than this, in bytes a second, takes a part of a slot alone. */
const FULL_PACE = 1024 * 1024;
/** How many run at once for each slot at most, however slow they are, for their memory. */
const MOST_FOR_A_SLOT = 8;

/**
 * Runs at most `concurrency` pieces of work at once, and as many again that take longer than a minute. The others wait
 * in the order in which they were asked for, new ones first.
 *
 * A piece that takes longer than a minute counts by its bandwidth, so that more run beside slow ones. Where slow ones
 * are too many even so, the slowest gives way. Of one tenant's pieces, and of those that have failed before, at most
 * half of `concurrency` run at once, even while no other waits: the next to come would have to wait for their end.
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
    if (stopped) return;
    waiting = waiting.filter(({ signal }) => !signal.aborted);
    for (const piece of running.keys()) measure(piece, 0);
    let next = nextPiece();
    for (; next !== undefined && hasRoom(); next = nextPiece()) start(next);
    cancelTimer();
    const held = [...running.keys()];
    if (waiting.length === 0 || held.length === 0) return;
    // What was put off itself puts nothing off, and one at a time is enough.
    const mayPutOff = next?.isPutOff === false && !held.some(({ signal }) => signal.aborted);
    if (mayPutOff && held.length >= MOST_FOR_A_SLOT * concurrency) slowest(held)?.giveWay();
    // One that becomes slow is less of a load by and by.
    const leftMs = held.map(({ begunAt }) => begunAt + LONG_MS - clock.now()).filter((left) => left > 0);
    cancelTimer = clock.after(Math.min(LONG_MS, ...leftMs), pump);
  }

  function measure(piece: Piece, bytes: number): void {
    const now = clock.now();
    if (piece.passed === undefined) {
      if (bytes > 0) piece.passed = { since: now, bytes };
      return;
    }
    piece.passed.bytes += bytes;
    const elapsedMs = now - piece.passed.since;
    if (elapsedMs < LONG_MS) return;
    piece.pace = (piece.passed.bytes / elapsedMs) * 1000;
    piece.passed = { since: now, bytes: 0 };
  }

  function isLong({ begunAt }: Piece): boolean {
    return clock.now() - begunAt >= LONG_MS;
  }

  /** How much of a slot a piece takes: all of it, or less where it runs for long and slowly. */
  function loadOf(piece: Piece): number {
    return piece.pace === undefined || !isLong(piece) ? 1 : Math.min(1, piece.pace / FULL_PACE);
  }

  function load(pieces: readonly Piece[]): number {
    return pieces.reduce((sum, piece) => sum + loadOf(piece), 0);
  }

  function slowest(held: readonly Piece[]): Piece | undefined {
    const slow = held.filter((piece) => loadOf(piece) < 1);
    return slow.sort((a, b) => loadOf(a) - loadOf(b))[0];
  }

  function hasRoom(): boolean {
    const held = [...running.keys()];
    const short = held.filter((piece) => !isLong(piece));
    if (short.length >= concurrency || held.length >= MOST_FOR_A_SLOT * concurrency) return false;
    return load(held) < 2 * concurrency;
  }

  /** Of what waits, the next that may run as far as its tenant and its failures go. */
  function nextPiece(): Piece | undefined {
    const held = [...running.keys()];
    const retries = held.filter(({ isRetry }) => isRetry);
    const mayBegin = ({ tenant, isRetry }: Piece) =>
      !(tenant !== undefined && held.filter((piece) => piece.tenant === tenant).length >= share) &&
      !(isRetry && load(retries) >= share);
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
    given: { work: Work<T>; onEnd: () => void; tenant: string | undefined },
    isPutOff = false,
  ): void {
    const { work, onEnd, tenant } = given;
    entry.result = undefined;
    const abort = new AbortController();
    entry.abort = abort;
    const { signal } = abort;
    const gaveWay = new Error("it is so slow that others would have to wait for it");
    const piece: Piece = {
      ...{ tenant, isRetry: isPutOff || entry.failures > 0, isPutOff, signal, begin: run },
      ...{ begunAt: 0, passed: undefined, pace: undefined, giveWay: () => abort.abort(gaveWay) },
    };
    waiting.push(piece);
    pump();

    async function run(): Promise<void> {
      try {
        const value = await work(signal, (bytes) => measure(piece, bytes));
        if (entry.isForgotten || stopped) return;
        entry.result = { state: "done", value };
      } catch (error) {
        if (signal.reason === gaveWay && !entry.isForgotten) begin(entry, given, true);
        if (signal.aborted) return;
        entry.failures += 1;
        const retryInMs = entry.backoff.next();
        entry.retryAt = clock.now() + retryInMs;
        entry.result = { state: "failed", error, failures: entry.failures, retryInMs };
      }
      onEnd();
    }
  }

  return {
    run(id, work, onEnd, tenant) {
      let entry = entries.get(id);
      if (entry === undefined) {
        const backoff = createBackoff({ initialMs: firstBackoffMs, maxMs: maximumBackoffMs });
        const abort = new AbortController();
        entry = { result: undefined, retryAt: 0, failures: 0, backoff, abort, isForgotten: false };
        entries.set(id, entry);
        begin(entry, { work, onEnd, tenant });
      } else if (entry.result?.state === "failed") {
        const retryInMs = entry.retryAt - clock.now();
        if (retryInMs > 0) return { ...entry.result, retryInMs };
        begin(entry, { work, onEnd, tenant });
      }
      return entry.result ?? { state: "running" };
    },
    look(id) {
      const entry = entries.get(id);
      return entry && (entry.result ?? { state: "running" });
    },
    retryNow(id) {
      for (const [own, entry] of entries) {
        if (id !== undefined && own !== id) continue;
        entry.retryAt = 0;
        entry.backoff.reset();
      }
    },
    forget(id) {
      const entry = entries.get(id);
      if (entry === undefined) return;
      entry.isForgotten = true;
      entry.abort.abort(new Error("nobody waits for it any longer"));
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
