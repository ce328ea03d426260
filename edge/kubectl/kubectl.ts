import { type ChildProcessByStdio, execFile, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import { HttpError } from "../http/http-error.ts";

/** kubectl as child processes, with the edge's own access to the cluster. */
export interface Kubectl {
  /**
   * Starts it in the edge's namespace.
   *
   * @param options.pod what it is about
   * @param options.isEndless whether it runs for as long as its reader wants, which a stop of the server does not wait
   *   for. These have a bound of their own, so that readers of logs leave room for commands
   * @param options.takesInput whether it gets an input, which the caller ends. @default it has none
   * @throws HttpError 503 where it is missing or too old, with what to do, and while too many run already
   */
  start(
    parameters: readonly string[],
    options: { pod: string; isEndless?: boolean; takesInput?: boolean },
  ): Promise<KubectlProcess>;
  /** Why it cannot be used, in words; undefined where it can. */
  problem(): Promise<string | undefined>;
  /** Kills what would run for ever. */
  closeEndless(): void;
  /** Kills what still runs. */
  close(): void;
}

/** A running kubectl. */
export interface KubectlProcess {
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Where it was started to take one; what is written to it after its end is lost without an error. */
  readonly stdin: Writable | undefined;
  /** Its exit code once its output is complete; undefined where a signal ended it. */
  readonly ended: Promise<number | undefined>;
  /** Ends it at once; does nothing when it has ended. */
  kill(): void;
}

/** kubectl's own switch between WebSockets and SPDY; releases without WebSockets do not read it. */
const OVER_WEBSOCKETS = "KUBECTL_REMOTE_COMMAND_WEBSOCKETS";

/** How many may run at once. Each takes some 50 MB, for which the edge's memory limit in `manifests` has room. */
interface Bound {
  readonly inAll: number;
  /** One tenant's pod cannot take them all, whatever it does to those who look into it. */
  readonly ofOnePod: number;
  readonly what: string;
}

const COMMANDS: Bound = { inAll: 32, ofOnePod: 16, what: "commands and log reads" };
const FOLLOWERS: Bound = { inAll: 16, ofOnePod: 4, what: "readers that follow a log" };

/** Makes the edge's kubectl; the first call finds out whether it is there and new enough. */
export function createKubectl(options: {
  namespace: string;
  /** @default the kubectl of the PATH */
  command?: string;
  /** KUBECONFIG, HOME and PATH count; the edge's own settings are not passed on. @default process.env */
  env?: Readonly<Record<string, string | undefined>>;
}): Kubectl {
  const { namespace, command = "kubectl", env = process.env } = options;
  const ownEnv = Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith("TENANCY_")));
  /** With the pod that each is about. */
  const running = new Map<KubectlProcess, string>();
  const endless: typeof running = new Map();
  let known: Promise<KubectlVersion> | undefined;

  function version(): Promise<KubectlVersion> {
    known ??= kubectlVersion({ command, env: ownEnv }).then((found) => {
      // It may be mended while the edge runs.
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
      // Its end, which `ended` tells, is why it takes no more.
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
          // A credential plugin that it started would hold them open, and its end would never be heard of.
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
    throw new HttpError(503, `${inAll} ${what} run already; try again when one has ended`, { headers });
  }
  if ([...alike.values()].filter((other) => other === pod).length >= ofOnePod) {
    throw new HttpError(503, `${ofOnePod} ${what} run already for this instance; try again when one has ended`, {
      headers,
    });
  }
}

/** What the version of a kubectl comes to. */
type KubectlVersion =
  | {
      readonly kind: "usable";
      /**
       * Whether its `exec` over WebSockets may drop what the command prints first: before client-go 0.34 the reader
       * starts while the streams are still made, says "Unknown stream id 1, discarding message" and ends with exit code
       * 0.
       */
      readonly dropsFirstOutput: boolean;
    }
  /** `problem` says why it cannot be used, and what to do. */
  | { readonly kind: "unusable"; readonly problem: string };

/** The oldest that is used here; also the oldest server that tenancy supports. */
const OLDEST_MINOR = 20;
const FIRST_WHOLE_MINOR = 34;
const LIMIT_MS = 20_000;

/** Asks a kubectl for its version. */
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
    return unusable("the kubectl of this server fails to tell its version");
  }
  const version = /"gitVersion": *"v?(\d+)\.(\d+)/.exec(output);
  const [major, minor] = [Number(version?.[1]), Number(version?.[2])];
  if (Number.isNaN(major) || Number.isNaN(minor)) {
    return unusable("the kubectl of this server fails to tell its version");
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

/** Text that arrives in pieces, of which the beginning is kept, and the end apart from it. */
interface BoundedText {
  add(chunk: Uint8Array): void;
  /** What was kept of the beginning; bytes that are no UTF-8 show as U+FFFD. */
  text(): string;
  /** The last 4 KiB, also of what was not kept. */
  end(): string;
  /** Whether more came than is kept. */
  readonly cut: boolean;
}

const END_BYTES = 4096;

/** Collects at most `limit` bytes; what comes after them is dropped, so that no program fills the memory. */
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
