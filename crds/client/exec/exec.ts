import type { Readable, Writable } from "node:stream";
import type { Log } from "../../log.ts";
import { linkSignals, onAbort } from "../../waits.ts";
import { NetworkError } from "../api-error.ts";
import { type Clock, systemClock } from "../clock.ts";
import type { ClusterConfig } from "../config/cluster-config.ts";
import { createCredentials } from "../config/credentials.ts";
import { parseAnswer } from "../parse-answer.ts";
import { type ExecTarget, execError, execOutcome } from "./exec-outcome.ts";
import { createExecSession, type ExecSession, sendInput } from "./exec-session.ts";
import { type ExecSocket, openExecSocket } from "./exec-socket.ts";
import type { Pace } from "./pace-meter.ts";

export interface ExecOptions extends ExecTarget {
  /**
   * The command's input. Its end is not sent (see `sendInput`), so the command must detect the end in the data. If the
   * command ends while there is more to send, the server does not report it, so the command must report it in its
   * output. The command must keep both its outputs open: containerd closes the input when one of them is closed. The
   * stream is destroyed when the exec ends.
   */
  readonly stdin?: Readable | undefined;
  /** Receives the command's output. It is not ended with it: only the exit code shows that the output is complete. */
  readonly stdout?: Writable | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds without output after which the command or its node counts as lost. @default no limit */
  readonly maxSilenceMs?: number | undefined;
  /** The exec fails if the output is slower than this while `stdout` takes it. @default no limit */
  readonly minOutput?: Pace | undefined;
  /** The exec fails if the input is taken more slowly than this while there is some to send. @default no limit */
  readonly minInput?: Pace | undefined;
  /** Whether the command waits for input that takes time to make: then its output may stop. @default never */
  readonly isWaiting?: (() => boolean) | undefined;
  /** Milliseconds from the connection to the end of the command. */
  readonly timeoutMs: number;
}

export interface ExecResult {
  readonly exitCode: number;
  /** The first 64 KiB. */
  readonly stderr: string;
}

/**
 * Runs a command in a container. Memory use does not depend on how much is transferred.
 *
 * @throws ExecError if the command was not run
 * @throws ApiError if the server refuses
 * @throws NetworkError if the connection was cut or is too slow, or the time is over; the command may still run
 * @throws the error of `stdin` or `stdout`
 * @throws the signal's reason if it is aborted
 */
export type Exec = (options: ExecOptions) => Promise<ExecResult>;

/**
 * Creates the function that runs commands in containers. Each command has its own WebSocket.
 *
 * Follows https://kubernetes.io/docs/concepts/architecture/control-plane-node-communication/ and, for the protocol,
 * https://github.com/kubernetes/enhancements/tree/master/keps/sig-api-machinery/4006-transition-spdy-to-websockets.
 * Needs the rights `get` and `create` on `pods/exec`.
 */
export function createExec(options: { config: ClusterConfig; clock?: Clock | undefined; log?: Log | undefined }): Exec {
  const { config, clock = systemClock, log } = options;
  const credentials = createCredentials({ config, clock, log });

  async function open(asked: ExecOptions, signal: AbortSignal): Promise<OpenExec> {
    for (let tries = 1; ; tries += 1) {
      const credential = await credentials.current();
      let session: ExecSession | undefined;
      const opened = await openExecSocket({
        config,
        credential,
        target: asked,
        hasInput: asked.stdin !== undefined,
        timeoutMs: asked.timeoutMs,
        signal,
        onSocket(socket) {
          const { stdout, maxSilenceMs, minOutput, minInput, isWaiting } = asked;
          session = createExecSession(socket, { stdout, maxSilenceMs, minOutput, minInput, isWaiting });
        },
      }).catch((error: unknown) => {
        session?.close();
        throw error;
      });
      if (opened.kind === "open" && session !== undefined) return { ...opened, session };
      session?.close();
      if (opened.kind !== "refusal") throw new Error("Cannot exec: the socket opened without a session");
      if (opened.status !== 401 || tries > 1) throw refusal(opened, asked);
      credentials.invalidate();
    }
  }

  return async function exec(asked) {
    const { stdin, signal, timeoutMs } = asked;
    const stop = linkSignals(signal);
    const cancelTimeout = clock.after(timeoutMs, () => stop.abort(timeout(asked)));
    let session: ExecSession | undefined;
    try {
      const opened = await open(asked, stop.signal);
      session = opened.session;
      const { fail, input } = opened.session;
      stop.signal.throwIfAborted();
      onAbort(stop.signal, () => fail(stop.signal.reason));
      if (stdin !== undefined) {
        sendInput(opened.socket, stdin, input).catch(fail);
      }
      const exitCode = execOutcome(await opened.session.ended, asked);
      return { exitCode, stderr: opened.session.stderr() };
    } finally {
      cancelTimeout();
      stop.close();
      session?.close();
      stdin?.destroy();
    }
  };
}

type OpenExec = Extract<ExecSocket, { kind: "open" }> & { readonly session: ExecSession };

function refusal({ status, body, path }: Extract<ExecSocket, { kind: "refusal" }>, target: ExecTarget): unknown {
  try {
    parseAnswer({ status, body }, { method: "GET", path: path.slice(0, path.indexOf("?")) });
    return new Error(`Cannot exec: answered with ${status} where a WebSocket was asked for`);
  } catch (error) {
    const refused = execError(error instanceof Error ? error.message : String(error), target, error);
    return refused.reason === "Failed" ? error : refused;
  }
}

function timeout({ namespace, pod, command, timeoutMs }: ExecOptions): NetworkError {
  const message = `Cannot finish ${command[0]} in pod ${namespace}/${pod}: not done within ${timeoutMs} ms`;
  return new NetworkError(message, { requestWasSent: true });
}
