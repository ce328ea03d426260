/** An open WebSocket, to which the server only writes. */
export interface EventSocket {
  /** Sends a message; a client that leaves {@link MAX_WAITING_BYTES} unread is dropped instead. */
  send(text: string): void;
  /**
   * Where the runtime fans messages out by itself: sends one to every socket that `subscribe` put into the topic, and drops slow clients
   * as `send` does.
   */
  readonly fanOut?: { subscribe(topic: string): void; publish(topic: string, text: string): void };
  close(code: number, reason: string): void;
}

/** What becomes of a WebSocket; an adapter calls it. */
export interface SocketListener {
  onOpen(socket: EventSocket): void;
  /** Called however it ended; a second call does nothing. */
  onClose(): void;
}

/** What a client may leave unread. */
export const MAX_WAITING_BYTES = 2 * 1024 * 1024;

/** The largest message that a client may send, of which none means anything. */
export const MAX_INCOMING_BYTES = 4096;

/** How long a silent client is believed to be there, in seconds; it is asked before. */
export const IDLE_SECONDS = 120;
