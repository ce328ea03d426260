import type { TriggerSpec } from "../../../crds/trigger.ts";
import type { TriggerPayload } from "../trigger-payload.ts";

/** Where and how a payload is exchanged. */
export interface DriverCall {
  readonly payload: TriggerPayload;
  /** Of the claim that the payload is for. */
  readonly endpoint: { readonly host: string; readonly port: number };
  readonly options: TriggerSpec["driverOptions"];
  /** Value of `options.tokenSecretRef`, read just now. */
  readonly token?: string | undefined;
  /** Ends the exchange at once; with a {@link PodGoneError} where the pod no longer has the endpoint. */
  readonly signal: AbortSignal;
  /** To be called before a connection is tried again. @throws PodGoneError where the pod no longer has the endpoint */
  confirm(): Promise<void>;
}

/** The pod that a call goes to no longer has the endpoint, which may be another tenant's by now. */
export class PodGoneError extends Error {
  override readonly name = "PodGoneError";
}

/** What the container answered. */
export interface DriverReply {
  /** The container's own status where it speaks HTTP, else 200. */
  readonly status: number;
  /** A media type, such as `text/plain; charset=utf-8`. */
  readonly contentType: string;
  readonly body: Uint8Array;
  /** The answer for a person: the pieces of an agent's output, or the body as text. */
  readonly text: string;
}

/**
 * Brings a payload to the container and its answer back.
 *
 * @throws DriverError
 */
export type Driver = (call: DriverCall) => Promise<DriverReply>;

/** @throws the signal's reason where the call is no longer wanted; that its pod is gone is a failure of the call instead */
export function throwIfUnwanted({ signal }: DriverCall): void {
  if (!(signal.reason instanceof PodGoneError)) signal.throwIfAborted();
}

/** A payload that got no answer; the message is for the trigger's owner, not for the event's source. */
export class DriverError extends Error {
  override readonly name = "DriverError";
  /** Whether nothing of the payload can have reached the container, so that it may be tried again. */
  readonly nothingSent: boolean;

  constructor(message: string, options: { nothingSent: boolean; cause?: unknown }) {
    super(message, { cause: options.cause });
    this.nothingSent = options.nothingSent;
  }
}
