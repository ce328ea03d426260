import type { FeedMessage } from "./feed.ts";

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

/** A row is read again after so long where that failed. */
const AGAIN_MS = 2000;

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
  /** By key: what the last message said of what messages do not show. */
  const marks = new Map<string, string>();
  const reading = new Set<string>();

  function put(key: string, row: Row): void {
    rows.set(key, row);
    for (const sink of sinks) sink.put(row);
  }

  function applyOne({ type, object }: FeedMessage): void {
    const key = keyOf(object as Row);
    if (type.endsWith(".deleted")) {
      rows.delete(key);
      marks.delete(key);
      for (const sink of sinks) sink.remove(key);
      return;
    }
    const before = rows.get(key);
    const row = rowOf === undefined ? (object as Row) : rowOf(object as never, before);
    if (row !== undefined) put(key, row);
    if (!isPartial) return;
    const { generation, reason, phase } = object as { generation?: number; reason?: string; phase?: string };
    const mark = `${generation} ${reason} ${phase}`;
    if (marks.get(key) === mark && before !== undefined) return;
    marks.set(key, mark);
    void read(key);
  }

  async function read(key: string): Promise<void> {
    if (reading.has(key)) return;
    reading.add(key);
    const mark = marks.get(key);
    try {
      const row = await options.readOne(key);
      // A message tells of one that has gone.
      if (row !== undefined && marks.has(key)) {
        put(key, row);
        options.onRead();
      }
    } catch (error) {
      options.onFailure(error);
      options.clock.after(AGAIN_MS, () => {
        if (marks.has(key)) void read(key);
      });
      return;
    } finally {
      reading.delete(key);
    }
    // More has come meanwhile, which the answer may not show.
    if (marks.has(key) && marks.get(key) !== mark) await read(key);
  }

  return {
    rows,
    reset(all) {
      rows.clear();
      marks.clear();
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
