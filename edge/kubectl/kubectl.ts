import { spawn } from "node:child_process";
import type { Readable } from "node:stream";
import { HttpError } from "../http-error.ts";
import { kubectlProblem } from "./kubectl-problem.ts";

/** kubectl as child processes, with the edge's own access to the cluster (spec.md, section 4.5, rule 1). */
export interface Kubectl {
  /**
   * Starts it in the edge's namespace.
   *
   * @param options.isEndless whether it runs for as long as its reader wants, which a stop of the server does not wait for
   * @throws HttpError 503 where it is missing or too old, with what to do, and while too many run already
   */
  start(parameters: readonly string[], options?: { isEndless?: boolean }): Promise<KubectlProcess>;
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
  /** Its exit code once its output is complete; undefined where a signal ended it. */
  readonly ended: Promise<number | undefined>;
  /** Ends it at once; does nothing when it has ended. */
  kill(): void;
}

/** Each takes some 50 MB. */
const MAX_AT_ONCE = 32;

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
  const running = new Set<KubectlProcess>();
  const endless = new Set<KubectlProcess>();
  let usable: Promise<string | undefined> | undefined;

  function problem(): Promise<string | undefined> {
    usable ??= kubectlProblem({ command, env: ownEnv }).then((found) => {
      // It may be mended while the edge runs.
      if (found !== undefined) usable = undefined;
      return found;
    });
    return usable;
  }

  return {
    problem,
    async start(parameters, { isEndless = false } = {}) {
      const found = await problem();
      if (found !== undefined) throw new HttpError(503, found);
      if (running.size >= MAX_AT_ONCE) {
        throw new HttpError(503, `${MAX_AT_ONCE} commands and log streams run already; try again when one has ended`, {
          headers: { "retry-after": "1" },
        });
      }
      const child = spawn(command, ["--namespace", namespace, ...parameters], {
        env: ownEnv,
        stdio: ["ignore", "pipe", "pipe"],
      });
      const started: KubectlProcess = {
        stdout: child.stdout,
        stderr: child.stderr,
        ended: new Promise((resolve, reject) => {
          child.once("error", (cause) => {
            usable = undefined;
            reject(new Error(`Cannot run ${command}: ${cause.message}`, { cause }));
          });
          child.once("close", (code) => resolve(code ?? undefined));
        }),
        kill() {
          child.kill("SIGKILL");
          // A credential plugin that it started would hold them open, and its end would never be heard of.
          child.stdout.destroy();
          child.stderr.destroy();
        },
      };
      running.add(started);
      if (isEndless) endless.add(started);
      const forget = (): void => {
        running.delete(started);
        endless.delete(started);
      };
      started.ended.then(forget, forget);
      return started;
    },
    closeEndless() {
      for (const one of endless) one.kill();
    },
    close() {
      for (const one of running) one.kill();
    },
  };
}
