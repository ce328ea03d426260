import type { Writable } from "node:stream";
import type { RawData, WebSocket } from "ws";
import { NetworkError } from "./api-error.ts";
import { createDeferred, type Deferred } from "./deferred.ts";

const STDOUT = 1;
const STDERR = 2;
const STATUS = 3;

const maxStderrBytes = 64 * 1024;
const pingEveryMs = 15_000;

/** How long the other end may give no sign of life. Longer than a pod's disk is ever busy with what is in its pipe. */
const silenceMs = 90_000;

export interface ExecSession {
  /** What the status channel said, once the command has ended; rejected when the connection ends first. */
  readonly ended: Promise<string>;
  /** The first 64 KiB of what the command has written to its standard error. */
  stderr(): string;
  /** Says that the other end has taken something. */
  noteProgress(): void;
  /** Ends everything at once with an error. */
  fail(error: unknown): void;
  close(): void;
}

/**
 * Follows the channels of one exec's socket: output goes to `stdout` as fast as that takes it, and the socket is paused meanwhile.
 *
 * Follows https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/apimachinery/pkg/util/httpstream/wsstream/conn.go
 */
export function createExecSession(socket: WebSocket, options: { stdout: Writable | undefined }): ExecSession {
  const { stdout } = options;
  const ended: Deferred<string> = createDeferred();
  const stderr: Buffer[] = [];
  let stderrBytes = 0;
  let aliveAt = performance.now();
  const watchdog = setInterval(beat, pingEveryMs);

  function beat(): void {
    if (socket.isPaused) aliveAt = performance.now();
    const silentMs = performance.now() - aliveAt;
    if (silentMs > silenceMs) fail(cut(`no sign of life for ${Math.round(silentMs / 1000)} s`));
    else if (socket.readyState === socket.OPEN) socket.ping();
  }
  function noteProgress(): void {
    aliveAt = performance.now();
  }
  function onMessage(data: RawData): void {
    noteProgress();
    const message = data as Buffer;
    const payload = message.subarray(1);
    if (payload.length === 0) return;
    switch (message[0]) {
      case STDOUT:
        if (stdout?.write(payload) === false) socket.pause();
        break;
      case STDERR:
        if (stderrBytes < maxStderrBytes) stderr.push(payload.subarray(0, maxStderrBytes - stderrBytes));
        stderrBytes += payload.length;
        break;
      case STATUS:
        ended.resolve(payload.toString("utf8"));
    }
  }
  function resume(): void {
    socket.resume();
  }
  function onOutputClosed(): void {
    fail(stdout?.errored ?? new Error("Cannot take the command's output: the stream that takes it was closed"));
  }
  function fail(error: unknown): void {
    ended.reject(error);
    close();
  }
  function close(): void {
    clearInterval(watchdog);
    stdout?.off("drain", resume);
    stdout?.off("error", fail);
    stdout?.off("close", onOutputClosed);
    socket.terminate();
  }

  socket.on("message", onMessage);
  socket.on("pong", noteProgress);
  socket.on("ping", noteProgress);
  socket.on("error", (cause) => fail(cut(cause.message, cause)));
  socket.on("close", (code, reason) => fail(cut(`closed with ${code}${reason.length > 0 ? ` (${reason})` : ""}`)));
  stdout?.on("drain", resume);
  stdout?.on("error", fail);
  stdout?.on("close", onOutputClosed);

  return {
    ended: ended.promise,
    stderr: () => Buffer.concat(stderr).toString("utf8"),
    noteProgress,
    fail,
    close,
  };
}

function cut(what: string, cause?: unknown): NetworkError {
  return new NetworkError(`Cannot follow the command: its connection ended before it did: ${what}`, {
    cause,
    requestWasSent: true,
  });
}
