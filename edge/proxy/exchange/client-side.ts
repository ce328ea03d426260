import type { Stop } from "../forward.ts";
import type { LocalAnswer } from "../http/local-answer.ts";
import type { HeadLimits } from "../http/message-head.ts";
import type { TimeLimit } from "../time-limit.ts";

/** The client's side of an exchange. */
export interface ClientSide {
  /** Returns whether more can be written at once; else `onDrain` tells when. */
  write(data: Buffer): boolean;
  pause(): void;
  resume(): void;
  readonly limit: TimeLimit;
  /** Tells how much is kept: of the request's body for the pod, or of the response until it may go on. */
  hold(part: "request" | "response", bytes: number): void;
  /** Sends an answer of the proxy instead of one of the pod, and ends the exchange. */
  answer(answer: LocalAnswer, options: { keepAlive: boolean }): void;
  /** From now on all bytes are the tunnel's, also those that came ahead. */
  switch(tunnel: Exchange): void;
  /** The response is complete. */
  finish(options: { keepAlive: boolean }): void;
  /** The response cannot be completed, which the client sees by the connection's end. */
  cut(): void;
}

export interface ExchangeLimits {
  readonly head: HeadLimits;
  /** How long a head may take from its first byte. */
  readonly headMs: number;
  /** How long the pod and the client may both be silent before the response begins. */
  readonly firstByteMs: number;
  /** How long both may be silent after that, also over a WebSocket. */
  readonly silentMs: number;
}

/** A request on its way to a pod, and the response on its way back. */
export interface Exchange {
  /** Takes what the client sends; returns how many bytes of it belong to this exchange. */
  onClientData(chunk: Buffer): number;
  onClientDrain(): void;
  /** The client has closed its connection. */
  onClientGone(): void;
  /** Ends it as `stop` does once that cuts nothing off; only for what does not end by itself. */
  stopSoon?(answer: LocalAnswer): void;
  /** Ends it: with an answer where none has begun, a WebSocket with a close frame, else by cutting the connection. */
  readonly stop: Stop;
}
