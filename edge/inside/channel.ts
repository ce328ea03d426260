import { Buffer } from "node:buffer";
import { type Readable, Writable } from "node:stream";
import { ApiError, NetworkError } from "../../crds/client/api-error.ts";
import { type Clock, steadyClock } from "../../crds/client/clock.ts";
import type { ExecResult } from "../../crds/client/exec/exec.ts";
import { ExecError } from "../../crds/client/exec/exec-outcome.ts";
import { createDeferred, type Deferred, linkSignals, onAbort } from "../../crds/waits.ts";
import { type CallInput, readInput } from "./call-input.ts";
import { createFrameDecoder, type Frame, FrameError, frameType, HEADER_BYTES, MAX_PAYLOAD_BYTES } from "./frames.ts";
import { createOutgoing, type DataSender, WINDOW_BYTES } from "./outgoing.ts";
import { createReceivedData, type ReceivedData } from "./received-data.ts";

const VERSION = 1;

/** From the start of the exec. A node that starts 200 of them at once takes more than ten seconds. */
const HELLO_LIMIT_MS = 30_000;

const PING_EVERY_MS = 15_000;

/** The program answers each ping, so no frame for this long means that it or the connection is lost. */
const MAX_SILENCE_MS = 60_000;

/** The limit that every exec needs. Calls are far shorter; terminals may be open for days. */
const MAX_AGE_MS = 7 * 24 * 60 * 60_000;

/** Credit is sent in parts of a quarter of the window: fewer frames, and the program does not wait for it. */
const CREDIT_STEP_BYTES = WINDOW_BYTES / 4;

/** No more calls are queued for a program that leaves this unread. */
const MAX_WAITING_BYTES = 4 * 1024 * 1024;
/** What may arrive for a call that has ended, beside the DATA that the program may send: an answer, and credits. */
const LATE_BYTES = MAX_PAYLOAD_BYTES + 64 * 1024;

/** How much of what the program prints when it cannot begin is shown. */
const MAX_SHOWN_STDERR = 1000;

/** The program in the pod refused a call, or failed at it. */
export class InsideError extends Error {
  override readonly name = "InsideError";
  /** The program's code, such as `notFound`; `otherVersion` if the program speaks another version of the protocol. */
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

export interface CallOptions {
  /** Its abort ends the call in the pod, and the call and its `data` throw the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Sent at the pace of the program, also after the answer. If it fails, the call ends in the pod, and the call or its
   * `data` throws the error. It is released when the call ends.
   * @default the end at once
   */
  readonly input?: CallInput | undefined;
  /** Called once when the call, if it was made, is over: also if its data is not read. */
  readonly onEnd?: (() => void) | undefined;
}

export interface CallResult {
  /** Written in the pod: narrow it with a schema. */
  readonly answer: unknown;
  /**
   * What follows the answer, one chunk a DATA frame. Read it to its end or leave the loop: until then the call is open.
   * The program stops sending when 512 KiB are unread. Throws as the call does.
   */
  readonly data: AsyncIterable<Uint8Array>;
}

/** A connection to the program `inside` of a pod. It carries many calls at a time. */
export interface Channel {
  /**
   * Makes a call and waits for its answer.
   *
   * @throws InsideError if the program refuses
   * @throws NetworkError if the connection ends before the call does; `requestWasSent` says whether the call was sent
   * @throws ExecError if the exec ends with one
   * @throws RangeError if the parameters are longer than a frame may be
   * @throws the error of the input, or the signal's reason if it is aborted
   */
  call(name: string, parameters: object, options?: CallOptions): Promise<CallResult>;
  /** How many calls have not ended. */
  openCalls(): number;
  /** Ends the exec, and all calls with a NetworkError. */
  close(): void;
  /** Resolves when the exec has ended. */
  readonly ended: Promise<void>;
}

export interface ChannelOptions {
  /** Runs `inside connect` in the pod, as `Exec` does. */
  readonly run: (streams: {
    readonly stdin: Readable;
    readonly stdout: Writable;
    readonly signal: AbortSignal;
    readonly timeoutMs: number;
  }) => Promise<ExecResult>;
  /** Its abort closes the channel, also when it is open. */
  readonly signal?: AbortSignal | undefined;
  /** @default the steady clock */
  readonly clock?: Clock | undefined;
  /** Called when a call has ended. */
  readonly onCallEnd?: (() => void) | undefined;
  /** Called once, when no more calls are possible; also if the channel did not open. */
  readonly onClose?: (() => void) | undefined;
}

/** A call that has not ended. */
interface Stream {
  readonly answer: Deferred<CallResult>;
  readonly received: ReceivedData;
  readonly sender: DataSender;
  isAnswered: boolean;
  /** How much DATA the program may send. */
  allowance: number;
  /** How much the caller has read since the last CREDIT. */
  unacknowledged: number;
  /** Frees what the call holds beside this object. */
  readonly cleanups: (() => void)[];
}

/**
 * Opens a channel: runs the program and waits for its HELLO.
 *
 * @throws InsideError `otherVersion` if the program speaks another version of the protocol
 * @throws NetworkError if there is no HELLO within 30 s or the exec ends before
 * @throws ExecError or ApiError if the program was not run
 * @throws the signal's reason if it is aborted
 */
export async function openChannel(options: ChannelOptions): Promise<Channel> {
  const { run, signal, clock = steadyClock, onCallEnd, onClose } = options;
  signal?.throwIfAborted();
  const stop = linkSignals();
  const hello = createDeferred<void>();
  const outgoing = createOutgoing();
  const streams = new Map<number, Stream>();
  let state: { kind: "opening" } | { kind: "open" } | { kind: "closed"; because: unknown } = { kind: "opening" };
  let nextStream = 1;
  let silentBeats = 0;
  /** Pings that the program has not answered. A program that sends frames that are not asked for is cut. */
  let openPings = 0;
  let lateBytes = 0;

  const decode = createFrameDecoder(onFrame);
  const stdout = new Writable({
    // Each chunk is handled at once, so the connection is never paused: credit limits what the program sends.
    highWaterMark: 2 ** 30,
    write(chunk: Buffer, _encoding, done) {
      try {
        if (state.kind !== "closed") decode(chunk);
      } catch (error) {
        fail(error instanceof FrameError ? lost(error.message, { cause: error }) : error);
      }
      done();
    },
  });
  const ignoreAbort = onAbort(signal, () => {
    fail(state.kind === "opening" ? signal?.reason : lost("it was closed", { cause: signal?.reason }));
  });
  let cancelTimer = clock.after(HELLO_LIMIT_MS, () =>
    fail(lost(`the program has not begun within ${HELLO_LIMIT_MS / 1000} s`)),
  );

  function fail(error: unknown): void {
    if (state.kind === "closed") return;
    state = { kind: "closed", because: error };
    cancelTimer();
    ignoreAbort();
    hello.reject(error);
    for (const [id, stream] of streams) end(id, stream, { error });
    stop.abort(error);
    onClose?.();
  }

  /** Describes why the connection has ended. */
  function lost(why: string, { cause }: { cause?: unknown } = {}): NetworkError {
    // Before HELLO, no call can have been sent.
    const requestWasSent = state.kind !== "opening";
    return new NetworkError(`Cannot reach the program in the pod: ${why}`, { cause, requestWasSent });
  }

  function beat(): void {
    // Beats are counted, not milliseconds: when this process was suspended, the frames that arrived are read first.
    silentBeats += 1;
    if (silentBeats * PING_EVERY_MS > MAX_SILENCE_MS) {
      fail(lost(`it has sent nothing for ${MAX_SILENCE_MS / 1000} s`));
      return;
    }
    openPings += 1;
    outgoing.send(frameType.ping, 0);
    cancelTimer = clock.after(PING_EVERY_MS, beat);
  }

  function onFrame(frame: Frame): void {
    if (state.kind === "closed") return;
    silentBeats = 0;
    if (state.kind === "opening") {
      onHello(frame);
      return;
    }
    const { type, stream: id, payload } = frame;
    if (type === frameType.ping && id === 0 && payload.length === 0 && openPings > 0) {
      openPings -= 1;
      return;
    }
    if (id === 0 || id >= nextStream) throw new FrameError(`Cannot use a frame of type ${type} for stream ${id}`);
    const stream = streams.get(id);
    if (stream !== undefined) {
      onStreamFrame(stream, frame);
      return;
    }
    lateBytes -= HEADER_BYTES + payload.length;
    if (lateBytes < 0) throw new FrameError("Cannot take more frames for calls that have ended");
  }

  function onHello({ type, stream, payload }: Frame): void {
    if (type !== frameType.hello || stream !== 0)
      throw new FrameError(`Cannot use a frame of type ${type} before the HELLO`);
    const { version } = parseObject(payload);
    if (version !== VERSION) {
      const found = JSON.stringify(version)?.slice(0, 20);
      throw new InsideError("otherVersion", `Cannot use the pod's program: its protocol is ${found}, not ${VERSION}`);
    }
    cancelTimer();
    cancelTimer = clock.after(PING_EVERY_MS, beat);
    state = { kind: "open" };
    hello.resolve();
  }

  function onStreamFrame(stream: Stream, { type, stream: id, payload }: Frame): void {
    switch (type) {
      case frameType.answer:
        if (stream.isAnswered) throw new FrameError(`Cannot use a second answer for stream ${id}`);
        stream.isAnswered = true;
        stream.answer.resolve({ answer: parseJson(payload), data: stream.received.data });
        break;
      case frameType.error: {
        const { code, message } = parseObject(payload);
        if (typeof code !== "string" || typeof message !== "string")
          throw new FrameError("Cannot use an ERROR without a code and a message");
        end(id, stream, { error: new InsideError(code, message) });
        break;
      }
      case frameType.data:
        if (payload.length === 0 || payload.length > stream.allowance)
          throw new FrameError(`Cannot take ${payload.length} bytes for stream ${id}: it may send ${stream.allowance}`);
        stream.allowance -= payload.length;
        stream.received.push(payload);
        break;
      case frameType.end:
        if (!stream.isAnswered) throw new FrameError(`Cannot end stream ${id} without an answer`);
        end(id, stream, {});
        break;
      case frameType.credit:
        if (payload.length !== 4) throw new FrameError(`Cannot use a CREDIT of ${payload.length} bytes`);
        stream.sender.addCredit(payload.readUInt32BE());
        break;
      case frameType.hello:
      case frameType.call:
      case frameType.cancel:
      case frameType.ping:
        throw new FrameError(`Cannot use a frame of type ${type} for stream ${id}`);
      default:
        throw new Error(`Unhandled type ${type satisfies never}`);
    }
  }

  /** Ends a call on this side. */
  function end(id: number, stream: Stream, result: { error?: unknown }): void {
    if (!streams.delete(id)) return;
    lateBytes += stream.allowance + LATE_BYTES;
    stream.sender.stop();
    for (const cleanUp of stream.cleanups) cleanUp();
    if ("error" in result) {
      stream.answer.reject(result.error);
      stream.received.fail(result.error);
    } else stream.received.end();
    onCallEnd?.();
  }

  /** Ends a call that the program has not ended. */
  function cancel(id: number, stream: Stream, result: { error?: unknown }): void {
    if (!streams.has(id)) return;
    if (!outgoing.drop(id)) outgoing.send(frameType.cancel, id);
    stream.received.discard();
    end(id, stream, result);
  }

  async function sendInput(id: number, stream: Stream, input: CallInput): Promise<void> {
    try {
      const reader = readInput(input);
      stream.cleanups.push(reader.stop);
      for (let piece = await reader.next(); piece !== undefined; piece = await reader.next()) {
        if (!streams.has(id)) return;
        await stream.sender.send(piece);
        if (!streams.has(id)) return;
      }
      if (streams.has(id)) outgoing.send(frameType.end, id);
    } catch (error) {
      cancel(id, stream, { error });
    }
  }

  function onRead(id: number, stream: Stream, bytes: number): void {
    stream.unacknowledged += bytes;
    if (stream.unacknowledged < CREDIT_STEP_BYTES || !streams.has(id)) return;
    const payload = Buffer.allocUnsafe(4);
    payload.writeUInt32BE(stream.unacknowledged);
    outgoing.send(frameType.credit, id, payload);
    stream.allowance += stream.unacknowledged;
    stream.unacknowledged = 0;
  }

  const ended = run({ stdin: outgoing.readable, stdout, signal: stop.signal, timeoutMs: MAX_AGE_MS }).then(
    ({ exitCode, stderr }) => {
      const printed = stderr.trim().slice(0, MAX_SHOWN_STDERR);
      fail(lost(`it ended with exit code ${exitCode}${printed && `: ${printed}`}`));
    },
    (error: unknown) => {
      const isKnown = error instanceof NetworkError || error instanceof ExecError || error instanceof ApiError;
      fail(isKnown ? error : lost(error instanceof Error ? error.message : String(error), { cause: error }));
    },
  );
  await hello.promise;

  return {
    ended,
    close: () => fail(lost("the connection was closed")),
    openCalls: () => streams.size,
    async call(name, parameters, { signal: callSignal, input, onEnd } = {}) {
      callSignal?.throwIfAborted();
      if (state.kind === "closed") {
        const message = `Cannot call ${name}: the connection to the pod has ended`;
        throw new NetworkError(message, { cause: state.because, requestWasSent: false });
      }
      const payload = Buffer.from(JSON.stringify({ ...parameters, call: name }));
      if (payload.length > MAX_PAYLOAD_BYTES)
        throw new RangeError(`Cannot call ${name} with ${payload.length} bytes: the limit is ${MAX_PAYLOAD_BYTES}`);
      if (outgoing.waitingBytes > MAX_WAITING_BYTES) {
        const message = `Cannot call ${name}: the program in the pod does not read what it is sent`;
        throw new NetworkError(message, { requestWasSent: false });
      }
      const id = nextStream;
      nextStream += 1;
      const stream: Stream = {
        answer: createDeferred(),
        received: createReceivedData({
          read: (bytes) => onRead(id, stream, bytes),
          leave: () => cancel(id, stream, {}),
        }),
        sender: outgoing.createSender(id),
        isAnswered: false,
        allowance: WINDOW_BYTES,
        unacknowledged: 0,
        cleanups: [],
      };
      streams.set(id, stream);
      if (onEnd !== undefined) stream.cleanups.push(onEnd);
      stream.cleanups.push(onAbort(callSignal, () => cancel(id, stream, { error: callSignal?.reason })));
      outgoing.send(frameType.call, id, payload);
      if (input === undefined) outgoing.send(frameType.end, id);
      else void sendInput(id, stream, input);
      return await stream.answer.promise;
    },
  };
}

function parseJson(payload: Buffer): unknown {
  try {
    return JSON.parse(payload.toString("utf8"));
  } catch (cause) {
    throw new FrameError(`Cannot parse the JSON of a frame: ${(cause as Error).message}`, { cause });
  }
}

function parseObject(payload: Buffer): Record<string, unknown> {
  const value = parseJson(payload);
  if (typeof value !== "object" || value === null) throw new FrameError("Cannot use a frame without a JSON object");
  return value as Record<string, unknown>;
}
