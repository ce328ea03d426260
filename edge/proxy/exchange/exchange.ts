import type { Clock } from "../../../crds/client/clock.ts";
import { describeError } from "../../../crds/describe-error.ts";
import { AnswerError, type Forward, type LostPod, type Stop } from "../forward.ts";
import { createBodyDecoder } from "../http/body-decoder.ts";
import { requestFraming } from "../http/body-framing.ts";
import { asksForWebSocket, keepsAlive, type Origin, requestHeadFor } from "../http/forward-head.ts";
import { errorAnswer, type LocalAnswer } from "../http/local-answer.ts";
import { MessageError, type RequestHead, SAFE_METHODS } from "../http/message-head.ts";
import { reframe } from "../http/reframe.ts";
import { type PodConnection, type PodConnections, type PodTarget, PodUnreachableError } from "../pod-connections.ts";
import type { ClientSide, Exchange, ExchangeLimits } from "./client-side.ts";
import { createPodResponse } from "./pod-response.ts";
import { PodSide } from "./pod-side.ts";
import { startTunnel } from "./tunnel.ts";

/**
 * Forwards one request and its response, both as they arrive and at their readers' pace.
 *
 * @throws MessageError if the end of the request's body is ambiguous
 */
export function startExchange(options: {
  head: RequestHead;
  forward: Forward;
  origin: Origin;
  client: ClientSide;
  connections: PodConnections;
  limits: ExchangeLimits;
  clock: Clock;
  /** Whether the client's connection may be used again after this exchange. */
  mayKeepAlive: () => boolean;
}): Exchange {
  const { head, forward, origin, client, connections, limits, clock } = options;
  const framing = requestFraming(head);
  const upgrades = asksForWebSocket(head);
  const body = createBodyDecoder(framing);
  if (upgrades && !body.isDone) throw new MessageError(400, "request: a handshake has no body");
  const isReplayable = framing.kind === "none" && SAFE_METHODS.has(head.method);

  /** Whether a kept connection broke during the request, which is then sent again on a new one. */
  let wasReplayed = false;
  /** Created on demand: most requests are sent immediately on a kept connection. */
  let goneController: AbortController | undefined;
  let phase: "connecting" | "open" | "done" = "connecting";
  let hasResponse = false;
  /** Status of a response other than the pod's. */
  let status: number | undefined;
  let problem: object | undefined;
  let received = 0;
  const startedAt = performance.now();
  let sentMs: number | undefined;

  const pod = new PodSide({ client, body, clock });
  const response = createPodResponse({
    head,
    forward,
    origin,
    client,
    pod,
    limits,
    clock,
    upgrades,
    startedAt,
    mayKeepClient,
    onSwitch: switchTo,
    onComplete: finish,
    onSlowHead: () =>
      abort(504, `the pod has not sent the complete head of its response within ${limits.headMs / 1000} s`),
    onSilent: cutOff,
    onPodEnd,
    onError: failResponse,
  });
  const { progress } = response;
  const listener = { onData: onPodData, onDrain: () => pod.onDrain(), onEnd: onPodEnd };

  function gone(): AbortSignal {
    goneController ??= new AbortController();
    if (phase === "done") goneController.abort();
    return goneController.signal;
  }

  // --- the request

  function begin(lost?: LostPod): void {
    let found: PodTarget | Promise<PodTarget>;
    try {
      found = forward.findPod(gone, lost);
    } catch (error) {
      // Not before the caller has the exchange.
      queueMicrotask(() => fail(error));
      return;
    }
    if (found instanceof Promise) found.then(connect).catch(fail);
    else connect(found);
  }

  function connect(target: PodTarget): void {
    if (phase === "done") return;
    const reused = wasReplayed ? undefined : connections.take(target, listener);
    if (reused !== undefined) send(reused, target);
    else open(target).catch(fail);
  }

  async function open(target: PodTarget): Promise<void> {
    try {
      const opened = await connections.open(target, listener, gone());
      if (phase === "done") opened.destroy();
      else send(opened, target);
    } catch (error) {
      if (!(error instanceof PodUnreachableError)) throw error;
      if (phase !== "done") begin({ target, error });
    }
  }

  /** Sends a request again that has no effect when repeated. */
  function replay(): void {
    wasReplayed = true;
    phase = "connecting";
    client.limit.clear();
    begin();
  }

  function send(connection: PodConnection, target: PodTarget): void {
    pod.attach(connection, target.port);
    phase = "open";
    sentMs = performance.now() - startedAt;
    const text = requestHeadFor(head, { framing, origin, changes: forward.request, upgrades, pod: target });
    client.limit.set(limits.firstByteMs, () => {
      abort(504, `the pod did not respond within ${limits.firstByteMs / 1000} s`);
    });
    pod.sendHead(text);
  }

  function onClientData(chunk: Buffer): number {
    if (phase === "done" || body.isDone) return 0;
    const parts: Buffer[] = [];
    let taken: number;
    try {
      const decoded = reframe(body, chunk, framing, parts);
      received += decoded.bytes;
      taken = decoded.taken;
    } catch (error) {
      fail(error);
      return chunk.length;
    }
    pod.send(parts);
    return taken;
  }

  // --- the response

  function onPodData(chunk: Buffer): void {
    hasResponse = true;
    client.limit.touch();
    if (phase !== "open") return;
    try {
      response.onData(chunk);
    } catch (error) {
      failResponse(error);
    }
  }

  function failResponse(error: unknown): void {
    if (error instanceof MessageError) problem = describeError(error);
    fail(error instanceof MessageError ? new MessageError(502, "the pod's response is not valid HTTP/1.1") : error);
  }

  /** Data after a body that was not read to its end cannot be told from the body. */
  function mayKeepClient(): boolean {
    return body.isDone && keepsAlive(head) && options.mayKeepAlive();
  }

  function finish({ keepAlive }: { keepAlive: boolean }): void {
    end({ isComplete: true, cut: false });
    client.finish({ keepAlive });
  }

  /** Hands the connections to a tunnel, and ends. */
  function switchTo(early: Buffer): void {
    const connection = pod.take();
    if (connection === undefined) return;
    phase = "done";
    forward.onSwitch?.();
    const tunnel = startTunnel({
      client,
      pod: connection,
      early,
      silentMs: limits.silentMs,
      forward,
      times: { startedAt, sentMs, answeredMs: progress.answeredMs },
    });
    current.stop = tunnel.stop;
    client.switch(tunnel);
  }

  function onPodEnd(): void {
    if (response.isHeldAtEnd()) return;
    const wasReused = pod.take()?.isReused === true;
    if (phase === "open" && response.endWithConnection()) return;
    // A kept connection that its pod was closing: the request changes nothing, so it is sent again.
    if (phase === "open" && wasReused && !hasResponse && isReplayable && !wasReplayed) {
      replay();
      return;
    }
    abort(502, "the pod closed the connection before its response was complete");
  }

  // --- ends

  function fail(error: unknown): void {
    if (phase === "done") return;
    problem ??= describeError(error);
    if (error instanceof AnswerError) stop(error.answer);
    else if (error instanceof PodUnreachableError) abort(502, "the pod cannot be reached");
    else if (error instanceof MessageError) abort(error.status, error.message);
    else abort(500, "internal error");
  }

  function abort(code: number, message: string): void {
    problem ??= { message };
    stop(errorAnswer(code, message));
  }

  function stop(answer: LocalAnswer, { sparesUnsent = false }: Parameters<Stop>[1] = {}): void {
    if (phase === "done" || (sparesUnsent && phase === "connecting")) return;
    if (!progress.hasBegun) {
      status = answer.status;
      end({ isComplete: true, cut: false });
      client.answer(answer, { keepAlive: head.minor === 1 && mayKeepClient() });
    } else cutOff();
  }

  function cutOff(): void {
    end({ isComplete: false, cut: true });
  }

  function end({ isComplete, cut }: { isComplete: boolean; cut: boolean }): void {
    if (phase === "done") return;
    phase = "done";
    client.limit.clear();
    goneController?.abort();
    response.close();
    pod.close();
    const totalMs = performance.now() - startedAt;
    const { status: podStatus, sent, answeredMs } = progress;
    forward.onEnd?.({
      status: status ?? podStatus,
      received,
      sent,
      isComplete,
      problem,
      sentMs,
      answeredMs,
      totalMs,
    });
    if (cut) client.cut();
  }

  const current = { stop: stop as Stop };
  forward.onStart?.(createStop(current));
  begin();
  return {
    onClientData,
    onClientDrain() {
      client.limit.touch();
      pod.resume();
    },
    onClientGone() {
      if (!progress.hasBegun) status = 499;
      end({ isComplete: false, cut: false });
    },
    stop,
  };
}

/** A separate function, so that its closure does not hold the whole exchange for the lifetime of a tunnel. */
function createStop(current: { stop: Stop }): Stop {
  return (answer, options) => current.stop(answer, options);
}
