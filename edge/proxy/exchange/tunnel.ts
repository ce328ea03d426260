import type { ExchangeEnd, Forward } from "../forward.ts";
import { closeFrame, createFrameState, isBetweenFrames, scanFrames } from "../http/websocket-frames.ts";
import type { PodConnection } from "../pod-connections.ts";
import type { ClientSide, Exchange } from "./client-side.ts";

/** Going away: clients that reconnect find the instance at its new address, even if it must be woken. */
const GOING_AWAY = 1001;

/**
 * Passes bytes on unchanged, both ways and at their readers' pace, once pod and client speak WebSocket. Open tunnels
 * are many and last long, so nothing of the handshake is held. Only the headers of frames are read: to tell data from
 * pings, and to end between two frames.
 *
 * @param options.early data from the pod after its head
 */
export function startTunnel(options: {
  client: ClientSide;
  pod: PodConnection;
  early: Buffer;
  silentMs: number;
  forward: Forward;
  times: Pick<ExchangeEnd, "sentMs" | "answeredMs"> & { readonly startedAt: number };
}): Exchange {
  const { client, pod, forward } = options;
  const { startedAt, sentMs, answeredMs } = options.times;
  const fromClient = createFrameState({ isMasked: true });
  const fromPod = createFrameState({ isMasked: false });
  let received = 0;
  let sent = 0;
  let isOver = false;
  /** The code to close with as soon as both sides are between frames. */
  let pendingCode: number | undefined;

  function end(): boolean {
    if (isOver) return false;
    isOver = true;
    client.limit.clear();
    const totalMs = performance.now() - startedAt;
    const isComplete = true;
    forward.onEnd?.({ status: 101, received, sent, isComplete, problem: undefined, sentMs, answeredMs, totalMs });
    return true;
  }

  /** Ends both sides, each with a close frame unless it is inside another frame. */
  function close(code: number): void {
    if (!end()) return;
    if (isBetweenFrames(fromClient)) {
      if (!fromClient.isClosed) pod.write(closeFrame(code, fromClient));
      pod.end();
    } else pod.destroy();
    if (isBetweenFrames(fromPod)) {
      if (!fromPod.isClosed) client.write(closeFrame(code, fromPod));
      client.finish({ keepAlive: false });
    } else client.cut();
  }

  function closeBetweenFrames(): void {
    if (pendingCode !== undefined && isBetweenFrames(fromClient) && isBetweenFrames(fromPod)) close(pendingCode);
  }

  function onPodData(chunk: Buffer): void {
    client.limit.touch();
    sent += chunk.length;
    if (scanFrames(fromPod, chunk)) forward.onTraffic?.();
    if (!client.write(chunk)) pod.pause();
    closeBetweenFrames();
  }

  pod.listen({
    onData: onPodData,
    onDrain: client.resume,
    onEnd() {
      if (end()) client.finish({ keepAlive: false });
    },
  });
  client.limit.set(options.silentMs, () => close(GOING_AWAY));
  if (options.early.length > 0) onPodData(options.early);
  return {
    onClientData(chunk) {
      if (isOver) return chunk.length;
      client.limit.touch();
      received += chunk.length;
      if (scanFrames(fromClient, chunk)) forward.onTraffic?.();
      if (!pod.write(chunk)) client.pause();
      closeBetweenFrames();
      return chunk.length;
    },
    onClientDrain: pod.resume,
    onClientGone() {
      if (end()) pod.end();
    },
    stopSoon({ closeCode = GOING_AWAY }) {
      pendingCode = closeCode;
      closeBetweenFrames();
    },
    stop: ({ closeCode = GOING_AWAY }) => close(closeCode),
  };
}
