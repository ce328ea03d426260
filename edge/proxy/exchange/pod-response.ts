import type { Clock } from "../../../crds/client/clock.ts";
import type { Forward } from "../forward.ts";
import { createBodyDecoder } from "../http/body-decoder.ts";
import { type BodyFraming, responseFraming } from "../http/body-framing.ts";
import { keepsAlive, type Origin, responseHeadFor } from "../http/forward-head.ts";
import { createHeadReader } from "../http/head-reader.ts";
import {
  listOf,
  MessageError,
  parseResponseHead,
  type RequestHead,
  type ResponseHead,
  valuesOf,
} from "../http/message-head.ts";
import { endOfChunks, reframe, writeAll } from "../http/reframe.ts";
import type { ClientSide, ExchangeLimits } from "./client-side.ts";
import type { PodSide } from "./pod-side.ts";

/** The progress of a response. */
export interface ResponseProgress {
  /** Whether its head has been sent, so that no other response can be. */
  readonly hasBegun: boolean;
  readonly status: number;
  /** Bytes of its body. */
  readonly sent: number;
  /** Milliseconds from the exchange's start to the response's head. */
  readonly answeredMs: number | undefined;
}

/** A pod's response on its way to the client. */
export interface PodResponse {
  readonly progress: ResponseProgress;
  /** @throws MessageError if it is not valid HTTP/1.1 */
  onData(chunk: Buffer): void;
  /** Returns whether the response waits to be acknowledged, and records the end in that case. */
  isHeldAtEnd(): boolean;
  /** Completes a response that ends with its connection, and returns whether it is one. */
  endWithConnection(): boolean;
  /** Drops what is held back. */
  close(): void;
}

const EMPTY = Buffer.alloc(0);

/** Forwards a pod's response, held back while `untilKept` of its forward is pending. */
export function createPodResponse(options: {
  head: RequestHead;
  forward: Forward;
  origin: Origin;
  client: ClientSide;
  pod: PodSide;
  limits: ExchangeLimits;
  clock: Clock;
  /** Whether the request is a WebSocket handshake. */
  upgrades: boolean;
  /** When the exchange began, by `performance.now()`. */
  startedAt: number;
  /** Whether the client's connection may be used again after the response. */
  mayKeepClient: () => boolean;
  /** The pod speaks WebSocket from here on. */
  onSwitch: (early: Buffer) => void;
  onComplete: (how: { keepAlive: boolean }) => void;
  /** The end of a head did not arrive in time, even if parts of it did. */
  onSlowHead: () => void;
  /** Both sides have been silent for too long. */
  onSilent: () => void;
  /** The pod's connection ended while the response was held back, and the response has now been sent. */
  onPodEnd: () => void;
  /** The response was held back and cannot be sent. */
  onError: (error: unknown) => void;
}): PodResponse {
  const { head, forward, origin, client, pod, limits, clock, upgrades, startedAt } = options;
  const { mayKeepClient, onSwitch, onComplete, onSlowHead, onSilent, onPodEnd, onError } = options;
  const expectsContinue = head.minor === 1 && listOf(head.fields, "expect").includes("100-continue");
  const progress = { hasBegun: false, status: 0, sent: 0, answeredMs: undefined as number | undefined };
  let reader = createHeadReader(limits.head);
  /** Data from the pod since its response is held back. */
  let held: { chunks: Buffer[]; hasEnded: boolean } | undefined;
  /** Bytes of a head or a held response that are buffered here, as reported to the client's side. */
  let keptBytes = 0;
  let cancelSlowHead: (() => void) | undefined;
  let response: ResponseHead | undefined;
  let responseBody = createBodyDecoder({ kind: "none" });
  let responseOut: BodyFraming = { kind: "none" };
  /** As announced in the response's head. */
  let keepsClient = false;

  function keep(bytes: number): void {
    if (bytes === keptBytes) return;
    keptBytes = bytes;
    client.hold("response", bytes);
  }

  function endSlowHead(): void {
    cancelSlowHead?.();
    cancelSlowHead = undefined;
  }

  /** Reads a head, or a part of one, and returns the data after it. */
  function readHead(chunk: Buffer, parts: Buffer[]): Buffer {
    const read = reader.push(chunk);
    if (read === undefined) {
      keep(reader.bytes);
      cancelSlowHead ??= clock.after(limits.headMs, onSlowHead);
      return EMPTY;
    }
    keep(0);
    endSlowHead();
    const parsed = parseResponseHead(read.text, limits.head);
    if (parsed.status === 101 || parsed.status >= 200) progress.answeredMs = performance.now() - startedAt;
    if (parsed.status === 101) {
      if (!upgrades || !listOf(parsed.fields, "upgrade").includes("websocket")) {
        throw new MessageError(502, "response: it switches to a protocol that was not requested");
      }
      parts.push(headOf(parsed, { framing: { kind: "none" }, keepAlive: true, switches: true }));
      writeAll(client, parts.splice(0));
      onSwitch(read.rest);
      return EMPTY;
    }
    if (parsed.status < 200) {
      // An interim response; 100 only concerns clients that wait for it, and HTTP/1.0 has none.
      reader = createHeadReader(limits.head);
      if (parsed.status === 100) pod.sendAll();
      if (head.minor === 1 && (parsed.status !== 100 || expectsContinue)) {
        parts.push(headOf(parsed, { framing: { kind: "none" }, keepAlive: true }));
      }
      return read.rest;
    }
    const kept = parsed.status < 400 ? forward.untilKept?.() : undefined;
    if (kept === undefined) {
      beginBody(parsed, parts);
      return read.rest;
    }
    held = { chunks: [read.rest], hasEnded: false };
    keep(read.rest.length);
    pod.pause();
    kept.then(() => goOn(parsed)).catch(onError);
    return EMPTY;
  }

  /** The held response may be sent. */
  function goOn(parsed: ResponseHead): void {
    if (held === undefined) return;
    const { chunks, hasEnded } = held;
    held = undefined;
    keep(0);
    const parts: Buffer[] = [];
    pod.resume();
    beginBody(parsed, parts);
    readBody(parts, Buffer.concat(chunks));
    if (hasEnded) onPodEnd();
  }

  function beginBody(parsed: ResponseHead, parts: Buffer[]): void {
    response = parsed;
    progress.status = parsed.status;
    const incoming = responseFraming(parsed, head.method);
    responseBody = createBodyDecoder(incoming);
    responseOut = outgoing(incoming);
    keepsClient = mayKeepClient() && responseOut.kind !== "close";
    parts.push(headOf(parsed, { framing: responseOut, keepAlive: keepsClient }));
    progress.hasBegun = true;
    client.limit.set(limits.silentMs, onSilent);
  }

  function headOf(parsed: ResponseHead, how: { framing: BodyFraming; keepAlive: boolean; switches?: boolean }): Buffer {
    const { scheme } = origin;
    const changes = forward.response;
    const text = responseHeadFor(parsed, { ...how, request: head, scheme, podPort: pod.port, changes });
    return Buffer.from(text, "latin1");
  }

  /** The framing for the client: unchanged if the client can read it. */
  function outgoing(incoming: BodyFraming): BodyFraming {
    if (incoming.kind === "none" || incoming.kind === "length") return incoming;
    return head.minor === 1 ? { kind: "chunked" } : { kind: "close" };
  }

  function readBody(parts: Buffer[], chunk: Buffer): void {
    const { taken, bytes } = reframe(responseBody, chunk, responseOut, parts);
    progress.sent += bytes;
    if (!responseBody.isDone) {
      if (parts.length > 0 && !writeAll(client, parts)) pod.pause();
      return;
    }
    finish(parts, { hasMore: taken < chunk.length });
  }

  function finish(parts: Buffer[], { hasMore }: { hasMore: boolean }): void {
    if (parts.length > 0) writeAll(client, parts);
    const podKeeps = response?.minor === 1 && keepsAlive(response) && !responseBody.endsWithConnection;
    const ended = pod.take();
    if (pod.isSent() && podKeeps && !hasMore && !upgrades) ended?.release(response && keptFor(response));
    else ended?.destroy();
    onComplete({ keepAlive: keepsClient });
  }

  return {
    progress,
    onData(chunk) {
      if (held !== undefined) {
        held.chunks.push(chunk);
        keep(keptBytes + chunk.length);
        return;
      }
      const parts: Buffer[] = [];
      let rest = chunk;
      while (!progress.hasBegun && held === undefined && rest.length > 0) rest = readHead(rest, parts);
      if (progress.hasBegun) readBody(parts, rest);
      else if (parts.length > 0 && !writeAll(client, parts)) pod.pause();
    },
    isHeldAtEnd() {
      if (held === undefined) return false;
      held.hasEnded = true;
      return true;
    },
    endWithConnection() {
      if (!progress.hasBegun || !responseBody.endsWithConnection) return false;
      finish(responseOut.kind === "chunked" ? [endOfChunks([])] : [], { hasMore: false });
      return true;
    },
    close() {
      held = undefined;
      keep(0);
      endSlowHead();
    },
  };
}

const TIMEOUT = /^(?:.*[\s,;])?timeout="?(\d{1,6})\b/i;

/** How many milliseconds the sender keeps its connection, if it says so. */
function keptFor({ fields }: ResponseHead): number | undefined {
  const seconds = TIMEOUT.exec(valuesOf(fields, "keep-alive")[0] ?? "")?.[1];
  return seconds === undefined ? undefined : Number(seconds) * 1000;
}
