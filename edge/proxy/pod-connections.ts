import { connect, type Socket } from "node:net";
import type { Clock } from "../../crds/client/clock.ts";
import { onAbort } from "../../crds/waits.ts";
import { type HeldBytes, unreadBytes } from "./held-bytes.ts";

/** A pod that requests are sent to. */
export interface PodTarget {
  /** The pod's uid: connections of one pod are never used for another, whatever its address. */
  readonly uid: string;
  readonly host: string;
  readonly port: number;
  /**
   * Whether the address still belongs to this pod. Called after each connection has opened and before anything is sent
   * on it: an address passes to another pod only when this one is gone, so a connection that was open before a positive
   * answer leads to this pod for as long as it lasts.
   */
  confirm(signal: AbortSignal): Promise<boolean>;
}

/** The current reader of a connection. */
export interface PodListener {
  onData(chunk: Buffer): void;
  /** Written data has been sent. */
  onDrain(): void;
  /** Called once, when nothing more arrives: the pod has closed the connection, or it broke. */
  onEnd(): void;
}

/** A connection to a pod, for one request at a time. */
export interface PodConnection {
  /** Whether a request used it before. */
  readonly isReused: boolean;
  /** Returns whether more can be written now; if not, `onDrain` follows. */
  write(data: Buffer): boolean;
  pause(): void;
  resume(): void;
  /** Ends it once all is written; further data from the pod is read for a while, and dropped. */
  end(): void;
  /** Sets another reader. */
  listen(listener: PodListener): void;
  /**
   * Keeps it for the pod's next request.
   *
   * @param podKeepsMs how long the pod says that it keeps it
   */
  release(podKeepsMs: number | undefined): void;
  destroy(): void;
}

/** A request could not reach its pod, and nothing of it was sent. */
export class PodUnreachableError extends Error {
  override readonly name = "PodUnreachableError";
}

export interface PodConnections {
  /** A kept connection to the pod, or undefined. */
  take(pod: PodTarget, listener: PodListener): PodConnection | undefined;
  /**
   * Opens a connection, and confirms that it leads to the pod.
   *
   * @throws PodUnreachableError; the signal's reason when it is aborted
   */
  open(pod: PodTarget, listener: PodListener, signal: AbortSignal): Promise<PodConnection>;
  /** Number of open connections, kept ones included. */
  readonly size: number;
  /** Closes the kept ones and those that are ending, and keeps none from now on. */
  close(): void;
}

/**
 * How long an idle connection is kept. Shorter than servers keep theirs (2 to 75 s): a request on a connection that its
 * pod is closing may be lost.
 */
const KEPT_MS = 1000;
/** The maximum if a pod says that it keeps them longer: each new one costs a call to the API server. */
const LONGEST_KEPT_MS = 10_000;
/** Closing it with unread data would reset it, and the pod could lose the last written bytes. */
const LINGER_MS = 2000;
/** Maximum kept connections per pod. */
const KEPT_EACH = 64;

const nothing = (): void => undefined;
const DROP_ALL: PodListener = { onData: nothing, onDrain: nothing, onEnd: nothing };

interface Connection extends PodConnection {
  readonly socket: Socket;
  listener: PodListener | undefined;
  isReused: boolean;
  keptUntil: number;
}

/** Makes the connections to pods, each kept for a while for the next request to the same pod. */
export function createPodConnections(options: { clock: Clock; connectMs: number; held: HeldBytes }): PodConnections {
  const { clock, connectMs, held } = options;
  const kept = new Map<string, Connection[]>();
  const open = new Set<Connection>();
  const ending = new Set<Connection>();
  let closed = false;
  let cancelSweep: (() => void) | undefined;

  function adopt(socket: Socket, pod: PodTarget): Connection {
    const key = keyOf(pod);
    let hasEnded = false;
    const connection: Connection = {
      socket,
      listener: undefined,
      isReused: false,
      keptUntil: 0,
      write(data) {
        const accepted = socket.write(data);
        onHeld();
        return accepted;
      },
      pause: () => void socket.pause(),
      resume: () => void socket.resume(),
      listen(listener) {
        connection.listener = listener;
      },
      end() {
        connection.listener = DROP_ALL;
        if (closed) socket.destroy();
        if (socket.destroyed) return;
        ending.add(connection);
        const cancel = clock.after(LINGER_MS, () => socket.destroy());
        socket.once("close", () => {
          cancel();
          ending.delete(connection);
        });
        socket.end();
        socket.resume();
      },
      release(podKeepsMs = 2 * KEPT_MS) {
        connection.listener = undefined;
        const idle = kept.get(key) ?? [];
        if (closed || hasEnded || idle.length >= KEPT_EACH) {
          socket.destroy();
          return;
        }
        connection.isReused = true;
        connection.keptUntil = clock.now() + Math.min(podKeepsMs - KEPT_MS, LONGEST_KEPT_MS);
        socket.resume();
        if (idle.length === 0) kept.set(key, idle);
        idle.push(connection);
        cancelSweep ??= clock.after(KEPT_MS, sweep);
      },
      destroy() {
        connection.listener = undefined;
        socket.destroy();
      },
    };
    open.add(connection);
    const onHeld = held.add({
      measure: () => (socket.destroyed ? 0 : unreadBytes(socket)),
      cut: () => void socket.destroy(),
    });

    function onEnd(): void {
      if (hasEnded) return;
      hasEnded = true;
      const { listener } = connection;
      connection.listener = undefined;
      if (listener === undefined) forget(key, connection);
      listener?.onEnd();
    }
    socket.on("data", (chunk: Buffer) => {
      // Unrequested data: its sender could answer the next request with it.
      if (connection.listener === undefined) socket.destroy();
      else connection.listener.onData(chunk);
    });
    socket.on("drain", () => {
      onHeld();
      connection.listener?.onDrain();
    });
    socket.on("end", onEnd);
    // `close` follows.
    socket.on("error", () => socket.destroy());
    socket.on("close", () => {
      open.delete(connection);
      onHeld();
      onEnd();
    });
    return connection;
  }

  function forget(key: string, connection: Connection): void {
    const idle = kept.get(key);
    if (idle === undefined) return;
    const left = idle.filter((one) => one !== connection);
    if (left.length === 0) kept.delete(key);
    else kept.set(key, left);
    connection.socket.destroy();
  }

  function sweep(): void {
    cancelSweep = undefined;
    const now = clock.now();
    for (const [key, idle] of kept) {
      for (const connection of idle) if (connection.keptUntil <= now) forget(key, connection);
    }
    if (kept.size > 0) cancelSweep = clock.after(KEPT_MS / 2, sweep);
  }

  return {
    take(pod, listener) {
      const key = keyOf(pod);
      const idle = kept.get(key);
      if (idle === undefined) return undefined;
      // The pod closes the most recently used one last.
      const connection = idle.pop();
      if (idle.length === 0) kept.delete(key);
      if (connection === undefined) return undefined;
      if (connection.keptUntil <= clock.now() || connection.socket.destroyed) {
        connection.socket.destroy();
        return undefined;
      }
      connection.listener = listener;
      return connection;
    },
    async open(pod, listener, signal) {
      const socket = await connectTo(pod, { clock, connectMs, signal });
      const connection = adopt(socket, pod);
      const ignoreAbort = onAbort(signal, connection.destroy);
      try {
        if (!(await pod.confirm(signal))) {
          throw new PodUnreachableError(`${pod.host} is no longer the address of pod ${pod.uid}`);
        }
        signal.throwIfAborted();
        if (socket.destroyed) throw new PodUnreachableError(`${pod.host}:${pod.port} closed the connection at once`);
      } catch (error) {
        connection.destroy();
        throw error;
      } finally {
        ignoreAbort();
      }
      connection.listener = listener;
      return connection;
    },
    get size() {
      return open.size;
    },
    close() {
      closed = true;
      cancelSweep?.();
      for (const [key, idle] of kept) for (const connection of idle) forget(key, connection);
      for (const connection of ending) connection.destroy();
    },
  };
}

function keyOf({ uid, host, port }: PodTarget): string {
  return `${uid} ${host}:${port}`;
}

/** @throws PodUnreachableError; the signal's reason when it is aborted */
function connectTo(
  { host, port }: PodTarget,
  { clock, connectMs, signal }: { clock: Clock; connectMs: number; signal: AbortSignal },
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(signal.reason);
      return;
    }
    const socket = connect({ host, port, noDelay: true });
    const cancelLimit = clock.after(connectMs, () => {
      fail(new PodUnreachableError(`Cannot connect to ${host}:${port}: no answer within ${connectMs / 1000} s`));
    });
    const ignoreAbort = onAbort(signal, () => fail(signal.reason));
    socket.once("error", onError);
    socket.once("connect", () => {
      cancelLimit();
      ignoreAbort();
      socket.off("error", onError);
      resolve(socket);
    });

    function onError(cause: Error): void {
      fail(new PodUnreachableError(`Cannot connect to ${host}:${port}: ${cause.message}`, { cause }));
    }
    function fail(reason: unknown): void {
      cancelLimit();
      ignoreAbort();
      socket.destroy();
      reject(reason);
    }
  });
}
