/** An open WebSocket. */
export interface EventSocket {
  /** Sends a message, which is buffered here until the client takes it. */
  send(text: string): void;
  /** Bytes that the client has not taken yet. */
  readonly waitingBytes: number;
  /**
   * Set if the runtime broadcasts by itself: sends a message to every socket that subscribed to the topic, and closes
   * those that leave {@link MAX_WAITING_BYTES} unread.
   */
  readonly fanOut?: { subscribe(topic: string): void; publish(topic: string, text: string): void };
  /** Ends it without waiting for a client that does not read, and drops its buffer. */
  cut(): void;
  close(code: number, reason: string): void;
}

/** Receives the events of a WebSocket from an adapter. */
export interface SocketListener {
  onOpen(socket: EventSocket): void;
  /** Called with a text from the client of at most {@link MAX_INCOMING_BYTES}. */
  onMessage(text: string): void;
  /** Called when the connection is gone, however it ended; a second call does nothing. */
  onClose(): void;
}

/** Maximum bytes that a client may leave unread. */
export const MAX_WAITING_BYTES = 2 * 1024 * 1024;

/** Maximum size of a client's message. */
export const MAX_INCOMING_BYTES = 4096;

/** How long a silent client counts as connected, in seconds; it is pinged before. */
export const IDLE_SECONDS = 120;

/**
 * The subprotocol that a client offers beside the one with its key: a browser requires that one of its offers is
 * selected, and the key must not be sent back.
 */
export const EVENTS_PROTOCOL = "tenancy.events";

/** The subprotocols that a request offers. */
export function offeredProtocols({ headers }: Pick<Request, "headers">): string[] {
  return (headers.get("sec-websocket-protocol") ?? "").split(",").map((word) => word.trim());
}

/**
 * Represents the response to a WebSocket handshake, which the adapter sends itself: `Response` does not allow 1xx
 * statuses.
 */
export function switchingProtocols(): Response {
  return { status: 101, headers: new Headers(), body: null } as unknown as Response;
}
