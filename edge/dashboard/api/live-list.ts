import type { ReadonlySignal } from "@preact/signals";
import type { FeedMessage, FeedState } from "./feed.ts";

/** Receives the rows of a list. */
export interface RowSink<Row> {
  put(row: Row): void;
  remove(key: string): void;
  reset(rows: Iterable<Row>): void;
}

/** The rows of a list, and how messages change them. */
export interface RowKind<Row> {
  readonly keyOf: (row: Row) => string;
  /** The row made from a message and the previous row. @default the message's object */
  readonly rowOf?: (shown: never, before: Row | undefined) => Row | undefined;
  /** Whether rows have fields that messages lack and the previous row has them. @default false */
  readonly isPartial?: boolean;
}

/** A list kept up to date by messages. */
export interface LiveList<Row> {
  readonly rows: ReadonlyMap<string, Row>;
  reset(rows: readonly Row[]): void;
  apply(batch: readonly FeedMessage[]): void;
  /** Fills a sink and keeps it up to date; returns a function that stops. */
  follow(sink: RowSink<Row>): () => void;
}

/** A list that is kept up to date. */
export interface Live<Row> {
  /** Increases with each change of the rows. */
  readonly version: ReadonlySignal<number>;
  readonly rows: ReadonlyMap<string, Row>;
  readonly state: ReadonlySignal<FeedState>;
  keyOf(row: Row): string;
  /** Fills a sink and keeps it up to date, before `version` increases; returns a function that stops. */
  follow(sink: RowSink<Row>): () => void;
}

/** Delay before a row is read again after a failure, or after a change during the read. */
const AGAIN_MS = 1000;

/** The fields of a message that show whether other fields have changed. */
interface Shown {
  readonly generation?: number;
  readonly phase?: string;
  readonly reason?: string;
}

/** Whether fields that messages lack may have changed: the spec, or the message of a reason. */
function hasMore(now: Shown, was: Shown): boolean {
  if (now.generation !== was.generation || now.phase !== was.phase || now.reason !== was.reason) return true;
  // The edge announces a new status message with an unchanged object; the status message may also have changed together
  // with a number.
  return now.reason !== undefined || JSON.stringify(now) === JSON.stringify(was);
}

/**
 * Makes an empty list. If messages have fewer fields than rows, a row is read on its own when a message shows that a
 * missing field has changed: its spec, or the message of its reason.
 *
 * @param options.readOne reads a row; undefined if it no longer exists
 * @param options.onRead called after a row was read and put
 * @param options.onFailure called when a row could not be read; the read is retried
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
  /** By key: the object of the last message. */
  const shown = new Map<string, Shown>();
  /** By key: whether another message arrived since the read began. */
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
        // Deletions arrive as messages.
        if (row !== undefined && last !== undefined) {
          // A message may have brought newer fields during the read.
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

  /** Rows that change all the time are read once a second. */
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
