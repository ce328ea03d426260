/** A message of `/ws`. */
export interface FeedMessage {
  readonly id: string;
  readonly type: string;
  readonly time: string;
  readonly object?: unknown;
}

/** How far the page can be believed: it holds nothing yet, follows what happens, or may have missed something. */
export type FeedState = "loading" | "live" | "stale";

/** A part of the page that keeps a list: read once, then changed by messages. */
export interface FeedReader<List> {
  takes(type: string): boolean;
  list(signal: AbortSignal): Promise<List>;
  reset(list: List): void;
  /** Called at most once a frame. */
  apply(batch: readonly FeedMessage[]): void;
  onState(state: FeedState): void;
}

/** The page's one connection to `/ws`. */
export interface Feed {
  /** Reads the list of a part, and follows it from then on. */
  add<List>(reader: FeedReader<List>): void;
  /** Tries again at once what waits for its next try. */
  retry(): void;
  close(): void;
}

export interface FeedOptions {
  /** Opens a socket that replays what came after the message `since`. */
  open(
    since: string | undefined,
    listener: { onOpen(): void; onText(text: string): void; onClose(): void },
  ): { close(): void };
  /** Calls back when the page is painted next, or soon where it is not painted. */
  nextFrame(act: () => void): void;
  clock: { after(ms: number, act: () => void): () => void };
  /** Called when the connection comes and goes. */
  onState(state: FeedState): void;
  /** Called when a list could not be read; it is read again. */
  onFailure(error: unknown): void;
}

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 10_000;

interface Part {
  readonly reader: FeedReader<unknown>;
  /** Messages that came while the list was read, which may show a state before them. */
  held: FeedMessage[];
  /** Undefined while no list is read. */
  reading: AbortController | undefined;
  hasList: boolean;
  cancelRetry: () => void;
  pauseMs: number;
}

/**
 * Follows lists: a list is read after the socket is open, and what the socket brought meanwhile is applied to it, so
 * that no change is missed. After a break the server replays what came meanwhile, or says that it cannot (`resync`), and
 * then all lists are read anew.
 */
export function createFeed(options: FeedOptions): Feed {
  const { clock, onFailure } = options;
  const parts: Part[] = [];
  let waiting: FeedMessage[] = [];
  let lastId: string | undefined;
  let socket: { close(): void } | undefined;
  let isOpen = false;
  let isClosed = false;
  let wasOpen = false;
  let pauseMs = FIRST_PAUSE_MS;
  let cancelReconnect = (): void => undefined;

  function connect(): void {
    if (isClosed || socket !== undefined) return;
    const mine = options.open(lastId, {
      onOpen() {
        if (socket !== mine) return;
        isOpen = true;
        wasOpen = true;
        pauseMs = FIRST_PAUSE_MS;
        const isReplayed = lastId !== undefined;
        for (const part of parts) {
          if (part.hasList && isReplayed) part.reader.onState("live");
          else read(part);
        }
        options.onState("live");
      },
      onText(text) {
        if (socket === mine) take(JSON.parse(text) as FeedMessage);
      },
      onClose() {
        if (socket !== mine) return;
        socket = undefined;
        isOpen = false;
        for (const part of parts) {
          stopReading(part);
          if (part.hasList) part.reader.onState("stale");
        }
        if (isClosed) return;
        options.onState(wasOpen ? "stale" : "loading");
        cancelReconnect = clock.after(pauseMs, connect);
        pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
      },
    });
    socket = mine;
  }

  function take(message: FeedMessage): void {
    lastId = message.id;
    if (message.type === "resync") {
      waiting = [];
      for (const part of parts) read(part);
      return;
    }
    waiting.push(message);
    if (waiting.length === 1) options.nextFrame(flush);
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
    stopReading(part);
    const { reader } = part;
    const reading = new AbortController();
    part.reading = reading;
    part.held = [];
    reader.list(reading.signal).then(
      (list) => {
        if (part.reading !== reading) return;
        part.reading = undefined;
        part.hasList = true;
        part.pauseMs = FIRST_PAUSE_MS;
        reader.reset(list);
        if (part.held.length > 0) reader.apply(part.held);
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
        cancelRetry: () => undefined,
        pauseMs: FIRST_PAUSE_MS,
      };
      parts.push(part);
      reader.onState("loading");
      if (isOpen) read(part);
      else if (parts.length === 1) connect();
    },
    retry() {
      if (isOpen) for (const part of parts) if (part.reading !== undefined) read(part);
      if (socket !== undefined) return;
      cancelReconnect();
      connect();
    },
    close() {
      isClosed = true;
      cancelReconnect();
      for (const part of parts) stopReading(part);
      socket?.close();
    },
  };
}
