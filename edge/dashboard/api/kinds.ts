import { type Signal, signal } from "@preact/signals";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { call } from "./call.ts";
import { createFeed, type FeedMessage, type FeedReader, type FeedState } from "./feed.ts";
import { checkSession } from "./session.ts";

/** What the page can hold of the cluster, by the name of its list. */
export interface Kinds {
  claims: ApiTypes["Claim"];
  instances: ApiTypes["Instance"];
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
  readonly list: (signal: AbortSignal) => Promise<Row[]>;
  /** What the types of its messages start with. */
  readonly event: string;
  readonly keyOf: (row: Row) => string;
}

const kinds: { readonly [Name in keyof Kinds]: Kind<Kinds[Name]> } = {
  claims: {
    list: async (aborted) =>
      (await call<ApiTypes["Tenant"][]>("GET", "/tenants", { signal: aborted })).flatMap(({ claims }) => claims),
    event: "claim.",
    keyOf: ({ tenantId, workloadRef }) => `${tenantId}/${workloadRef}`,
  },
  instances: {
    list: (aborted) => call("GET", "/instances", { signal: aborted }),
    event: "instance.",
    keyOf: ({ name }) => name,
  },
};

/** How the connection is; of one kind, `live(kind).state` tells. */
export const connection = signal<FeedState>("loading");
/** When the page last heard of the edge. */
export const lastHeardAt = signal(Date.now());
/** Why lists cannot be read at the moment. */
export const listProblem = signal<Error | undefined>(undefined);

const feed = createFeed({
  open(since, { onOpen, onText, onClose }) {
    const query = since === undefined ? "" : `?since=${encodeURIComponent(since)}`;
    const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws${query}`);
    let wasOpen = false;
    socket.onopen = () => {
      wasOpen = true;
      lastHeardAt.value = Date.now();
      onOpen();
    };
    socket.onmessage = ({ data }) => onText(String(data));
    socket.onclose = () => {
      onClose();
      // A browser does not say why a socket was refused; the edge may ask for the key.
      if (!wasOpen) void checkSession();
    };
    return { close: () => socket.close() };
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
  clock: {
    after(ms, act) {
      const timer = setTimeout(act, ms);
      return () => clearTimeout(timer);
    },
  },
  onState: (state) => {
    connection.value = state;
  },
  onFailure: (error) => {
    listProblem.value = error as Error;
  },
});

/** Tries again at once what waits for its next try, such as after a login. */
export function retryFeed(): void {
  feed.retry();
}

const started = new Map<keyof Kinds, unknown>();

/** The list of a kind: started by its first reader and kept while the page is open. */
export function live<Name extends keyof Kinds>(name: Name): Live<Kinds[Name]> {
  const known = started.get(name) as Live<Kinds[Name]> | undefined;
  if (known !== undefined) return known;
  const made = start<Kinds[Name]>(kinds[name]);
  started.set(name, made.live);
  feed.add(made.reader);
  return made.live;
}

function start<Row>({ list, event, keyOf }: Kind<Row>): { live: Live<Row>; reader: FeedReader<Row[]> } {
  const rows = new Map<string, Row>();
  const version = signal(0);
  const state = signal<FeedState>("loading");
  const sinks = new Set<RowSink<Row>>();

  function applyOne({ type, object }: FeedMessage): void {
    const row = object as Row;
    const key = keyOf(row);
    if (type.endsWith(".deleted")) {
      rows.delete(key);
      for (const sink of sinks) sink.remove(key);
      return;
    }
    rows.set(key, row);
    for (const sink of sinks) sink.put(row);
  }

  return {
    reader: {
      takes: (type) => type.startsWith(event),
      list,
      reset(all) {
        rows.clear();
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
