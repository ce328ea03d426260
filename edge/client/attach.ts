import { ApiError, eitherSignal, isFinal, type LooseCalls, pathOf, pause, queryOf } from "./call.ts";
import type { Process } from "./operations.ts";
import { createOutput } from "./output.ts";
import type { Closing, OpenedSocket, Sockets } from "./socket.ts";

export interface TerminalSize {
  /** From 1 to 1000. */
  readonly cols: number;
  readonly rows: number;
}

/** A process that this client is attached to. It goes on when the client leaves, or is lost. */
export interface AttachedProcess {
  readonly pid: number;
  /** The name of its instance. */
  readonly instance: string;
  /**
   * Its input; closing it ends the input. A write waits for the network and for a process that reads slowly. While the
   * connection is lost, a terminal gets nothing.
   */
  readonly stdin: WritableStream<Uint8Array | string>;
  /**
   * Its outputs. One that is never read is dropped after 1 MiB. If the reader is slower than the process, output is
   * left out, of which the pod keeps the last MiB (64 KiB of a terminal); then `exited` is `truncated`.
   */
  readonly stdout: ReadableStream<Uint8Array>;
  readonly stderr: ReadableStream<Uint8Array>;
  /** Writes to its input, as `stdin` does. */
  write(data: Uint8Array | string): Promise<void>;
  /** Ends its input. */
  end(): Promise<void>;
  /** Sets the size of its terminal. */
  resize(size: TerminalSize): void;
  /** Sends it a signal. @param name such as `SIGKILL` @default SIGTERM */
  kill(name?: string): Promise<Process>;
  /**
   * Resolves when it has ended, with `exitCode` or `signal`.
   *
   * A lost connection is made again, for up to 5 minutes, and goes on where it was. It rejects with an ApiError if that
   * fails, or if input may have been lost: a process without a terminal must not get input with a gap.
   */
  readonly exited: Promise<Process>;
  /** Leaves it. `exited` rejects, with the signal's reason if that was the cause. */
  detach(): void;
}

export interface AttachOptions {
  /** Begins at this byte, or so many before the end if negative. @default the first that is kept */
  readonly stdoutFrom?: number | undefined;
  readonly stderrFrom?: number | undefined;
  /** How many bytes may wait for their reader; beyond that it is disconnected until it has them. @default 16 Mi */
  readonly mostUnread?: number | undefined;
  /** Leaves the process. */
  readonly signal?: AbortSignal | undefined;
}

const BASE = "/api/v1/instances/{id}";
const PROTOCOLS = ["tenancy.offsets", "tenancy.terminal"];
const channel = { stdin: 0, stdout: 1, stderr: 2, resize: 4, close: 255 } as const;
const MESSAGE_BYTES = 64 * 1024;
/** Most input that waits in the runtime. It has no event for the end of that, so it is looked at again. */
const MOST_BUFFERED = 256 * 1024;
const LOOK_AGAIN_MS = 20;
/** Most input that the pod has not taken. The server closes the connection at 2 MiB. */
const MOST_UNTAKEN = 1024 * 1024;
/** A WebSocket cannot be paused, so beyond this it is closed. */
const MOST_UNREAD = 16 * 1024 * 1024;
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 10_000;
/** A terminal without a client is ended after so long. */
const GIVE_UP_MS = 5 * 60_000;
const FIRST_TRIES = 3;

/**
 * Attaches to a process of an instance, or opens a terminal if `pid` is undefined.
 *
 * @param options.signal leaves it
 * @throws ApiError if the process or the instance is not there, or no connection comes about
 */
export async function attach(
  { instance, pid, size }: { instance: string; pid?: number | undefined; size?: TerminalSize | undefined },
  options: AttachOptions & { calls: LooseCalls; sockets: Sockets; ends?: AbortSignal | undefined },
): Promise<AttachedProcess> {
  const { calls, sockets, mostUnread = MOST_UNREAD } = options;
  const left = new AbortController();
  const signal = eitherSignal(eitherSignal(options.signal, options.ends), left.signal) as AbortSignal;
  /** Where each output goes on. */
  const from = { stdout: options.stdoutFrom, stderr: options.stderrFrom };
  let known: Process | undefined;
  let last: Process | undefined;
  let socket: OpenedSocket["socket"] | undefined;
  /** Closed, since its output was not read; what it still receives is left out. */
  let ignored: OpenedSocket["socket"] | undefined;
  let terminalSize = size;
  let hasInput = false;
  /** Bytes of input on this connection. `takenBytes` is undefined if the server does not report them. */
  let sentBytes = 0;
  let takenBytes: number | undefined;
  let isCut = false;
  let tries = 0;
  let lostAt: number | undefined;
  let failure: { readonly error: unknown } | undefined;
  let tellStarted = (): void => undefined;
  const started = new Promise<void>((resolve) => {
    tellStarted = resolve;
  });
  const outputs = { stdout: createOutput(), stderr: createOutput() };
  const unread = () => outputs.stdout.unread() + outputs.stderr.unread();

  function target(): string {
    const path = { id: instance, pid: known?.pid ?? pid ?? 0 };
    if (known === undefined && pid === undefined) return `${pathOf(`${BASE}/terminal`, path)}${queryOf({ ...size })}`;
    const query = { stdoutFrom: from.stdout, stderrFrom: from.stderr };
    return `${pathOf(`${BASE}/processes/{pid}/attach`, path)}${queryOf(query)}`;
  }

  function onText(text: string, opened: OpenedSocket["socket"]): void {
    if (opened === ignored) return;
    const message = JSON.parse(text) as
      | { type: "process"; process: Process }
      | { type: "input"; taken: number }
      | { type: "offset"; output: "stdout" | "stderr"; offset: number };
    if (message.type === "offset") {
      const { output, offset } = message;
      isCut ||= offset > (from[output] ?? 0) && (from[output] ?? 0) >= 0;
      from[output] = offset;
    } else if (message.type === "input") takenBytes = message.taken;
    else if (message.type !== "process") return;
    else if (socket === opened) last = message.process;
    else {
      socket = opened;
      known ??= message.process;
      tries = 0;
      lostAt = undefined;
      if (terminalSize !== undefined) resize(terminalSize);
      tellStarted();
    }
  }

  function onBytes(message: Uint8Array, opened: OpenedSocket["socket"]): void {
    const name = message[0] === channel.stdout ? "stdout" : message[0] === channel.stderr ? "stderr" : undefined;
    if (name === undefined || opened === ignored) return;
    const bytes = message.subarray(1);
    from[name] = (from[name] ?? 0) + bytes.length;
    outputs[name].push(bytes);
    if (unread() <= mostUnread) return;
    ignored = opened;
    socket = undefined;
    opened.close();
  }

  /** Connects once, and stays until the connection ends. */
  async function stay(): Promise<Closing> {
    ignored = undefined;
    sentBytes = 0;
    takenBytes = undefined;
    const listener = {
      onText: (text: string) => onText(text, opened.socket),
      onBytes: (bytes: Uint8Array) => onBytes(bytes, opened.socket),
    };
    const opened = await sockets.open(target(), { protocols: PROTOCOLS, listener, signal });
    const closing = await opened.closed;
    socket = undefined;
    return closing;
  }

  async function follow(): Promise<Process> {
    for (;;) {
      const { code, reason, wasOpen } = await stay();
      if (last !== undefined) return last;
      signal.throwIfAborted();
      if (code === 1008)
        throw failed("the process left 2 MiB of its input unread: send less, or write it to a file first");
      if (code > 4000 && code < 4500) throw failed(reason || `closed with the status ${code - 4000}`, code - 4000);
      // It throws what a request gets, in words; a socket does not have them.
      if (!wasOpen) await explain();
      // docs/decisions/edge-http.md#the-clients-input-is-never-sent-with-a-gap
      if (hasInput && known?.tty !== true)
        throw failed(
          `${ignored !== undefined ? "its output was not read" : "the connection was lost"}, and input may be lost; ` +
            `process ${known?.pid} goes on: attach to it again`,
        );
      lostAt ??= performance.now();
      tries += 1;
      if (known === undefined && tries >= FIRST_TRIES)
        throw failed(`the WebSocket of ${instance} cannot be opened: ${reason || `code ${code}`}`);
      if (performance.now() - lostAt > GIVE_UP_MS) throw failed(`the connection to ${instance} was lost for 5 minutes`);
      while (unread() > 0) await pause(LOOK_AGAIN_MS, signal);
      await pause(Math.min(FIRST_PAUSE_MS * 2 ** (tries - 1), LONGEST_PAUSE_MS), signal);
    }
  }

  async function explain(): Promise<void> {
    const id = known?.pid ?? pid;
    const path = { id: instance, ...(id !== undefined && { pid: id }) };
    const query = id === undefined ? {} : { stdoutFrom: -1, stderrFrom: -1 };
    await calls
      .call(`GET ${BASE}/processes${id === undefined ? "" : "/{pid}"}`, { path, query, signal })
      .catch((error: unknown) => {
        if (isFinal(error)) throw error;
      });
  }

  function send(number: number, bytes: Uint8Array): void {
    const message = new Uint8Array(bytes.length + 1);
    message[0] = number;
    message.set(bytes, 1);
    socket?.send(message);
  }

  async function write(data: Uint8Array | string): Promise<void> {
    const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
    if (known?.tty !== true) await untilOpen();
    const mine = socket;
    for (let at = 0; at < bytes.length; at += MESSAGE_BYTES) {
      while (socket === mine && isFull()) await pause(LOOK_AGAIN_MS, signal);
      if (failure !== undefined) throw failure.error;
      // A terminal gets no line with a gap. Of another process the failure follows.
      if (socket !== mine) return;
      hasInput = true;
      const piece = bytes.subarray(at, at + MESSAGE_BYTES);
      sentBytes += piece.length;
      send(channel.stdin, piece);
    }
  }

  /** Whether the network, or the process, has enough to do. */
  function isFull(): boolean {
    const untaken = takenBytes === undefined ? 0 : sentBytes - takenBytes;
    return untaken > MOST_UNTAKEN || (socket?.bufferedAmount ?? 0) > MOST_BUFFERED;
  }

  async function untilOpen(): Promise<void> {
    while (socket === undefined) {
      if (failure !== undefined) throw failure.error;
      if (last !== undefined) throw failed("the process has ended");
      await pause(LOOK_AGAIN_MS, signal);
    }
  }

  async function end(): Promise<void> {
    await untilOpen();
    hasInput = true;
    send(channel.close, new Uint8Array(1));
  }

  function resize(next: TerminalSize): void {
    terminalSize = next;
    const { cols, rows } = next;
    send(channel.resize, new TextEncoder().encode(JSON.stringify({ cols, rows })));
  }

  const exited = follow().then(
    (process) => {
      for (const output of Object.values(outputs)) output.end();
      return { ...process, ...(isCut && { truncated: true }) };
    },
    (error: unknown) => {
      failure = { error };
      for (const output of Object.values(outputs)) output.fail(error);
      throw error;
    },
  );
  exited.catch(() => undefined);
  await Promise.race([exited, started]);
  const process = (known ?? last) as Process;
  return {
    pid: process.pid,
    instance,
    stdin: new WritableStream({ write, close: end }),
    get stdout() {
      return outputs.stdout.stream;
    },
    get stderr() {
      return outputs.stderr.stream;
    },
    ...{ write, end, resize, exited },
    async kill(name = "SIGTERM") {
      const request = { path: { id: instance, pid: process.pid }, body: { signal: name } };
      return (await calls.call(`POST ${BASE}/processes/{pid}/signal`, request)) as Process;
    },
    detach: () => left.abort(new ApiError(`this client has left process ${process.pid}`, { status: 0 })),
  };
}

function failed(message: string, status = 0): ApiError {
  return new ApiError(message, { status });
}
