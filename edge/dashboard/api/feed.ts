import { isBefore } from "./read-pages.ts";

/** A message of `/ws`. */
export interface FeedMessage {
  readonly id: string;
  readonly type: string;
  readonly time: string;
  readonly object?: unknown;
}

/** The answer to a ping. */
export interface Pong {
  readonly id: string;
  /** The server's clock. */
  readonly time: string;
  /** Whether the server's cache of the cluster is fresh. */
  readonly fresh: boolean;
  /** By kind: a list of at least this version contains everything before this pong. */
  readonly versions: Readonly<Record<string, string | undefined>>;
}

/** `loading`: no data yet; `live`: follows changes; `stale`: may have missed changes. */
export type FeedState = "loading" | "live" | "stale";

/** A part of the page that holds a list: read once, then changed by messages. */
export interface FeedReader<List> {
  /** The kind's name in a pong's `versions`. */
  readonly kind: string;
  takes(type: string): boolean;
  /** Reads the list; without a version any list is accepted. */
  list(signal: AbortSignal): Promise<{ list: List; version: string | undefined }>;
  reset(list: List): void;
  /** Called at most once a frame. */
  apply(batch: readonly FeedMessage[]): void;
  onState(state: FeedState): void;
}

/** The page's one connection to `/ws`. */
export interface Feed {
  /** Reads the list of a part and follows its changes. */
  add<List>(reader: FeedReader<List>): void;
  /** Retries pending work now, and pings the server. */
  retry(): void;
  close(): void;
}

interface FeedSocket {
  send(text: string): void;
  close(): void;
}

export interface FeedOptions {
  /** Opens a socket that replays the messages after `since`. */
  open(
    since: string | undefined,
    listener: { onOpen(): void; onText(text: string): void; onClose(): void },
  ): FeedSocket;
  /** Calls back at the next paint, or soon in a hidden tab. */
  nextFrame(act: () => void): void;
  /** A break of a hidden page is not reported. */
  isVisible(): boolean;
  clock: { now(): number; after(ms: number, act: () => void): () => void };
  /** Called when the connection is opened or lost. */
  onState(state: FeedState): void;
  onPong(pong: Pong): void;
  /** Called when a list could not be read; the read is retried. */
  onFailure(error: unknown): void;
}

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 10_000;
/** First delay before a replica that lags behind the socket is asked again. */
const FIRST_LAG_MS = 100;
const LONGEST_LAG_MS = 2000;
/** A browser does not report a dead connection: ping after this much silence, and give up after as much again. */
const SILENCE_MS = 15_000;
const ANSWER_MS = 5000;

interface Part {
  readonly reader: FeedReader<unknown>;
  /** Messages received while the list is read; they may be older than the list. */
  held: FeedMessage[];
  /** Undefined while no read is in progress. */
  reading: AbortController | undefined;
  hasList: boolean;
  /** The lowest acceptable version of the list: older changes are in it, newer ones arrive on the socket. */
  wanted: string | undefined;
  cancelRetry: () => void;
  pauseMs: number;
  lagMs: number;
}

/**
 * Follows lists over one socket. A pong reports, by kind, the version up to which the socket has delivered changes. A
 * list of at least that version, even from another replica, and the messages after it miss no change. After a break the
 * server replays the missed messages, or sends `resync`, and then all lists are read again.
 */
export function createFeed(options: FeedOptions): Feed {
  const { clock, onFailure } = options;
  const parts: Part[] = [];
  let waiting: FeedMessage[] = [];
  let lastId: string | undefined;
  let socket: FeedSocket | undefined;
  let isLive = false;
  let isClosed = false;
  let wasLive = false;
  let pauseMs = FIRST_PAUSE_MS;
  let heardAt = 0;
  let cancelReconnect = (): void => undefined;
  let cancelSilence = (): void => undefined;
  let cancelAnswer: (() => void) | undefined;

  function connect(): void {
    if (isClosed || socket !== undefined) return;
    const mine = options.open(lastId, {
      onOpen() {
        if (socket !== mine) return;
        heardAt = clock.now();
        ping(mine);
        cancelSilence = clock.after(SILENCE_MS, onSilence);
      },
      onText(text) {
        if (socket === mine) take(JSON.parse(text) as FeedMessage);
      },
      onClose() {
        if (socket === mine) onLost();
      },
    });
    socket = mine;
  }

  function ping(to: FeedSocket): void {
    if (cancelAnswer !== undefined) return;
    to.send("ping");
    cancelAnswer = clock.after(ANSWER_MS, () => {
      // Closing a dead connection takes time as well; ignore everything it still sends.
      onLost();
      to.close();
    });
  }

  function onSilence(): void {
    const silentMs = clock.now() - heardAt;
    if (socket !== undefined && silentMs >= SILENCE_MS && options.isVisible()) ping(socket);
    cancelSilence = clock.after(silentMs >= SILENCE_MS ? SILENCE_MS : SILENCE_MS - silentMs, onSilence);
  }

  function onLost(): void {
    socket = undefined;
    isLive = false;
    cancelSilence();
    cancelAnswer?.();
    cancelAnswer = undefined;
    for (const part of parts) {
      stopReading(part);
      if (part.hasList) part.reader.onState("stale");
    }
    if (isClosed) return;
    options.onState(wasLive ? "stale" : "loading");
    cancelReconnect = clock.after(pauseMs, connect);
    pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
  }

  function take(message: FeedMessage): void {
    heardAt = clock.now();
    lastId = message.id;
    if (message.type === "pong") {
      takePong(message as FeedMessage & Pong);
    } else if (message.type === "resync") {
      waiting = [];
      // `resync` arrives before the first pong, which starts the reads.
      for (const part of parts) part.hasList = false;
    } else {
      waiting.push(message);
      if (waiting.length === 1) options.nextFrame(flush);
    }
  }

  function takePong(pong: Pong): void {
    cancelAnswer?.();
    cancelAnswer = undefined;
    options.onPong(pong);
    const isFirst = !isLive;
    isLive = true;
    wasLive = true;
    pauseMs = FIRST_PAUSE_MS;
    for (const part of parts) {
      if (part.hasList) {
        // Missed messages are replayed before this pong.
        if (isFirst) part.reader.onState("live");
      } else if (part.reading === undefined) {
        part.wanted = pong.versions[part.reader.kind];
        read(part);
      }
    }
    if (isFirst) options.onState("live");
  }

  function flush(): void {
    const batch = waiting;
    waiting = [];
    for (const { reader, reading, held, hasList } of parts) {
      const own = batch.filter(({ type }) => reader.takes(type));
      if (own.length === 0) continue;
      if (reading !== undefined) held.push(...own);
      else if (hasList) reader.apply(own);
    }
  }

  function read(part: Part): void {
    const { held } = part;
    stopReading(part);
    const { reader } = part;
    const reading = new AbortController();
    part.reading = reading;
    // Messages since the pong are applied however often the list is read.
    part.held = held;
    reader.list(reading.signal).then(
      ({ list, version }) => {
        if (part.reading !== reading) return;
        if (isBefore(version, part.wanted)) {
          part.cancelRetry = clock.after(part.lagMs, () => read(part));
          part.lagMs = Math.min(part.lagMs * 2, LONGEST_LAG_MS);
          return;
        }
        const missed = part.held;
        stopReading(part);
        part.hasList = true;
        part.pauseMs = FIRST_PAUSE_MS;
        part.lagMs = FIRST_LAG_MS;
        reader.reset(list);
        if (missed.length > 0) reader.apply(missed);
        reader.onState("live");
      },
      (error: unknown) => {
        if (part.reading !== reading) return;
        onFailure(error);
        part.cancelRetry = clock.after(part.pauseMs, () => read(part));
        part.pauseMs = Math.min(part.pauseMs * 2, LONGEST_PAUSE_MS);
      },
    );
  }

  function stopReading(part: Part): void {
    part.cancelRetry();
    part.reading?.abort();
    part.reading = undefined;
    part.held = [];
  }

  return {
    add(reader) {
      const part: Part = {
        reader: reader as FeedReader<unknown>,
        held: [],
        reading: undefined,
        hasList: false,
        wanted: undefined,
        cancelRetry: () => undefined,
        pauseMs: FIRST_PAUSE_MS,
        lagMs: FIRST_LAG_MS,
      };
      parts.push(part);
      reader.onState("loading");
      // The list must be as new as the socket is now; the next pong gives that version.
      if (isLive && socket !== undefined) ping(socket);
      else if (parts.length === 1) connect();
    },
    retry() {
      if (isLive) for (const part of parts) if (part.reading !== undefined) read(part);
      if (socket === undefined) {
        cancelReconnect();
        connect();
      } else if (isLive) {
        ping(socket);
      }
    },
    close() {
      isClosed = true;
      cancelReconnect();
      const open = socket;
      if (open !== undefined) onLost();
      open?.close();
    },
  };
}
