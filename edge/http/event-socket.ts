/** An open WebSocket. */
export interface EventSocket {
  /** Sends a message, of text or binary, which is buffered here until the client takes it. */
  send(message: string | Uint8Array): void;
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
  /** The subprotocols that it speaks: the client's first offer of them is selected. @default {@link EVENTS_PROTOCOL} */
  readonly protocols?: readonly string[];
  onOpen(socket: EventSocket): void;
  /** Called with a text from the client of at most {@link MAX_INCOMING_BYTES}. */
  onMessage(text: string): void;
  /** Called with bytes of at most {@link MAX_BINARY_BYTES}. @default a binary message means nothing */
  onBinary?(bytes: Uint8Array): void;
  /** Called when the connection is gone, however it ended; a second call does nothing. */
  onClose(): void;
}

/** Maximum bytes that a client may leave unread. */
export const MAX_WAITING_BYTES = 2 * 1024 * 1024;

/** Maximum size of a client's text. */
export const MAX_INCOMING_BYTES = 4096;

/** Maximum size of a client's binary message: a channel and 64 KiB. Runtimes hold one before they can refuse it. */
export const MAX_BINARY_BYTES = 64 * 1024 + 1;

/** The close code for a message that is too large. */
export const TOO_LARGE = 1009;

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

/** The subprotocol that is selected of those that a listener speaks. */
export function selectProtocol(
  request: Pick<Request, "headers">,
  protocols: SocketListener["protocols"] = [EVENTS_PROTOCOL],
): string | undefined {
  return offeredProtocols(request).find((word) => protocols.includes(word));
}

/** Gives a message to a listener, unless it is too large. */
export function receive(message: string | Uint8Array, to: { listener: SocketListener; socket: EventSocket }): void {
  const { listener, socket } = to;
  if (typeof message !== "string" && listener.onBinary !== undefined) listener.onBinary(message);
  // Of UTF-16, so a text of other characters is larger in bytes.
  else if (message.length > MAX_INCOMING_BYTES) socket.close(TOO_LARGE, "too large");
  else if (typeof message === "string") listener.onMessage(message);
}

/**
 * Represents the response to a WebSocket handshake, which the adapter sends itself: `Response` does not allow 1xx
 * statuses.
 */
export function switchingProtocols(): Response {
  return { status: 101, headers: new Headers(), body: null } as unknown as Response;
}
