import { createBackoff } from "../crds/client/backoff.ts";
import { type Clock, systemClock } from "../crds/client/clock.ts";

/** The state of a piece of work. */
export type WorkState<T> =
  | { readonly state: "running" }
  | { readonly state: "done"; readonly value: T }
  /** A call of `run` after `retryInMs` milliseconds runs it again. */
  | { readonly state: "failed"; readonly error: unknown; readonly failures: number; readonly retryInMs: number };

/** @param onBytes call it with the number of transferred bytes, if any: slow work takes less of a slot */
export type Work<T> = (signal: AbortSignal, onBytes: (bytes: number) => void) => Promise<T>;

/**
 * Work that takes too long for a reconcile: one run of the reconciler begins it, and a later run gets its result.
 *
 * It is not a controller of the queue, which only limits the number of concurrent reconciles. Here, one tenant, failed
 * work and slow work do not block the others, and each piece can be aborted alone. So only the claim's own reconcile
 * writes the claim, also while its files are saved.
 */
export interface BackgroundWork<T> {
  /**
   * The state of the work with the id. Begins the work if there is none, and again if it has failed and its backoff is
   * over.
   *
   * @param onEnd called when the work has succeeded or failed
   * @param tenant of the work, whose share of the slots is limited. @default no tenant, without that limit
   */
  run(id: string, work: Work<T>, onEnd: () => void, tenant?: string): WorkState<T>;
  /** The state of the work with the id, without beginning it; undefined if there is none. */
  look(id: string): WorkState<T> | undefined;
  /**
   * Ends the backoff of failed work, because its cause may be gone.
   *
   * @param id @default all work
   */
  retryNow(id?: string): void;
  /** Forgets the result of the work, and aborts it if it still runs. */
  forget(id: string): void;
  /** Forgets the work, and waits until it has ended. */
  end(id: string): Promise<void>;
  /** Aborts all work and waits for its end. */
  stop(): Promise<void>;
}

interface Entry<T> {
  result: WorkState<T> | undefined;
  retryAt: number;
  failures: number;
  backoff: ReturnType<typeof createBackoff>;
  abort: AbortController;
  piece: Piece | undefined;
  isForgotten: boolean;
}

/** A piece of work that waits for a slot or has one. */
interface Piece {
  readonly tenant: string | undefined;
  readonly isRetry: boolean;
  /** Whether it has given up its slot before. */
  readonly isPutOff: boolean;
  readonly signal: AbortSignal;
  readonly begin: () => Promise<void>;
  begunAt: number;
  /** The bytes transferred lately; undefined before the first, and for work that does not count bytes. */
  passed: { readonly since: number; bytes: number } | undefined;
  /** Bytes per second over the last counted minute. */
  pace: number | undefined;
  /** Ends it to free its slot; it runs again after those that wait. This does not count as a failure. */
  readonly giveWay: () => void;
}

/** Waiting pieces: tenants take turns, and each tenant's pieces keep the order of their calls. */
interface Turns {
  readonly size: number;
  add(piece: Piece): void;
  delete(piece: Piece): void;
  /** The first piece of each tenant. */
  firsts(): Iterable<Piece>;
}

function createTurns(): Turns {
  const queues = new Map<string | undefined, Set<Piece>>();
  let size = 0;
  return {
    get size() {
      return size;
    },
    add(piece) {
      const queue = queues.get(piece.tenant);
      if (queue === undefined) queues.set(piece.tenant, new Set([piece]));
      else queue.add(piece);
      size += 1;
    },
    delete(piece) {
      const queue = queues.get(piece.tenant);
      if (queue?.delete(piece) !== true) return;
      size -= 1;
      // The next turn is another tenant's.
      queues.delete(piece.tenant);
      if (queue.size > 0) queues.set(piece.tenant, queue);
    },
    *firsts() {
      for (const [first] of queues.values()) if (first !== undefined) yield first;
    },
  };
}

/** Longer work gives up its slot, so that a few slow pieces do not block the others. */
const LONG_MS = 60_000;
/** Long work below this pace, in bytes per second, takes only a part of a slot. */
const FULL_PACE = 1024 * 1024;
/** The most concurrent pieces for each slot, at any pace, because of their memory. */
const MOST_FOR_A_SLOT = 8;

/**
 * Runs at most `concurrency` pieces of work concurrently, and as many again that take longer than a minute. The others
 * wait in the order of their calls, the tenants in turn; new work goes before retries.
 *
 * A piece that takes longer than a minute counts by its bandwidth, so that more pieces run beside slow ones. If there
 * are still too many slow pieces, the slowest gives up its slot. At most half of `concurrency` pieces of one tenant run
 * at the same time, and at most half of failed ones. That holds even if no other piece waits: the next one would have
 * to wait for their end.
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
  const waiting = { fresh: createTurns(), retries: createTurns() };
  let stopped = false;
  /** Cancels the timer for the next slot that is given up. */
  let cancelTimer = (): void => undefined;

  function pump(): void {
    if (stopped) return;
    for (const piece of running.keys()) measure(piece, 0);
    let next = nextPiece();
    for (; next !== undefined && hasRoom(); next = nextPiece()) start(next);
    cancelTimer();
    const held = [...running.keys()];
    if (waiting.fresh.size + waiting.retries.size === 0 || held.length === 0) return;
    // A piece that gave up its slot does not displace another one, and only one is displaced at a time.
    const mayPutOff = next?.isPutOff === false && !held.some(({ signal }) => signal.aborted);
    if (mayPutOff && held.length >= MOST_FOR_A_SLOT * concurrency) slowest(held)?.giveWay();
    // A piece that becomes long and slow takes less of a slot: look again then.
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

  /** The part of a slot that a piece takes: 1, or less if it is long and slow. */
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

  /** The next waiting piece that the limits for its tenant and for retries allow. */
  function nextPiece(): Piece | undefined {
    const held = [...running.keys()];
    const heldOf = new Map<string | undefined, number>();
    for (const { tenant } of held) heldOf.set(tenant, (heldOf.get(tenant) ?? 0) + 1);
    const mayRetry = load(held.filter(({ isRetry }) => isRetry)) < share;
    // Few tenants have their share of the slots, so one of the first pieces may begin.
    for (const turns of [waiting.fresh, ...(mayRetry ? [waiting.retries] : [])])
      for (const piece of turns.firsts())
        if (piece.tenant === undefined || (heldOf.get(piece.tenant) ?? 0) < share) return piece;
    return undefined;
  }

  function start(piece: Piece): void {
    turnsOf(piece).delete(piece);
    piece.begunAt = clock.now();
    const work = piece.begin().finally(() => {
      running.delete(piece);
      pump();
    });
    running.set(piece, work);
  }

  function turnsOf({ isRetry }: Piece): Turns {
    return isRetry ? waiting.retries : waiting.fresh;
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
    const gaveWay = new Error("it is too slow and gives up its slot");
    const piece: Piece = {
      ...{ tenant, isRetry: isPutOff || entry.failures > 0, isPutOff, signal, begin: run },
      ...{ begunAt: 0, passed: undefined, pace: undefined, giveWay: () => abort.abort(gaveWay) },
    };
    entry.piece = piece;
    turnsOf(piece).add(piece);
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

  function forget(id: string): Promise<void> | undefined {
    const entry = entries.get(id);
    if (entry === undefined) return undefined;
    const { piece, abort } = entry;
    entry.isForgotten = true;
    if (piece !== undefined) turnsOf(piece).delete(piece);
    abort.abort(new Error("its result is not needed any more"));
    entries.delete(id);
    return piece && running.get(piece);
  }

  return {
    run(id, work, onEnd, tenant) {
      let entry = entries.get(id);
      if (entry === undefined) {
        const backoff = createBackoff({ initialMs: firstBackoffMs, maxMs: maximumBackoffMs });
        const abort = new AbortController();
        entry = { result: undefined, retryAt: 0, failures: 0, backoff, abort, piece: undefined, isForgotten: false };
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
    forget: (id) => void forget(id),
    async end(id) {
      await forget(id);
    },
    async stop() {
      stopped = true;
      cancelTimer();
      for (const { abort } of entries.values()) abort.abort(new Error("the operator stops"));
      await Promise.all(running.values());
      entries.clear();
    },
  };
}
