import { type Signal, signal } from "@preact/signals";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { CallError, call, send } from "./call.ts";
import { createFeed, type FeedMessage, type FeedReader, type FeedState } from "./feed.ts";
import { checkSession } from "./session.ts";

/** What the page can hold of the cluster, by the name of its list. */
export interface Kinds {
  claims: ApiTypes["Claim"];
  instances: ApiTypes["Instance"];
  workloads: ApiTypes["Workload"];
  pools: ApiTypes["Pool"];
  triggers: ApiTypes["Trigger"];
}

/** A list that is kept up to date. */
export interface Live<Row> {
  /** Goes up with each change of the rows. */
  readonly version: Signal<number>;
  readonly rows: ReadonlyMap<string, Row>;
  readonly state: Signal<FeedState>;
  keyOf(row: Row): string;
  /** Has a sink filled and kept up to date, before `version` goes up; the function it returns ends that. */
  follow(sink: RowSink<Row>): () => void;
}

/** What follows a list. */
export interface RowSink<Row> {
  put(row: Row): void;
  remove(key: string): void;
  reset(rows: Iterable<Row>): void;
}

interface Kind<Row> {
  /** Of its list, below `/api/v1`. */
  readonly path: string;
  /** The rows of what the list answers. @default it is an array of them */
  readonly rowsOf?: (answer: never) => Row[];
  /** What the types of its messages start with. */
  readonly event: string;
  readonly keyOf: (row: Row) => string;
  /** Where a message shows less than a row: the row with what the message shows. @default it shows all of it */
  readonly fold?: (row: Row, shown: never) => Row;
}

const byName = ({ name }: { name: string }): string => name;

const kinds: { readonly [Name in keyof Kinds]: Kind<Kinds[Name]> } = {
  claims: {
    path: "/tenants",
    rowsOf: (tenants: ApiTypes["Tenant"][]) => tenants.flatMap(({ claims }) => claims),
    event: "claim.",
    keyOf: ({ tenantId, workloadRef }) => `${tenantId}/${workloadRef}`,
  },
  instances: { path: "/instances", event: "instance.", keyOf: byName },
  workloads: {
    ...{ path: "/workloads", event: "workload.", keyOf: byName },
    fold: (row, { phase }: ApiTypes["OpenWorkload"]) => ({ ...row, status: { ...row.status, phase } }),
  },
  pools: {
    ...{ path: "/pools", event: "pool.", keyOf: byName },
    fold: (row, { phase, ready, warming, desired }: ApiTypes["OpenPool"]) => ({
      ...row,
      status: { ...row.status, phase, ready, warming, ...(desired !== undefined && { desired }) },
    }),
  },
  triggers: {
    ...{ path: "/triggers", event: "trigger.", keyOf: byName },
    fold: (row, { phase }: ApiTypes["OpenTrigger"]) => ({
      ...row,
      status: { ...row.status, ...(phase !== undefined && { phase }) },
    }),
  },
};

/** How the connection is; of one kind, `live(kind).state` tells. */
export const connection = signal<FeedState>("loading");
/** When the page last heard of the edge. */
export const lastHeardAt = signal(Date.now());
/** Whether the edge sees the cluster as it is, by its last answer. */
export const isEdgeFresh = signal(true);
/** How far the edge's clock is ahead of this machine's. */
export const clockAheadMs = signal(0);
/** Why lists cannot be read at the moment. */
export const listProblem = signal<Error | undefined>(undefined);

const timers = {
  now: () => performance.now(),
  after(ms: number, act: () => void) {
    const timer = setTimeout(act, ms);
    return () => clearTimeout(timer);
  },
};

const feed = createFeed({
  open(since, { onOpen, onText, onClose }) {
    const query = new URLSearchParams({ type: "claim,instance,workload,pool,trigger" });
    if (since !== undefined) query.set("since", since);
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws?${query}`);
    let wasOpen = false;
    socket.onopen = () => {
      wasOpen = true;
      onOpen();
    };
    socket.onmessage = ({ data }) => onText(String(data));
    socket.onclose = () => {
      onClose();
      // A browser does not say why a socket was refused; the edge may ask for the key.
      if (!wasOpen) void checkSession();
    };
    return { send: (text) => socket.send(text), close: () => socket.close() };
  },
  nextFrame(act) {
    // A hidden tab gets no frames.
    const timer = setTimeout(once, 1000);
    const frame = requestAnimationFrame(once);
    function once(): void {
      clearTimeout(timer);
      cancelAnimationFrame(frame);
      lastHeardAt.value = Date.now();
      act();
    }
  },
  isVisible: () => !document.hidden,
  clock: timers,
  onState: (state) => {
    connection.value = state;
  },
  onPong({ time, fresh }) {
    lastHeardAt.value = Date.now();
    isEdgeFresh.value = fresh;
    clockAheadMs.value = Date.parse(time) - Date.now();
  },
  onFailure: (error) => {
    listProblem.value = error as Error;
  },
});

/** Tries again at once what waits for its next try, such as after a login. */
export function retryFeed(): void {
  feed.retry();
}

addEventListener("online", retryFeed);
document.addEventListener("visibilitychange", () => {
  // What nobody saw may have been silent for long.
  if (!document.hidden) retryFeed();
});

const started = new Map<keyof Kinds, unknown>();

/** The list of a kind: started by its first reader and kept while the page is open. */
export function live<Name extends keyof Kinds>(name: Name): Live<Kinds[Name]> {
  const known = started.get(name) as Live<Kinds[Name]> | undefined;
  if (known !== undefined) return known;
  const made = start<Kinds[Name]>(name, kinds[name]);
  started.set(name, made.live);
  feed.add(made.reader);
  return made.live;
}

/** A row is read again after so long where that failed. */
const AGAIN_MS = 2000;

function start<Row>(name: string, kind: Kind<Row>): { live: Live<Row>; reader: FeedReader<Row[]> } {
  const { path, rowsOf, event, keyOf, fold } = kind;
  const rows = new Map<string, Row>();
  const version = signal(0);
  const state = signal<FeedState>("loading");
  const sinks = new Set<RowSink<Row>>();
  /** By key: what a message said last of a row, and whether it is being read. */
  const marks = new Map<string, string>();
  const reading = new Set<string>();

  function put(key: string, row: Row): void {
    rows.set(key, row);
    for (const sink of sinks) sink.put(row);
  }

  function remove(key: string): void {
    rows.delete(key);
    marks.delete(key);
    for (const sink of sinks) sink.remove(key);
  }

  function applyOne({ type, object }: FeedMessage): void {
    const key = keyOf(object as Row);
    if (type.endsWith(".deleted")) {
      remove(key);
    } else if (fold === undefined) {
      put(key, object as Row);
    } else {
      const row = rows.get(key);
      if (row !== undefined) put(key, fold(row, object as never));
      const { generation, reason, phase } = object as { generation?: number; reason?: string; phase?: string };
      const mark = `${generation} ${reason} ${phase}`;
      if (marks.get(key) === mark && row !== undefined) return;
      marks.set(key, mark);
      void readOne(key);
    }
  }

  /** Reads what no message shows of a row: its spec, and its message. */
  async function readOne(key: string): Promise<void> {
    if (reading.has(key)) return;
    reading.add(key);
    const mark = marks.get(key);
    try {
      const row = await call<Row>("GET", `${path}/${encodeURIComponent(key)}`);
      if (marks.has(key)) put(key, row);
      version.value += 1;
    } catch (error) {
      // A message tells of one that has gone.
      const isGone = error instanceof CallError && error.status === 404;
      if (!isGone) timers.after(AGAIN_MS, () => void (marks.has(key) && readOne(key)));
    } finally {
      reading.delete(key);
    }
    // More has come meanwhile, which the answer may not show.
    if (marks.has(key) && marks.get(key) !== mark) await readOne(key);
  }

  return {
    reader: {
      kind: name,
      takes: (type) => type.startsWith(event),
      async list(signal) {
        const response = await send("GET", path, { signal });
        const answer = (await response.json()) as never;
        return {
          list: rowsOf === undefined ? answer : rowsOf(answer),
          version: response.headers.get("x-tenancy-version") ?? undefined,
        };
      },
      reset(all) {
        rows.clear();
        marks.clear();
        for (const row of all) rows.set(keyOf(row), row);
        for (const sink of sinks) sink.reset(all);
        listProblem.value = undefined;
        version.value += 1;
      },
      apply(batch) {
        for (const message of batch) applyOne(message);
        version.value += 1;
      },
      onState: (next) => {
        state.value = next;
      },
    },
    live: {
      version,
      rows,
      state,
      keyOf,
      follow(sink) {
        sinks.add(sink);
        sink.reset(rows.values());
        return () => sinks.delete(sink);
      },
    },
  };
}
