import type { TriggerSpec } from "../../../crds/trigger.ts";

/** A round trip to the container. */
export interface DriverCall {
  readonly payload: TriggerPayload;
  /** Of the claim that the payload is for. */
  readonly endpoint: { readonly host: string; readonly port: number };
  readonly options: TriggerSpec["driverOptions"];
  /** Value of `options.tokenSecretRef`, read just now. */
  readonly token?: string | undefined;
  /** Ends the call at once; with a {@link PodGoneError} where the pod no longer has the endpoint. */
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
 * Sends a payload to the container and returns its answer.
 *
 * @throws DriverError
 */
export type Driver = (call: DriverCall) => Promise<DriverReply>;

/** @throws the signal's reason where the call was aborted; a pod that is gone is a failure of the call instead */
export function throwIfAborted({ signal }: DriverCall): void {
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

/** An event as guards see it and drivers send it to the container. */
export interface TriggerPayload {
  /** Identifies the event: the same however often its source delivers it. */
  readonly id: string;
  /** The trigger's name. */
  readonly trigger: string;
  readonly source: TriggerSpec["type"];
  readonly tenantId: string;
  /** What a person wrote, where the event is a message. */
  readonly text?: string | undefined;
  readonly data: unknown;
  /** ISO 8601 time. */
  readonly receivedAt: string;
}

/** The largest answer of a container, and its largest message. */
export const MAX_REPLY_BYTES = 1024 * 1024;

/** How long a new connection to an agent may take until the agent can be asked. */
export const HANDSHAKE_MS = 10_000;

/** The pause before the one retry: a pod can be Ready while its program still opens its port. */
export const RETRY_MS = 1000;

const DEFAULT_TIMEOUT_SECONDS = 300;

/** Milliseconds that a call may take in all. */
export function timeoutMs({ options }: DriverCall): number {
  return (options?.timeoutSeconds ?? DEFAULT_TIMEOUT_SECONDS) * 1000;
}

/**
 * The address that a call goes to: the claim's endpoint, with `driverOptions.path` or the driver's own path, never
 * another host.
 *
 * @throws Error when the host is not valid
 */
export function callUrl({ endpoint, options }: DriverCall, defaults: { scheme: "http" | "ws"; path: string }): URL {
  const { host, port } = endpoint;
  const path = options?.path ?? defaults.path;
  return new URL(
    `${defaults.scheme}://${host.includes(":") ? `[${host}]` : host}:${port}${path.startsWith("/") ? path : `/${path}`}`,
  );
}

const MAX_CHARACTERS = 500;

/** The text on one line, cut at 500 characters: makes foreign text fit for a message. */
export function oneLine(text: string): string {
  // No more is looked at than can be shown, since it may be a megabyte.
  const start = text.trimStart().slice(0, 8 * MAX_CHARACTERS);
  const line = start.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}\s]+/gu, " ").trim();
  const characters = [...line.slice(0, 2 * MAX_CHARACTERS + 2)];
  return characters.length > MAX_CHARACTERS ? `${characters.slice(0, MAX_CHARACTERS).join("")}…` : line;
}
