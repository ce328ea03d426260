import type { ReadonlySignal } from "@preact/signals";
import type { FeedMessage, FeedState } from "./feed.ts";

/** What follows a list. */
export interface RowSink<Row> {
  put(row: Row): void;
  remove(key: string): void;
  reset(rows: Iterable<Row>): void;
}

/** What a list holds, and how the messages about it are to be read. */
export interface RowKind<Row> {
  readonly keyOf: (row: Row) => string;
  /** The row by what a message shows of it, and the row before. @default what the message shows */
  readonly rowOf?: (shown: never, before: Row | undefined) => Row | undefined;
  /** Whether a row has more than messages show and the row before had. @default false */
  readonly isPartial?: boolean;
}

/** The rows of a list as its messages have them. */
export interface LiveList<Row> {
  readonly rows: ReadonlyMap<string, Row>;
  reset(rows: readonly Row[]): void;
  apply(batch: readonly FeedMessage[]): void;
  /** Has a sink filled and kept up to date; the function it returns ends that. */
  follow(sink: RowSink<Row>): () => void;
}

/** A list that is kept up to date. */
export interface Live<Row> {
  /** Goes up with each change of the rows. */
  readonly version: ReadonlySignal<number>;
  readonly rows: ReadonlyMap<string, Row>;
  readonly state: ReadonlySignal<FeedState>;
  keyOf(row: Row): string;
  /** Has a sink filled and kept up to date, before `version` goes up; the function it returns ends that. */
  follow(sink: RowSink<Row>): () => void;
}

/** A row is read again after so long where that failed, or where more has come meanwhile. */
const AGAIN_MS = 1000;

/** The part of what messages show that tells of what they do not. */
interface Shown {
  readonly generation?: number;
  readonly phase?: string;
  readonly reason?: string;
}

/** Whether what a message does not show may have changed: the spec, or the words that go with a reason. */
function hasMore(now: Shown, was: Shown): boolean {
  if (now.generation !== was.generation || now.phase !== was.phase || now.reason !== was.reason) return true;
  // The edge tells that words have changed by a message with nothing new; with a number that is new they may too.
  return now.reason !== undefined || JSON.stringify(now) === JSON.stringify(was);
}

/**
 * Makes an empty list. Where messages show less than rows, a row is read by itself when a message tells that something
 * has changed which it does not show: its spec, or the sentence that goes with its reason.
 *
 * @param options.readOne reads a row; undefined where there is none any more
 * @param options.onRead called when a row that was read has been put
 * @param options.onFailure called when one could not be read; it is read again
 */
export function createLiveList<Row>(
  { keyOf, rowOf, isPartial = false }: RowKind<Row>,
  options: {
    readOne(key: string): Promise<Row | undefined>;
    onRead(): void;
    onFailure(error: unknown): void;
    clock: { after(ms: number, act: () => void): () => void };
  },
): LiveList<Row> {
  const rows = new Map<string, Row>();
  const sinks = new Set<RowSink<Row>>();
  /** By key: what the last message showed of a row. */
  const shown = new Map<string, Shown>();
  /** By key: whether more has come since the reading began. */
  const reading = new Map<string, boolean>();

  function put(key: string, row: Row): void {
    rows.set(key, row);
    for (const sink of sinks) sink.put(row);
  }

  function applyOne({ type, object }: FeedMessage): void {
    const key = keyOf(object as Row);
    if (type.endsWith(".deleted")) {
      rows.delete(key);
      shown.delete(key);
      for (const sink of sinks) sink.remove(key);
      return;
    }
    const before = rows.get(key);
    const row = rowOf === undefined ? (object as Row) : rowOf(object as never, before);
    if (row !== undefined) put(key, row);
    if (!isPartial) return;
    const was = shown.get(key);
    shown.set(key, object as Shown);
    if (row === undefined || was === undefined || hasMore(object as Shown, was)) read(key);
  }

  function read(key: string): void {
    if (reading.has(key)) {
      reading.set(key, true);
      return;
    }
    reading.set(key, false);
    options.readOne(key).then(
      (row) => {
        const last = shown.get(key);
        // A message tells of one that has gone.
        if (row !== undefined && last !== undefined) {
          // What messages show, they may have shown newer meanwhile.
          put(key, rowOf?.(last as never, row) ?? row);
          options.onRead();
        }
        if (reading.get(key) === true) readSoon(key);
        else reading.delete(key);
      },
      (error: unknown) => {
        options.onFailure(error);
        readSoon(key);
      },
    );
  }

  /** Of something that changes all the time it is enough to be right for a second ago. */
  function readSoon(key: string): void {
    options.clock.after(AGAIN_MS, () => {
      reading.delete(key);
      if (shown.has(key)) read(key);
    });
  }

  return {
    rows,
    reset(all) {
      rows.clear();
      shown.clear();
      for (const row of all) rows.set(keyOf(row), row);
      for (const sink of sinks) sink.reset(all);
    },
    apply(batch) {
      for (const message of batch) applyOne(message);
    },
    follow(sink) {
      sinks.add(sink);
      sink.reset(rows.values());
      return () => sinks.delete(sink);
    },
  };
}
