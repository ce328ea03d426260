import type { SocketListener } from "./event-socket.ts";

/** What an adapter knows about a request beyond the request itself. */
export interface RequestContext {
  /** Aborted when the client goes away before its answer; `request.signal` where the runtime aborts that one. */
  readonly clientGone?: AbortSignal;
  /** Tells the adapter that the answer may come late, or pause for long: its limit on silent connections is lifted. */
  readonly mayBeSilent?: () => void;
  /**
   * Makes a WebSocket of a request whose handshake headers are right, and answers it; the result stands for that answer.
   *
   * @throws HttpError 400 where the runtime finds something wrong all the same
   */
  readonly upgrade?: (listener: SocketListener) => Response;
}
