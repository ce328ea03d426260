import type { RequestChanges, ResponseChanges } from "./http/forward-head.ts";
import type { LocalAnswer } from "./http/local-answer.ts";
import type { PodTarget, PodUnreachableError } from "./pod-connections.ts";

/** A pod to which no connection could be made, so that nothing was sent. */
export interface LostPod {
  readonly target: PodTarget;
  readonly error: PodUnreachableError;
}

/** Ends a request with an answer. @param options.sparesUnsent not one of which nothing was sent: it looks for a pod anew */
export type Stop = (answer: LocalAnswer, options?: { readonly sparesUnsent?: boolean }) => void;

/** Where a request goes, and what becomes of it on the way. */
export interface Forward {
  readonly kind: "forward";
  /**
   * Finds the pod, waking it where it sleeps. Called again where a request that does no harm twice broke with its kept
   * connection, and for as long as the pods that it gives cannot be reached.
   *
   * @param gone aborted when the client goes away; only what waits has to ask for it
   * @param lost what it gave last, where that could not be reached: it is for this function to give up
   * @throws AnswerError with what the client is told instead; the error of `lost` for a 502
   */
  findPod(gone: () => AbortSignal, lost?: LostPod): PodTarget | Promise<PodTarget>;
  readonly request: RequestChanges;
  readonly response: ResponseChanges;
  /**
   * Called before anything else, with what ends the request: with an answer where none has begun, else by a cut; a
   * WebSocket by close frames.
   */
  onStart?(stop: Stop): void;
  /**
   * Called when the pod has answered a request that may have changed something, before anything of a good answer goes
   * on: undefined where it may at once.
   *
   * @throws AnswerError with what the client is told instead
   */
  untilKept?(): Promise<void> | undefined;
  /** Called when the request has become an open WebSocket. */
  onSwitch?(): void;
  /** Called for each piece with data that comes over an open WebSocket, from either side: not for pings alone. */
  onTraffic?(): void;
  /** Called once, when all is over. */
  onEnd?(end: ExchangeEnd): void;
}

/** How a request ended. */
export interface ExchangeEnd {
  /** What the client was answered; 499 where it went away before. */
  readonly status: number;
  /** Bytes of bodies, and of what went over a WebSocket. */
  readonly received: number;
  readonly sent: number;
  /** Whether the answer reached its end, as far as the proxy can tell. */
  readonly isComplete: boolean;
  /** Why the proxy ended it, for the log: more than the client is told. */
  readonly problem: object | undefined;
  /** Milliseconds from the request's head to its sending, to the response's head, to its end. */
  readonly sentMs: number | undefined;
  readonly answeredMs: number | undefined;
  readonly totalMs: number;
}

/** Ends a request with an answer of the proxy. */
export class AnswerError extends Error {
  override readonly name = "AnswerError";
  readonly answer: LocalAnswer;

  constructor(answer: LocalAnswer, options?: ErrorOptions) {
    super(answer.body, options);
    this.answer = answer;
  }
}
