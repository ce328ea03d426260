import type { RequestChanges, ResponseChanges } from "./http/forward-head.ts";
import type { LocalAnswer } from "./http/local-answer.ts";
import type { PodTarget, PodUnreachableError } from "./pod-connections.ts";

/** A pod to which no connection could be made, so that nothing was sent. */
export interface LostPod {
  readonly target: PodTarget;
  readonly error: PodUnreachableError;
}

/**
 * Ends a request with a response. @param options.sparesUnsent not if nothing was sent: the request then looks for a pod
 * again
 */
export type Stop = (answer: LocalAnswer, options?: { readonly sparesUnsent?: boolean }) => void;

/** The destination of a request, and callbacks on its way. */
export interface Forward {
  readonly kind: "forward";
  /**
   * Finds the pod, waking it if it is released. Called again if a repeatable request broke with its kept connection,
   * and for as long as the returned pods cannot be reached.
   *
   * @param gone aborted when the client disconnects; only needed by code that waits
   * @param lost the last returned pod, if it could not be reached: this function decides when to give up
   * @throws AnswerError with the response for the client; the error of `lost` for a 502
   */
  findPod(gone: () => AbortSignal, lost?: LostPod): PodTarget | Promise<PodTarget>;
  readonly request: RequestChanges;
  readonly response: ResponseChanges;
  /**
   * Called first, with a function that ends the request: with a response if none has begun, otherwise by closing the
   * connection; a WebSocket with close frames.
   */
  onStart?(stop: Stop): void;
  /**
   * Called when the pod has answered a request that may have changed something, before a successful response is sent:
   * undefined if it may be sent at once.
   *
   * @throws AnswerError with the response for the client
   */
  untilKept?(): Promise<void> | undefined;
  /** Called when the request has become an open WebSocket. */
  onSwitch?(): void;
  /** Called for each chunk with data over an open WebSocket, from either side; not for pings. */
  onTraffic?(): void;
  /** Called once at the end. */
  onEnd?(end: ExchangeEnd): void;
}

/** How a request ended. */
export interface ExchangeEnd {
  /** The status sent to the client; 499 if it disconnected before. */
  readonly status: number;
  /** Bytes of bodies, and over a WebSocket. */
  readonly received: number;
  readonly sent: number;
  /** Whether the response was completed, as far as the proxy can determine. */
  readonly isComplete: boolean;
  /** Why the proxy ended it, for the log: more than the client learns. */
  readonly problem: object | undefined;
  /** Milliseconds from the request's head to its sending, to the response's head, to its end. */
  readonly sentMs: number | undefined;
  readonly answeredMs: number | undefined;
  readonly totalMs: number;
}

/** Ends a request with a response of the proxy. */
export class AnswerError extends Error {
  override readonly name = "AnswerError";
  readonly answer: LocalAnswer;

  constructor(answer: LocalAnswer, options?: ErrorOptions) {
    super(answer.body, options);
    this.answer = answer;
  }
}
