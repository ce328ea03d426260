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
  /** Ends the exchange at once. */
  readonly signal: AbortSignal;
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
