import { type ChildProcessByStdio, execFile, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { HttpError } from "../http/http-error.ts";

/** Runs kubectl as child processes, with the edge's own access to the cluster. */
export interface Kubectl {
  /**
   * Starts it in the edge's namespace.
   *
   * @param options.pod the pod of the call
   * @param options.isEndless whether it runs until its reader stops, so that a stop of the server does not wait for it.
   * These have a limit of their own, so that log followers leave room for commands
   * @param options.takesInput whether it has an input, which the caller ends. @default false
   * @throws HttpError 503 if it is missing or too old, with what to do, and while too many are running
   */
  start(
    parameters: readonly string[],
    options: { pod: string; isEndless?: boolean; takesInput?: boolean },
  ): Promise<KubectlProcess>;
  /** Why it cannot be used; undefined if it can. */
  problem(): Promise<string | undefined>;
  /** Kills those that would run forever. */
  closeEndless(): void;
  /** Kills those that are still running. */
  close(): void;
}

/** A running kubectl. */
export interface KubectlProcess {
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Set if it was started with an input; data written after its end is lost without an error. */
  readonly stdin: Writable | undefined;
  /** Its exit code once its output is complete; undefined if a signal ended it. */
  readonly ended: Promise<number | undefined>;
  /** Ends it immediately; does nothing if it has ended. */
  kill(): void;
}

/** kubectl's own switch between WebSockets and SPDY; releases without WebSockets ignore it. */
const OVER_WEBSOCKETS = "KUBECTL_REMOTE_COMMAND_WEBSOCKETS";

/** Limits of concurrent processes. Each uses about 50 MB, for which the edge's memory limit in `manifests` has room. */
interface Bound {
  readonly inAll: number;
  /** One tenant's pod cannot occupy them all, whatever it does to its readers. */
  readonly ofOnePod: number;
  readonly what: string;
}

const COMMANDS: Bound = { inAll: 32, ofOnePod: 16, what: "commands and log reads" };
const FOLLOWERS: Bound = { inAll: 16, ofOnePod: 4, what: "readers that follow a log" };

/** Makes the edge's kubectl; the first call checks that it exists and is new enough. */
export function createKubectl(options: {
  namespace: string;
  /** @default the kubectl of the PATH */
  command?: string;
  /** KUBECONFIG, HOME and PATH are used; the edge's own settings are not passed on. @default process.env */
  env?: Readonly<Record<string, string | undefined>>;
}): Kubectl {
  const { namespace, command = "kubectl", env = process.env } = options;
  const ownEnv = Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith("TENANCY_")));
  /** With the pod of each. */
  const running = new Map<KubectlProcess, string>();
  const endless: typeof running = new Map();
  let known: Promise<KubectlVersion> | undefined;

  function version(): Promise<KubectlVersion> {
    known ??= kubectlVersion({ command, env: ownEnv }).then((found) => {
      // It may be fixed while the edge is running.
      if (found.kind === "unusable") known = undefined;
      return found;
    });
    return known;
  }

  return {
    async problem() {
      const found = await version();
      return found.kind === "unusable" ? found.problem : undefined;
    },
    async start(parameters, { pod, isEndless = false, takesInput = false }) {
      const found = await version();
      if (found.kind === "unusable") throw new HttpError(503, found.problem);
      const alike = isEndless ? endless : running;
      refuseTooMany(alike, { pod, bound: isEndless ? FOLLOWERS : COMMANDS });
      const child = spawn(command, ["--namespace", namespace, ...parameters], {
        env: found.dropsFirstOutput ? { [OVER_WEBSOCKETS]: "false", ...ownEnv } : ownEnv,
        stdio: [takesInput ? "pipe" : "ignore", "pipe", "pipe"],
      }) as ChildProcessByStdio<Writable | null, Readable, Readable>;
      // It takes no more input because it has ended, which `ended` reports.
      child.stdin?.on("error", () => undefined);
      const started: KubectlProcess = {
        stdout: child.stdout,
        stderr: child.stderr,
        stdin: child.stdin ?? undefined,
        ended: new Promise((resolve, reject) => {
          child.once("error", (cause) => {
            known = undefined;
            reject(new Error(`Cannot run ${command}: ${cause.message}`, { cause }));
          });
          child.once("close", (code) => resolve(code ?? undefined));
        }),
        kill() {
          child.kill("SIGKILL");
          child.stdin?.destroy();
          // A credential plugin that it started would hold them open, and its end would not be reported.
          child.stdout.destroy();
          child.stderr.destroy();
        },
      };
      alike.set(started, pod);
      const forget = (): void => void alike.delete(started);
      started.ended.then(forget, forget);
      return started;
    },
    closeEndless() {
      for (const one of endless.keys()) one.kill();
    },
    close() {
      for (const one of [...endless.keys(), ...running.keys()]) one.kill();
    },
  };
}

function refuseTooMany(
  alike: ReadonlyMap<KubectlProcess, string>,
  { pod, bound: { inAll, ofOnePod, what } }: { pod: string; bound: Bound },
): void {
  const headers = { "retry-after": "1" };
  if (alike.size >= inAll) {
    throw new HttpError(503, `${inAll} ${what} are already running; try again when one has ended`, { headers });
  }
  if ([...alike.values()].filter((other) => other === pod).length >= ofOnePod) {
    throw new HttpError(
      503,
      `${ofOnePod} ${what} are already running for this instance; try again when one has ended`,
      {
        headers,
      },
    );
  }
}

/** Whether a kubectl can be used, by its version. */
type KubectlVersion =
  | {
      readonly kind: "usable";
      /**
       * Whether its `exec` over WebSockets may drop the command's first output: before client-go 0.34 the reader starts
       * while the streams are being made, prints "Unknown stream id 1, discarding message" and ends with exit code 0.
       */
      readonly dropsFirstOutput: boolean;
    }
  /** `problem` says why it cannot be used, and what to do. */
  | { readonly kind: "unusable"; readonly problem: string };

/** The oldest supported minor version; also that of the oldest server that tenancy supports. */
const OLDEST_MINOR = 20;
const FIRST_WHOLE_MINOR = 34;
const LIMIT_MS = 20_000;

/** Reads the version of a kubectl. */
async function kubectlVersion(options: {
  command: string;
  env: Readonly<Record<string, string | undefined>>;
}): Promise<KubectlVersion> {
  const { command, env } = options;
  let output: string;
  try {
    output = await printed(command, ["version", "--client", "--output=json"], env);
  } catch (error) {
    const { code } = error as { code?: unknown };
    if (code === "ENOENT") return unusable("this server has no kubectl, which logs and exec need");
    if (code === "EACCES") return unusable("the kubectl of this server cannot be run");
    return unusable("the kubectl of this server fails to report its version");
  }
  const version = /"gitVersion": *"v?(\d+)\.(\d+)/.exec(output);
  const [major, minor] = [Number(version?.[1]), Number(version?.[2])];
  if (Number.isNaN(major) || Number.isNaN(minor)) {
    return unusable("the kubectl of this server fails to report its version");
  }
  if (major < 1 || (major === 1 && minor < OLDEST_MINOR)) {
    return unusable(`the kubectl of this server is version ${major}.${minor}, which is too old`);
  }
  return { kind: "usable", dropsFirstOutput: major === 1 && minor < FIRST_WHOLE_MINOR };
}

function unusable(what: string): KubectlVersion {
  return { kind: "unusable", problem: `${what}; install kubectl 1.${OLDEST_MINOR} or newer on its PATH` };
}

function printed(
  command: string,
  parameters: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(command, parameters, { env, timeout: LIMIT_MS, killSignal: "SIGKILL" }, (error, stdout) => {
      if (error === null) resolve(stdout);
      else reject(error);
    });
  });
}

/** Text that arrives in chunks; the beginning is kept, and separately the end. */
interface BoundedText {
  add(chunk: Uint8Array): void;
  /** The beginning; invalid UTF-8 is shown as U+FFFD. */
  text(): string;
  /** The last 4 KiB, even if the beginning was cut. */
  end(): string;
  /** Whether more arrived than is kept. */
  readonly cut: boolean;
}

const END_BYTES = 4096;

/** Collects at most `limit` bytes and drops the rest, so that no program fills the memory. */
export function createBoundedText(limit: number): BoundedText {
  const chunks: Uint8Array[] = [];
  let size = 0;
  let last: Buffer = Buffer.alloc(0);
  let cut = false;
  return {
    add(chunk) {
      const room = limit - size;
      if (chunk.byteLength > room) cut = true;
      if (room > 0) {
        const kept = chunk.subarray(0, room);
        chunks.push(kept);
        size += kept.byteLength;
      }
      last = Buffer.concat([last, chunk.subarray(-END_BYTES)]).subarray(-END_BYTES);
    },
    text: () => Buffer.concat(chunks, size).toString("utf8"),
    end: () => last.toString("utf8"),
    get cut() {
      return cut;
    },
  };
}
