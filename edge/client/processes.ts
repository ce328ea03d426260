import { type AttachedProcess, type AttachOptions, attach, type TerminalSize } from "./attach.ts";
import { ApiError, type LooseCalls } from "./call.ts";
import type { Operations, Process } from "./operations.ts";
import { instanceOf, type Place, placeCall } from "./place.ts";
import { eventsOf } from "./read-stream.ts";
import type { Sockets } from "./socket.ts";

type StartBody = Operations["POST /api/v1/instances/{id}/processes"]["body"];

/** How a process is started. */
export interface ProcessOptions {
  /** Variables in addition to those of the container and of the claim. */
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** @default the container's folder */
  readonly cwd?: string | undefined;
  /** What it reads, at most 256 KiB. Start it with `start` to write more. @default nothing */
  readonly stdin?: string | undefined;
  /** Gives it a terminal of this size, with one output. */
  readonly tty?: { readonly cols: number; readonly rows: number } | undefined;
  /** Then it gets SIGTERM, and SIGKILL 2 s later; at most 86 400. @default 60, in the background none */
  readonly timeoutSeconds?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** An event of a process that is followed. The first and the last one have its state. */
export type ProcessEvent =
  | { readonly type: "stdout" | "stderr" /** Of its first byte. */; readonly offset: number; readonly text: string }
  | { readonly type: "process"; readonly process: Process };

/** A process that has ended, with what it wrote. */
export type RunResult = Process & { stdout: string; stderr: string };

export interface RunOptions extends ProcessOptions {
  /** Called with output as it comes. */
  readonly onStdout?: ((text: string) => void) | undefined;
  readonly onStderr?: ((text: string) => void) | undefined;
  /** How many characters of each output are in the result, which is `truncated` if there were more. @default 1 Mi */
  readonly mostOutput?: number | undefined;
}

export interface Processes {
  /**
   * Runs a command and waits for its end. It also ends with the signal, or if the connection is lost.
   *
   * ```ts
   * const { exitCode, stdout } = await client.run(claim, ["make", "test"], { cwd: "/work", env: { CI: "1" } });
   * ```
   *
   * @param command program and arguments, without a shell
   * @returns the process with `exitCode` or `signal`, `stdout` and `stderr`
   * @throws ApiError also if the connection is lost, with the status 0; the signal's reason
   */
  run(place: Place, command: readonly string[], options?: RunOptions): Promise<RunResult>;
  /** As {@link Processes.run}, but gives output as it comes, at its reader's pace. Leaving the loop ends it. */
  follow(place: Place, command: readonly string[], options?: ProcessOptions): AsyncGenerator<ProcessEvent, void>;
  /**
   * Starts a process in the background, with its input open, and attaches to it. It goes on without this client: end it
   * with `kill`, or give it `timeoutSeconds`. The signal leaves it.
   *
   * ```ts
   * const sort = await client.processes.start(claim, ["sort"]);
   * await Promise.all([lines.pipeTo(sort.stdin), sort.stdout.pipeTo(sorted)]);
   * const { exitCode } = await sort.exited;
   * ```
   */
  start(place: Place, command: readonly string[], options?: ProcessOptions): Promise<AttachedProcess>;
  /** Attaches to a process that runs, or whose output is kept. */
  attach(place: Place, pid: number, options?: AttachOptions): Promise<AttachedProcess>;
  /** Opens a terminal with a login shell. It is ended when it has had no client for five minutes. @default 80, 24 */
  terminal(place: Place, options?: TerminalOptions): Promise<AttachedProcess>;
  /** Those that run, and the last 16 of the background that have ended. */
  list(place: Place, options?: { signal?: AbortSignal | undefined }): Promise<Process[]>;
  /** One with the output that is kept. @param pid of a process that was started by the API */
  get(place: Place, pid: number, options?: { signal?: AbortSignal | undefined }): Promise<Process>;
  /** Sends a signal, such as `SIGTERM`, to a process and its group. */
  kill(place: Place, pid: number, options?: KillOptions): Promise<Process>;
}

export type TerminalOptions = Partial<TerminalSize> & Pick<AttachOptions, "mostUnread" | "signal">;

export interface KillOptions {
  /** @default SIGTERM */
  readonly name?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

const MOST_OUTPUT = 1024 * 1024;

export function createProcesses({
  calls,
  sockets,
  ends,
}: {
  calls: LooseCalls;
  sockets: Sockets;
  /** Ends every call of the client. */
  ends: AbortSignal | undefined;
}): Processes {
  const tools = { calls, sockets, ends };

  async function* follow(
    place: Place,
    command: readonly string[],
    options: ProcessOptions = {},
  ): AsyncGenerator<ProcessEvent, void> {
    const { base, path, query } = placeCall(place);
    const { signal } = options;
    const body = startBody(command, options);
    // Server-sent events have comments in silence, which keep the connection open.
    const accept = "text/event-stream";
    const request = { path, query: { ...query, follow: true }, body, accept, signal };
    yield* eventsOf<ProcessEvent>(await calls.send(`POST ${base}/processes`, request), { signal });
  }

  const processes: Processes = {
    follow,
    async run(place, command, options = {}) {
      const { onStdout, onStderr, mostOutput = MOST_OUTPUT } = options;
      const output = { stdout: "", stderr: "" };
      let isCut = false;
      let process: Process | undefined;
      for await (const event of follow(place, command, options)) {
        if (event.type === "process") process = event.process;
        else {
          const { type, text } = event;
          (type === "stdout" ? onStdout : onStderr)?.(text);
          isCut ||= output[type].length + text.length > mostOutput;
          output[type] += text.slice(0, mostOutput - output[type].length);
        }
      }
      if (process?.state !== "ended")
        throw new ApiError(`the connection was lost before the end of ${JSON.stringify(command[0])}`, { status: 0 });
      return { ...process, ...output, ...(isCut && { truncated: true }) };
    },
    async start(place, command, options = {}) {
      const { signal } = options;
      const instance = await instanceOf(place, { calls, signal });
      const body = { ...startBody(command, options), background: true, keepStdin: true };
      const path = { id: instance };
      const { pid } = (await calls.call("POST /api/v1/instances/{id}/processes", { path, body, signal })) as Process;
      try {
        return await attach({ instance, pid, size: options.tty }, { ...tools, signal, stdoutFrom: 0, stderrFrom: 0 });
      } catch (error) {
        // No one has its pid.
        await processes.kill(instance, pid, { name: "SIGKILL" }).catch(() => undefined);
        throw error;
      }
    },
    async attach(place, pid, options = {}) {
      const instance = await instanceOf(place, { calls, signal: options.signal });
      return await attach({ instance, pid }, { ...tools, ...options });
    },
    async terminal(place, { cols = 80, rows = 24, mostUnread, signal } = {}) {
      const instance = await instanceOf(place, { calls, signal });
      return await attach({ instance, size: { cols, rows } }, { ...tools, mostUnread, signal });
    },
    async list(place, { signal } = {}) {
      const { base, path, query } = placeCall(place);
      return (await calls.call(`GET ${base}/processes`, { path, query, signal })) as Process[];
    },
    async get(place, pid, { signal } = {}) {
      const { base, path, query } = placeCall(place);
      const request = { path: { ...path, pid }, query, signal };
      return (await calls.call(`GET ${base}/processes/{pid}`, request)) as Process;
    },
    async kill(place, pid, { name = "SIGTERM", signal } = {}) {
      const { base, path, query } = placeCall(place);
      const request = { path: { ...path, pid }, query, body: { signal: name }, signal };
      return (await calls.call(`POST ${base}/processes/{pid}/signal`, request)) as Process;
    },
  };
  return processes;
}

export function startBody(command: readonly string[], options: ProcessOptions): StartBody {
  const { env, cwd, stdin, tty, timeoutSeconds } = options;
  return {
    command: [...command],
    ...(env !== undefined && { env: { ...env } }),
    ...(cwd !== undefined && { cwd }),
    ...(stdin !== undefined && { stdin }),
    ...(tty !== undefined && { tty }),
    ...(timeoutSeconds !== undefined && { timeoutSeconds }),
  };
}
