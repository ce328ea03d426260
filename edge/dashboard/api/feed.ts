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
  /** Whether the server sees the cluster as it is. */
  readonly fresh: boolean;
  /** By kind: a list of that version or a later one has all that came before this answer. */
  readonly versions: Readonly<Record<string, string | undefined>>;
}

/** How far the page can be believed: it holds nothing yet, follows what happens, or may have missed something. */
export type FeedState = "loading" | "live" | "stale";

/** A part of the page that keeps a list: read once, then changed by messages. */
export interface FeedReader<List> {
  /** Its word in a pong's versions. */
  readonly kind: string;
  takes(type: string): boolean;
  /** Reads it; without a version it is taken as it is. */
  list(signal: AbortSignal): Promise<{ list: List; version: string | undefined }>;
  reset(list: List): void;
  /** Called at most once a frame. */
  apply(batch: readonly FeedMessage[]): void;
  onState(state: FeedState): void;
}

/** The page's one connection to `/ws`. */
export interface Feed {
  /** Reads the list of a part, and follows it from then on. */
  add<List>(reader: FeedReader<List>): void;
  /** Tries again at once what waits for its next try, and asks whether the server is still there. */
  retry(): void;
  close(): void;
}

interface FeedSocket {
  send(text: string): void;
  close(): void;
}

export interface FeedOptions {
  /** Opens a socket that replays what came after the message `since`. */
  open(
    since: string | undefined,
    listener: { onOpen(): void; onText(text: string): void; onClose(): void },
  ): FeedSocket;
  /** Calls back when the page is painted next, or soon where it is not painted. */
  nextFrame(act: () => void): void;
  /** Nobody is told of a break that nobody sees. */
  isVisible(): boolean;
  clock: { now(): number; after(ms: number, act: () => void): () => void };
  /** Called when the connection comes and goes. */
  onState(state: FeedState): void;
  onPong(pong: Pong): void;
  /** Called when a list could not be read; it is read again. */
  onFailure(error: unknown): void;
}

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 10_000;
/** A replica that is behind the socket's is asked again. */
const FIRST_LAG_MS = 100;
const LONGEST_LAG_MS = 2000;
/**
 * A page is not told that its connection is dead, so it asks after so long a silence, and believes it after so long.
 */
const SILENCE_MS = 15_000;
const ANSWER_MS = 5000;

interface Part {
  readonly reader: FeedReader<unknown>;
  /** Messages that came while the list was read, which may show a state before them. */
  held: FeedMessage[];
  /** Undefined while no list is read. */
  reading: AbortController | undefined;
  hasList: boolean;
  /** The version that its list needs at least: what came before is in it, what comes later is on the socket. */
  wanted: string | undefined;
  cancelRetry: () => void;
  pauseMs: number;
  lagMs: number;
}

/**
 * Follows lists over one socket. The server's answer to a ping says up to which version of each kind the socket's past
 * reaches: a list that is as new, also of another replica, and what the socket brings from then on miss no change.
 * After a break the server replays what came meanwhile, or says that it cannot (`resync`), and then all lists are read
 * anew.
 */
export function createFeed(options: FeedOptions): Feed {
  const { clock, onFailure } = options;
  const parts: Part[] = [];
  let waiting: FeedMessage[] = [];
  let lastId: string | undefined;
  let socket: FeedSocket | undefined;
  /** Whether the server has answered on this connection. */
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
      // Closing a dead connection takes its time too; nothing is to be heard of it any more.
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
      // It comes before the first pong, at which they are read.
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
        // What it missed has been replayed before this answer.
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
    // What came since the pong counts, however often the list is read.
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
      // Its list has to be as new as the socket is now, which the next pong says.
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
