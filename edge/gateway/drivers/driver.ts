import type { TriggerSpec } from "../../../crds/trigger.ts";

/** A round trip to the container. */
export interface DriverCall {
  readonly payload: TriggerPayload;
  /** Endpoint of the claim. */
  readonly endpoint: { readonly host: string; readonly port: number };
  readonly options: TriggerSpec["driverOptions"];
  /** Current value of `options.tokenSecretRef`. */
  readonly token?: string | undefined;
  /** Current secrets of `spec.signing`: the request is signed with each. */
  readonly signedWith?: readonly Buffer[] | undefined;
  /** Ends the call immediately; with a {@link PodGoneError} if the pod no longer has the endpoint. */
  readonly signal: AbortSignal;
  /** Call this before a connection is retried. @throws PodGoneError if the pod no longer has the endpoint */
  confirm(): Promise<void>;
}

/** The pod of a call no longer has the endpoint, which may already belong to another tenant. */
export class PodGoneError extends Error {
  override readonly name = "PodGoneError";
}

export interface DriverReply {
  /** The container's status if it uses HTTP, otherwise 200. */
  readonly status: number;
  /** A media type, such as `text/plain; charset=utf-8`. */
  readonly contentType: string;
  readonly body: Uint8Array;
  /** The answer for a person: the collected output of an agent, or the body as text. */
  readonly text: string;
}

/**
 * Sends a payload to the container and returns its answer.
 *
 * @throws DriverError
 */
export type Driver = (call: DriverCall) => Promise<DriverReply>;

/** @throws the signal's reason if the call was aborted; a pod that is gone fails the call instead */
export function throwIfAborted({ signal }: DriverCall): void {
  if (!(signal.reason instanceof PodGoneError)) signal.throwIfAborted();
}

/** A payload without an answer; the message is for the trigger's owner, not for the event's source. */
export class DriverError extends Error {
  override readonly name = "DriverError";
  /** Whether nothing of the payload can have reached the container, so that it may be retried. */
  readonly nothingSent: boolean;

  constructor(message: string, options: { nothingSent: boolean; cause?: unknown }) {
    super(message, { cause: options.cause });
    this.nothingSent = options.nothingSent;
  }
}

/** An event as guards see it and drivers send it to the container. */
export interface TriggerPayload {
  /** Identifies the event; the same for every delivery of it. */
  readonly id: string;
  /** The trigger's name. */
  readonly trigger: string;
  readonly source: TriggerSpec["type"];
  readonly tenantId: string;
  /** The person's text, if the event is a message. */
  readonly text?: string | undefined;
  readonly data: unknown;
  /** ISO 8601 time. */
  readonly receivedAt: string;
}

/** Maximum size of a container's answer, and of a single message. */
export const MAX_REPLY_BYTES = 1024 * 1024;

/** Time limit of the handshake on a new connection to an agent. */
export const HANDSHAKE_MS = 10_000;

/** Pause before the only retry: a pod can be Ready before its program opens the port. */
export const RETRY_MS = 1000;

const DEFAULT_TIMEOUT_SECONDS = 300;

/** Time limit of a call in milliseconds. */
export function timeoutMs({ options }: DriverCall): number {
  return (options?.timeoutSeconds ?? DEFAULT_TIMEOUT_SECONDS) * 1000;
}

/**
 * The URL of a call: the claim's endpoint with `driverOptions.path` or the driver's own path, never another host.
 *
 * @throws Error if the host is not valid
 */
export function callUrl({ endpoint, options }: DriverCall, defaults: { scheme: "http" | "ws"; path: string }): URL {
  const { host, port } = endpoint;
  const path = options?.path ?? defaults.path;
  return new URL(
    `${defaults.scheme}://${host.includes(":") ? `[${host}]` : host}:${port}${path.startsWith("/") ? path : `/${path}`}`,
  );
}

const MAX_CHARACTERS = 500;

/** The text on one line, cut at 500 characters: makes foreign text safe for a message. */
export function oneLine(text: string): string {
  // Only what can be shown is processed, since the text may be a megabyte.
  const start = text.trimStart().slice(0, 8 * MAX_CHARACTERS);
  const line = start.replaceAll(/[\p{Cc}\p{Zl}\p{Zp}\s]+/gu, " ").trim();
  const characters = [...line.slice(0, 2 * MAX_CHARACTERS + 2)];
  return characters.length > MAX_CHARACTERS ? `${characters.slice(0, MAX_CHARACTERS).join("")}…` : line;
}
