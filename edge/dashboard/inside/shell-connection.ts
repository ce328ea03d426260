import type { ApiTypes } from "../../api/openapi/schemas.ts";

/** A process as the first and the last text of its socket describe it. */
export type ShellProcess = Pick<ApiTypes["Process"], "pid" | "exitCode" | "signal" | "stdoutBytes">;

/** The state of a connection to a shell. */
export type ShellState =
  | { readonly is: "connecting" }
  | { readonly is: "open"; readonly pid: number }
  /** Connects again by itself. `unsentBytes` of input were dropped, so that no input arrives with a gap. */
  | { readonly is: "lost"; readonly unsentBytes: number }
  /** Output arrives faster than it is shown. The connection is opened again once all received output is shown. */
  | { readonly is: "behind" }
  | { readonly is: "ended"; readonly process: ShellProcess }
  /** Does not connect again by itself. */
  | { readonly is: "failed"; readonly message: string };

export interface ShellSocket {
  /** Bytes that the browser has not sent yet. */
  readonly bufferedAmount: number;
  send(message: Uint8Array<ArrayBuffer>): void;
  close(): void;
}

/** Why a socket does not open, as far as another request can show. */
export interface Refusal {
  /** Whether to try again. */
  readonly isPassing: boolean;
  readonly message: string;
}

export interface ShellOptions {
  /** Opens a socket to the process `pid`, or to a new shell. */
  open(
    pid: number | undefined,
    listener: {
      onOpen(): void;
      onText(text: string): void;
      onBytes(bytes: Uint8Array): void;
      onClose(code: number, reason: string): void;
    },
  ): ShellSocket;
  /** Finds out why a socket did not open. */
  explain(pid: number | undefined): Promise<Refusal>;
  /** The size of the terminal, in cells. */
  size(): { readonly cols: number; readonly rows: number };
  /** Called when output begins, with the number of bytes that the process has written before. */
  onStart(process: ShellProcess): void;
  /** Called with output; `shown` has to be called when it was shown. */
  onOutput(bytes: Uint8Array, shown: () => void): void;
  onState(state: ShellState): void;
  readonly clock: { now(): number; after(ms: number, act: () => void): () => void };
}

export interface ShellConnection {
  /** Sends input, no faster than the socket sends it on. Does nothing unless the connection is open. */
  input(bytes: Uint8Array): void;
  /** Sends the size of the terminal. */
  resize(): void;
  /** Connects now instead of after a pause. */
  retry(): void;
  close(): void;
}

const channel = { stdin: 0, stdout: 1, stderr: 2, resize: 4 } as const;
/** Most input of one message. */
const MESSAGE_BYTES = 64 * 1024;
/** Most input that the browser buffers. It has no event for the end of the buffer, so it is read again. */
const BUFFERED_BYTES = 256 * 1024;
const LOOK_AGAIN_MS = 20;
/** Most output that waits to be shown. A WebSocket cannot be paused, so beyond this it is closed. */
const WAITING_BYTES = 1024 * 1024;
const BEHIND_PAUSE_MS = 500;
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 10_000;
/** A shell without a client is ended after so long: docs/how-to/work-in-an-instance.md. */
const GIVE_UP_MS = 5 * 60_000;

/**
 * A connection to a shell that survives lost sockets: it attaches to the same process again.
 *
 * @param pid of a process that runs; undefined starts a login shell
 */
export function connectShell(pid: number | undefined, options: ShellOptions): ShellConnection {
  const { clock } = options;
  let known = pid;
  let state: ShellState = { is: "connecting" };
  let socket: ShellSocket | undefined;
  /** Whether the current socket has named its process. */
  let isStarted = false;
  let ended: ShellProcess | undefined;
  let waiting: Uint8Array<ArrayBuffer>[] = [];
  let notShown = 0;
  let lostAt: number | undefined;
  let pauseMs = FIRST_PAUSE_MS;
  let cancelPause = (): void => undefined;
  let cancelPump = (): void => undefined;
  let isClosed = false;

  function become(next: ShellState): void {
    state = next;
    options.onState(next);
  }

  function connect(): void {
    cancelPause();
    isStarted = false;
    let isOpen = false;
    const mine = options.open(known, {
      onOpen() {
        isOpen = true;
      },
      onText(text) {
        if (socket === mine) onText(text);
      },
      onBytes(bytes) {
        if (socket === mine) onBytes(bytes);
      },
      onClose(code, reason) {
        if (socket !== mine) return;
        socket = undefined;
        cancelPump();
        if (isOpen) onClose(code, reason);
        else void explain();
      },
    });
    socket = mine;
  }

  function onText(text: string): void {
    const process = processIn(text);
    if (process === undefined) return;
    if (isStarted) {
      ended = process;
      return;
    }
    isStarted = true;
    known = process.pid;
    lostAt = undefined;
    pauseMs = FIRST_PAUSE_MS;
    options.onStart(process);
    become({ is: "open", pid: process.pid });
    resize();
    pump();
  }

  function onBytes(bytes: Uint8Array): void {
    const output = bytes.subarray(1);
    if ((bytes[0] !== channel.stdout && bytes[0] !== channel.stderr) || output.length === 0) return;
    notShown += output.length;
    options.onOutput(output, () => {
      notShown -= output.length;
      if (notShown === 0 && state.is === "behind" && socket === undefined) pause(BEHIND_PAUSE_MS);
    });
    if (notShown <= WAITING_BYTES || ended !== undefined) return;
    const open = socket;
    // What it still receives is left out.
    socket = undefined;
    cancelPump();
    become({ is: "behind" });
    open?.close();
  }

  function onClose(code: number, reason: string): void {
    if (ended !== undefined) {
      become({ is: "ended", process: ended });
    } else if (code === 1008) {
      fail("The process does not read its input, so the connection was closed. Send less at once, or upload a file.");
    } else if (code > 4000 && code < 5000 && code !== 4401 && code < 4500) {
      fail(reason === "" ? `The connection was closed with status ${code - 4000}.` : reason);
    } else if (code === 4401) {
      // The next request asks for the key again.
      void explain();
    } else {
      lose();
    }
  }

  async function explain(): Promise<void> {
    const { isPassing, message } = await options.explain(known);
    if (isClosed || socket !== undefined) return;
    if (isPassing) lose();
    else fail(message);
  }

  function lose(): void {
    lostAt ??= clock.now();
    if (clock.now() - lostAt > GIVE_UP_MS) {
      fail("The connection was lost for five minutes. A terminal without a client is ended after that time.");
      return;
    }
    const unsentBytes = waiting.reduce((sum, message) => sum + message.length - 1, 0);
    waiting = [];
    become({ is: "lost", unsentBytes: unsentBytes + (state.is === "lost" ? state.unsentBytes : 0) });
    pause(pauseMs);
    pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
  }

  function pause(ms: number): void {
    cancelPause();
    cancelPause = clock.after(ms, connect);
  }

  function fail(message: string): void {
    waiting = [];
    become({ is: "failed", message });
  }

  function resize(): void {
    if (!isStarted || socket === undefined) return;
    socket.send(messageOf(channel.resize, new TextEncoder().encode(JSON.stringify(options.size()))));
  }

  function pump(): void {
    cancelPump();
    while (socket !== undefined && isStarted && waiting.length > 0) {
      if (socket.bufferedAmount >= BUFFERED_BYTES) {
        cancelPump = clock.after(LOOK_AGAIN_MS, pump);
        return;
      }
      socket.send(waiting.shift() as Uint8Array<ArrayBuffer>);
    }
  }

  connect();
  return {
    input(bytes) {
      if (state.is !== "open" && state.is !== "behind") return;
      for (let at = 0; at < bytes.length; at += MESSAGE_BYTES)
        waiting.push(messageOf(channel.stdin, bytes.subarray(at, at + MESSAGE_BYTES)));
      pump();
    },
    resize,
    retry() {
      if (state.is !== "lost" || socket !== undefined) return;
      pauseMs = FIRST_PAUSE_MS;
      connect();
    },
    close() {
      isClosed = true;
      cancelPause();
      cancelPump();
      const open = socket;
      socket = undefined;
      open?.close();
    },
  };
}

function messageOf(number: number, bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const message = new Uint8Array(bytes.length + 1);
  message[0] = number;
  message.set(bytes, 1);
  return message;
}

/** The process of a text message; undefined for other texts. */
function processIn(text: string): ShellProcess | undefined {
  try {
    const { type, process } = JSON.parse(text) as { type?: unknown; process?: ShellProcess };
    return type === "process" && Number.isSafeInteger(process?.pid) ? process : undefined;
  } catch {
    return undefined;
  }
}
