import type { Socket } from "node:net";
import type { Clock } from "../../crds/client/clock.ts";
import { describeError } from "../../crds/describe-error.ts";
import type { Log } from "../../crds/log.ts";
import type { OriginReader } from "./entry/origin.ts";
import type { ClientSide, Exchange, ExchangeLimits } from "./exchange/client-side.ts";
import { startExchange } from "./exchange/exchange.ts";
import type { Forward } from "./forward.ts";
import { type HeldBytes, unreadBytes } from "./held-bytes.ts";
import { requestFraming } from "./http/body-framing.ts";
import { asksForWebSocket, keepsAlive } from "./http/forward-head.ts";
import { createHeadReader } from "./http/head-reader.ts";
import { answerText, errorAnswer, type LocalAnswer } from "./http/local-answer.ts";
import { listOf, MessageError, parseRequestHead, type RequestHead } from "./http/message-head.ts";
import type { PodConnections } from "./pod-connections.ts";
import type { TimeLimit } from "./time-limit.ts";

/** A request for routing: nothing of its body has been read. */
export interface IncomingRequest {
  readonly head: RequestHead;
  readonly requestId: string;
  readonly isWebSocket: boolean;
}

/** Decides how a request is handled. */
export type Route = (request: IncomingRequest) => Forward | { readonly kind: "answer"; readonly answer: LocalAnswer };

export interface ClientLimits extends ExchangeLimits {
  /** How long a connection without a request is kept. */
  readonly idleMs: number;
  /** How long data of a refused client is read, so that it receives the response. */
  readonly lingerMs: number;
}

/** Service restart, for WebSockets: the instance is unaffected, and another replica serves it immediately. */
const RESTART = 1012;
const STOPPING: LocalAnswer = {
  ...errorAnswer(503, "the server is stopping; try again", [["Retry-After", "1"]]),
  closeCode: RESTART,
};
/** How much a client may send before the response to its last request. */
const MAX_AHEAD_BYTES = 64 * 1024;
const EMPTY = Buffer.alloc(0);

/** Serves the requests of one connection, one after the other. */
export function serveClient(options: {
  socket: Socket;
  route: Route;
  requestId: () => string;
  originOf: OriginReader;
  connections: PodConnections;
  limits: ClientLimits;
  limit: TimeLimit;
  held: HeldBytes;
  clock: Clock;
  log: Log;
  /** Whether each response closes its connection. */
  isLeaving: () => boolean;
  isStopping: () => boolean;
  /** Called with the status of each request that is refused before routing. */
  onRefused?: ((status: number) => void) | undefined;
  /** Called when an admitted request begins, and when it ends. */
  onBusy: (isBusy: boolean) => void;
}): { stopSoon(): void; stop(): void; cut(): void } {
  const { socket, route, connections, limits, limit, clock, log, isLeaving, isStopping } = options;
  const readOrigin = options.originOf(socket.remoteAddress ?? "unknown");
  let reader = createHeadReader(limits.head);
  let exchange: Exchange | undefined;
  /** Received early: the next requests, or data after a handshake. */
  let ahead: Buffer[] = [];
  let aheadBytes = 0;
  let isLingering = false;
  /** Whether the client has yet to read written data. */
  let isClogged = false;
  /** Whether the exchange has yet to take received data. */
  let isHeldUp = false;
  /** Bytes that the exchange buffers: of a body for its pod, and of a response. */
  let requestBytes = 0;
  let responseBytes = 0;
  let requestId = "";
  let method = "GET";

  function write(data: Buffer): boolean {
    const accepted = socket.write(data);
    isClogged = !accepted;
    onHeld();
    return accepted;
  }

  const onHeld = options.held.add({
    measure: () =>
      socket.destroyed ? 0 : unreadBytes(socket) + reader.bytes + aheadBytes + requestBytes + responseBytes,
    cut: () => void socket.destroy(),
  });

  const client: ClientSide = {
    write,
    pause() {
      isHeldUp = true;
      socket.pause();
    },
    resume() {
      isHeldUp = false;
      if (aheadBytes <= MAX_AHEAD_BYTES) socket.resume();
    },
    limit,
    hold(part, bytes) {
      if (part === "request") requestBytes = bytes;
      else responseBytes = bytes;
      onHeld();
    },
    answer(answer, { keepAlive }) {
      write(Buffer.from(answerText(answer, { method, keepAlive, requestId })));
      over({ keepAlive });
    },
    switch(tunnel) {
      exchange = tunnel;
      reader = createHeadReader(limits.head);
      const data = takeAhead();
      socket.resume();
      if (data.length > 0) tunnel.onClientData(data);
      if (isStopping()) tunnel.stopSoon?.(STOPPING);
    },
    finish: over,
    cut: () => void socket.destroy(),
  };

  function over({ keepAlive }: { keepAlive: boolean }): void {
    if (exchange !== undefined) options.onBusy(false);
    exchange = undefined;
    isHeldUp = false;
    requestBytes = 0;
    if (!keepAlive) {
      linger();
      return;
    }
    waitForNext();
    goOn();
  }

  /**
   * Only after the client has read its last response: a client that never reads would otherwise accumulate responses
   * without end.
   */
  function goOn(): void {
    if (isClogged) return;
    // Otherwise each request would add more than it removes.
    if (aheadBytes <= MAX_AHEAD_BYTES) socket.resume();
    // Through the event loop: a thousand early requests must not become a stack a thousand calls deep.
    if (aheadBytes > 0) setImmediate(readAhead);
  }

  /** Waits for the client to close, so that its system does not discard the response together with unsent data. */
  function linger(): void {
    isLingering = true;
    ahead = [];
    aheadBytes = 0;
    // A slow client has yet to read the end of its response.
    limit.set(limits.silentMs, () => socket.destroy());
    socket.end(() => limit.set(limits.lingerMs, () => socket.destroy()));
    socket.resume();
  }

  function waitForNext(): void {
    if (isStopping()) {
      linger();
      return;
    }
    reader = createHeadReader(limits.head);
    limit.set(isClogged ? limits.silentMs : limits.idleMs, () => socket.destroy());
  }

  function readAhead(): void {
    if (exchange !== undefined || isLingering || isClogged || socket.destroyed || aheadBytes === 0) return;
    onData(takeAhead());
    // Not before: each request would add more than it removes.
    if (aheadBytes <= MAX_AHEAD_BYTES && !isHeldUp) socket.resume();
  }

  function takeAhead(): Buffer {
    const [first = EMPTY] = ahead;
    // Not copied: a client may send many small requests early.
    const data = ahead.length > 1 ? Buffer.concat(ahead) : first;
    ahead = [];
    aheadBytes = 0;
    onHeld();
    return data;
  }

  function keep(chunk: Buffer): void {
    if (chunk.length === 0) return;
    ahead.push(chunk);
    aheadBytes += chunk.length;
    if (aheadBytes > MAX_AHEAD_BYTES) socket.pause();
    onHeld();
  }

  function onData(chunk: Buffer): void {
    if (isLingering) return;
    if (exchange !== undefined) {
      // Buffered data goes first.
      if (aheadBytes > 0) keep(chunk);
      else {
        const taken = exchange.onClientData(chunk);
        if (taken < chunk.length && !isLingering) keep(chunk.subarray(taken));
        if (exchange === undefined && aheadBytes > 0) setImmediate(readAhead);
      }
      return;
    }
    if (aheadBytes > 0 || isClogged) {
      keep(chunk);
      return;
    }
    const hadBegun = reader.bytes > 0;
    try {
      const read = reader.push(chunk);
      if (read !== undefined) {
        if (hadBegun) reader = createHeadReader(limits.head);
        start(read.text, read.rest);
        return;
      }
      onHeld();
      if (!hadBegun && reader.bytes > 0) {
        limit.set(limits.headMs, () => refuse(new MessageError(408, "request: its head did not arrive in time")));
      }
    } catch (error) {
      refuse(error);
    }
  }

  /** @throws MessageError */
  function start(text: string, rest: Buffer): void {
    requestId = options.requestId();
    method = "GET";
    const head = parseRequestHead(text, limits.head);
    method = head.method;
    const framing = requestFraming(head);
    const expected = listOf(head.fields, "expect");
    if (head.minor === 1 && expected.some((one) => one !== "100-continue")) {
      throw new MessageError(417, "headers: the only supported expectation is 100-continue");
    }
    if (method === "CONNECT" || method === "TRACE") throw new MessageError(405, `${method} is not supported here`);
    limit.clear();
    const { address, scheme, requestId: given } = readOrigin(head.fields);
    requestId = given ?? requestId;
    const origin = { address, scheme, requestId };
    const routed = route({ head, requestId, isWebSocket: asksForWebSocket(head) });
    if (routed.kind === "answer") {
      const keepAlive =
        head.minor === 1 &&
        (framing.kind === "none" || (framing.kind === "length" && framing.bytes === 0)) &&
        keepsAlive(head);
      if (keepAlive) keep(rest);
      client.answer(routed.answer, { keepAlive: keepAlive && !isLeaving() });
      return;
    }
    exchange = startExchange({
      head,
      forward: routed,
      origin,
      client,
      connections,
      limits,
      clock,
      mayKeepAlive: () => !isLeaving(),
    });
    options.onBusy(true);
    if (rest.length > 0) onData(rest);
  }

  function refuse(error: unknown): void {
    const isRefusal = error instanceof MessageError;
    if (!isRefusal) log.error({ requestId, error: describeError(error) }, "request could not be routed");
    const { status, message } = isRefusal ? error : { status: 500, message: "internal error" };
    if (requestId === "") requestId = options.requestId();
    exchange = undefined;
    options.onRefused?.(status);
    client.answer(errorAnswer(status, message), { keepAlive: false });
  }

  socket.on("data", onData);
  socket.on("drain", () => {
    const wasClogged = isClogged;
    isClogged = false;
    onHeld();
    if (exchange !== undefined) exchange.onClientDrain();
    else if (wasClogged && !isLingering) {
      waitForNext();
      goOn();
    }
  });
  socket.on("error", () => socket.destroy());
  const onGone = (): void => {
    const gone = exchange;
    exchange = undefined;
    gone?.onClientGone();
  };
  socket.on("end", () => {
    onGone();
    if (!isLingering) socket.destroy();
  });
  socket.on("close", () => {
    limit.clear();
    onGone();
    onHeld();
  });
  waitForNext();

  return {
    stopSoon() {
      if (exchange !== undefined) exchange.stopSoon?.(STOPPING);
      else if (reader.bytes === 0 && !isLingering) linger();
    },
    stop: () => exchange?.stop(STOPPING),
    cut: () => void socket.destroy(),
  };
}
