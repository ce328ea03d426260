import type { Stop } from "../forward.ts";
import type { LocalAnswer } from "../http/local-answer.ts";
import type { HeadLimits } from "../http/message-head.ts";
import type { TimeLimit } from "../time-limit.ts";

/** The client's side of an exchange. */
export interface ClientSide {
  /** Returns whether more can be written now; if not, `onDrain` follows. */
  write(data: Buffer): boolean;
  pause(): void;
  resume(): void;
  readonly limit: TimeLimit;
  /** Reports the number of buffered bytes: of the request's body for the pod, or of a response that is held back. */
  hold(part: "request" | "response", bytes: number): void;
  /** Sends a response of the proxy instead of the pod's, and ends the exchange. */
  answer(answer: LocalAnswer, options: { keepAlive: boolean }): void;
  /** From now on all bytes belong to the tunnel, including early ones. */
  switch(tunnel: Exchange): void;
  /** The response is complete. */
  finish(options: { keepAlive: boolean }): void;
  /** The response cannot be completed; the client sees that the connection ends. */
  cut(): void;
}

export interface ExchangeLimits {
  readonly head: HeadLimits;
  /** Time limit of a head from its first byte. */
  readonly headMs: number;
  /** How long the pod and the client may both be silent before the response begins. */
  readonly firstByteMs: number;
  /** How long both may be silent after that, also over a WebSocket. */
  readonly silentMs: number;
}

/** A request on its way to a pod, and its response. */
export interface Exchange {
  /** Takes data from the client; returns how many bytes belong to this exchange. */
  onClientData(chunk: Buffer): number;
  onClientDrain(): void;
  /** The client has closed its connection. */
  onClientGone(): void;
  /** Ends it as `stop` does, once that interrupts nothing; only for exchanges that do not end by themselves. */
  stopSoon?(answer: LocalAnswer): void;
  /**
   * Ends it: with a response if none has begun, a WebSocket with a close frame, otherwise by closing the connection.
   */
  readonly stop: Stop;
}
