import type { Readable, Writable } from "node:stream";
import type { RawData, WebSocket } from "ws";
import { createDeferred, type Deferred } from "../../waits.ts";
import { NetworkError } from "../api-error.ts";
import { createPaceMeter, type Pace } from "./pace-meter.ts";

const STDOUT = 1;
const STDERR = 2;
const STATUS = 3;

const maxStderrBytes = 64 * 1024;

/** How long the server may leave pings unanswered. */
const maxDeafMs = 60_000;

/**
 * How long a chunk of input may wait. While a command still gets input, the server does not report that the command has
 * ended or that its node is gone (tried: 1.34). This limit detects both. It is longer than a disk keeps a command from
 * reading.
 */
const maxUntakenMs = 30_000;

export interface ExecSession {
  /** The message of the status channel, once the command has ended. Rejected if the connection ends first. */
  readonly ended: Promise<string>;
  /** The first 64 KiB of the command's standard error. */
  stderr(): string;
  readonly input: InputProgress;
  /** Ends everything at once with an error. */
  fail(error: unknown): void;
  close(): void;
}

/**
 * Handles the channels of an exec's socket. Output goes to `stdout` as fast as `stdout` takes it; while `stdout` is
 * full, the socket is paused.
 *
 * Follows
 * https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/apimachinery/pkg/util/httpstream/wsstream/conn.go
 */
export function createExecSession(
  socket: WebSocket,
  options: {
    stdout: Writable | undefined;
    maxSilenceMs: number | undefined;
    minOutput?: Pace | undefined;
    minInput?: Pace | undefined;
    isWaiting?: (() => boolean) | undefined;
  },
): ExecSession {
  const { stdout, maxSilenceMs = Number.POSITIVE_INFINITY, minOutput, minInput, isWaiting = () => false } = options;
  const ended: Deferred<string> = createDeferred();
  const stderr: Buffer[] = [];
  let stderrBytes = 0;
  let heardAt = performance.now();
  let outputAt = heardAt;
  let sendingSince = Number.POSITIVE_INFINITY;
  const output = createPaceMeter(minOutput);
  const input = createPaceMeter(minInput);
  output.begin();
  const limits = [maxSilenceMs, minOutput?.overMs ?? maxSilenceMs, minInput?.overMs ?? maxSilenceMs];
  const watchdog = setInterval(beat, Math.min(5000, Math.min(...limits) / 4));

  function beat(): void {
    const now = performance.now();
    // While the socket is paused, the silence of the other end proves nothing.
    if (socket.isPaused) heardAt = outputAt = now;
    else if (isWaiting()) {
      outputAt = now;
      output.end();
    } else output.begin();
    if (now - heardAt > maxDeafMs) fail(cut("the server does not answer any more"));
    else if (now - outputAt > maxSilenceMs) fail(cut(`no output for ${Math.round((now - outputAt) / 1000)} s`));
    else if (now - sendingSince > maxUntakenMs)
      fail(cut("it takes no more input, so it has ended or its node is gone"));
    else if (output.isSlow()) fail(tooSlow("it has sent", minOutput));
    else if (input.isSlow()) fail(tooSlow("it has taken", minInput));
    else if (socket.readyState === socket.OPEN) socket.ping();
  }
  function noteHeard(): void {
    heardAt = performance.now();
  }
  function onMessage(data: RawData): void {
    noteHeard();
    const message = data as Buffer;
    const payload = message.subarray(1);
    if (payload.length === 0) return;
    switch (message[0]) {
      case STDOUT:
        outputAt = heardAt;
        output.count(payload.length);
        if (stdout?.write(payload) === false) {
          socket.pause();
          output.end();
        }
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
    output.begin();
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
  socket.on("pong", noteHeard);
  socket.on("ping", noteHeard);
  socket.on("error", (cause) => fail(cut(cause.message, cause)));
  socket.on("close", (code, reason) => fail(cut(`closed with ${code}${reason.length > 0 ? ` (${reason})` : ""}`)));
  stdout?.on("drain", resume);
  stdout?.on("error", fail);
  stdout?.on("close", onOutputClosed);

  return {
    ended: ended.promise,
    stderr: () => Buffer.concat(stderr).toString("utf8"),
    input: {
      sending() {
        sendingSince = performance.now();
        input.begin();
      },
      sent(bytes) {
        sendingSince = Number.POSITIVE_INFINITY;
        input.count(bytes);
        input.end();
      },
    },
    fail,
    close,
  };
}

function tooSlow(what: string, pace: Pace | undefined): NetworkError {
  const least = `${(pace?.bytesPerSecond ?? 0) / 1024} KiB/s`;
  const message = `Cannot wait for the command any longer: ${what} less than ${least} for ${(pace?.overMs ?? 0) / 1000} s`;
  return new NetworkError(message, { requestWasSent: true });
}

function cut(what: string, cause?: unknown): NetworkError {
  return new NetworkError(`Cannot follow the command: its connection ended before it did: ${what}`, {
    cause,
    requestWasSent: true,
  });
}

const STDIN = 0;

/** The size of a message. The server holds a whole message in memory, and larger messages were not faster. */
const messageBytes = 64 * 1024;

/** How much may wait in this process for a slow pod, including the socket's own buffer. */
const maxWaitingBytes = 1024 * 1024;

/** Called before and after each piece. A piece that the other end does not take is detected with it. */
interface InputProgress {
  sending(): void;
  sent(bytes: number): void;
}

/**
 * Sends a stream as the input of a command, as fast as the other end takes it.
 *
 * The end of the stream is not sent. Only v5 of the protocol can send it, so a command that works with v4 too has to
 * detect the end in the data.
 *
 * @throws the error of the stream
 */
export async function sendInput(socket: WebSocket, input: Readable, progress: InputProgress): Promise<void> {
  for await (const chunk of input as AsyncIterable<Buffer>) {
    for (let offset = 0; offset < chunk.length; offset += messageBytes) {
      progress.sending();
      const piece = chunk.subarray(offset, offset + messageBytes);
      await send(socket, piece);
      progress.sent(piece.length);
    }
  }
}

function send(socket: WebSocket, data: Buffer): Promise<void> {
  const message = Buffer.allocUnsafe(data.length + 1);
  message[0] = STDIN;
  data.copy(message, 1);
  return new Promise((resolve) => {
    // If the socket fails, it emits its own event.
    const isFull = socket.bufferedAmount + message.length > maxWaitingBytes;
    socket.send(message, () => isFull && resolve());
    if (!isFull) resolve();
  });
}
