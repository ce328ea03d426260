/** An open WebSocket. */
export interface EventSocket {
  /** Sends a message, which waits here until the client takes it. */
  send(text: string): void;
  /** What the client has not taken yet. */
  readonly waitingBytes: number;
  /**
   * Where the runtime fans messages out by itself: sends one to every socket that `subscribe` put into the topic, and
   * cuts those that leave {@link MAX_WAITING_BYTES} unread.
   */
  readonly fanOut?: { subscribe(topic: string): void; publish(topic: string, text: string): void };
  /** Ends it without waiting for a client that does not read, and lets go of what waits for it. */
  cut(): void;
  close(code: number, reason: string): void;
}

/** What becomes of a WebSocket; an adapter calls it. */
export interface SocketListener {
  onOpen(socket: EventSocket): void;
  /** Called with a text that the client sent, of at most {@link MAX_INCOMING_BYTES}. */
  onMessage(text: string): void;
  /** Called however it ended, once the connection is gone; a second call does nothing. */
  onClose(): void;
}

/** What a client may leave unread. */
export const MAX_WAITING_BYTES = 2 * 1024 * 1024;

/** The largest message that a client may send. */
export const MAX_INCOMING_BYTES = 4096;

/** How long a silent client is believed to be there, in seconds; it is asked before. */
export const IDLE_SECONDS = 120;

/**
 * The subprotocol that a client offers beside the one that carries its key, since a browser wants one of those that it
 * offers to be chosen, and the key is not to be sent back.
 */
export const EVENTS_PROTOCOL = "tenancy.events";

/** The subprotocols that a request offers. */
export function offeredProtocols({ headers }: Pick<Request, "headers">): string[] {
  return (headers.get("sec-websocket-protocol") ?? "").split(",").map((word) => word.trim());
}

/**
 * Stands for the answer to a WebSocket's handshake, which the adapter sends itself: `Response` allows no status of the
 * 100s.
 */
export function switchingProtocols(): Response {
  return { status: 101, headers: new Headers(), body: null } as unknown as Response;
}
