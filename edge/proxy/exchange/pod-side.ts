import type { Clock } from "../../../crds/client/clock.ts";
import type { BodyDecoder } from "../http/body-decoder.ts";
import { writeAll } from "../http/reframe.ts";
import type { PodConnection } from "../pod-connections.ts";
import type { ClientSide } from "./client-side.ts";

/** Maximum bytes of a request's body that wait here for the pod. */
const MAX_WAITING_BYTES = 64 * 1024;
/**
 * Bytes of a body that are sent before the pod has had a moment to refuse it. Many programs refuse with a response and
 * a close without reading the body, which resets the connection; if a write then discovers the reset, the response is
 * lost although it has arrived.
 */
const FIRST_BYTES = 64 * 1024;
const REFUSAL_MS = 5;

/**
 * The pod's side of an exchange: its connection, once there is one, and the data for it. The client sends at the pod's
 * pace, and the buffer is bounded. A class, since an object with closures costs each request more.
 */
export class PodSide {
  /** The pod's port, once there is a connection. */
  port: number | undefined;
  readonly #client: ClientSide;
  readonly #body: Pick<BodyDecoder, "isDone">;
  readonly #clock: Clock;
  #pod: PodConnection | undefined;
  /** Data for the pod that was not sent yet. */
  readonly #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #isPaused = false;
  /** Number of bytes that may be sent so far. */
  #mayGo = FIRST_BYTES;
  #cancelMoment: (() => void) | undefined;

  constructor({ client, body, clock }: { client: ClientSide; body: Pick<BodyDecoder, "isDone">; clock: Clock }) {
    this.#client = client;
    this.#body = body;
    this.#clock = clock;
  }

  /** Whether the whole request was sent to the pod. */
  isSent(): boolean {
    return this.#body.isDone && this.#waiting.length === 0;
  }

  /** Sets its connection, which is closed with it. */
  attach(connection: PodConnection, port: number): void {
    this.#pod = connection;
    this.port = port;
  }

  /** Sends the request's head, and the received part of its body. */
  sendHead(text: string): void {
    this.#waiting.unshift(Buffer.from(text, "latin1"));
    if (this.#pod !== undefined) this.#sendWaiting(this.#pod);
  }

  /** Sends more of the body, or buffers it until there is a connection. */
  send(parts: readonly Buffer[]): void {
    this.#waiting.push(...parts);
    if (this.#pod === undefined) {
      for (const { length } of parts) this.#waitingBytes += length;
      this.#client.hold("request", this.#waitingBytes);
      if (this.#waitingBytes > MAX_WAITING_BYTES) this.#pauseClient();
    } else if (parts.length > 0) {
      this.#client.limit.touch();
      this.#sendWaiting(this.#pod);
    }
  }

  #sendWaiting(connection: PodConnection): void {
    let count = 0;
    let left = 0;
    for (const { length } of this.#waiting) {
      if (left > 0 || length > this.#mayGo) left += length;
      else {
        this.#mayGo -= length;
        count += 1;
      }
    }
    const accepted = writeAll(connection, this.#waiting.splice(0, count));
    if (left !== this.#waitingBytes) this.#client.hold("request", left);
    this.#waitingBytes = left;
    if (left > 0) {
      this.#pauseClient();
      this.#cancelMoment ??= this.#clock.after(REFUSAL_MS, () => this.sendAll());
    } else if (!accepted) {
      if (!this.#body.isDone) this.#pauseClient();
    } else if (this.#isPaused) this.#resumeClient();
  }

  /** Sends the data that waits for a possible refusal: the pod accepts it, or its moment has passed. */
  sendAll(): void {
    this.#mayGo = Number.POSITIVE_INFINITY;
    if (this.#pod !== undefined) this.#sendWaiting(this.#pod);
  }

  onDrain(): void {
    this.#client.limit.touch();
    this.#resumeClient();
  }

  #pauseClient(): void {
    this.#isPaused = true;
    this.#client.pause();
  }

  #resumeClient(): void {
    this.#isPaused = false;
    this.#client.resume();
  }

  /** Stops reading from the pod. */
  pause(): void {
    this.#pod?.pause();
  }

  resume(): void {
    this.#pod?.resume();
  }

  /** Hands over the connection: nothing more is sent. */
  take(): PodConnection | undefined {
    const taken = this.#pod;
    this.#pod = undefined;
    return taken;
  }

  close(): void {
    this.#cancelMoment?.();
    this.#pod?.destroy();
    this.#pod = undefined;
  }
}
