import { spawn } from "node:child_process";
import { once } from "node:events";
import { NetworkError } from "../../../crds/client/api-error.ts";
import type { Exec } from "../../../crds/client/exec/exec.ts";

const running = new Set<Promise<unknown>>();

/** Resolves when every command has ended that was started here, also where nobody waits for it any longer. */
export async function untilCommandsEnd(): Promise<void> {
  await Promise.all(running);
}

/** Runs the commands of an exec on this machine; as in a real one, a command is not told that its input has ended. */
export const localExec: Exec = ({ command, stdin, stdout, signal, timeoutMs }) => {
  const [program = "", ...words] = command;
  const child = spawn(program, words, { stdio: "pipe", env: {} });
  const closed: Promise<unknown> = once(child, "close").finally(() => running.delete(closed));
  running.add(closed);
  closed.catch(() => undefined); // Its error is the command's own, below.
  let stderr = "";
  child.stderr.on("data", (chunk) => (stderr += chunk));
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => fail(new NetworkError("the time is over", { requestWasSent: true })), timeoutMs);
    function fail(error: unknown): void {
      end();
      // As when the connection is closed: whatever writes on is ended.
      child.stdout.destroy();
      child.stderr.destroy();
      reject(error);
    }
    function abort(): void {
      fail(signal?.reason);
    }
    function end(): void {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
      child.stdin.destroy();
      stdin?.destroy();
    }
    if (signal?.aborted) abort();
    signal?.addEventListener("abort", abort, { once: true });
    stdout?.once("error", fail);
    child.stdin.on("error", () => undefined);
    stdin?.on("error", fail);
    stdin?.on("data", (chunk: Buffer) => {
      if (!child.stdin.write(chunk)) stdin.pause();
    });
    child.stdin.on("drain", () => stdin?.resume());
    if (stdout === undefined) child.stdout.resume();
    else child.stdout.pipe(stdout, { end: false });
    child.once("error", fail);
    child.once("close", (code) => {
      end();
      resolve({ exitCode: code ?? 137, stderr });
    });
  });
};

/** Without the rights of root, as in a tenant's pod. */
export const unprivilegedExec: Exec = (options) => {
  if (process.getuid?.() !== 0) return localExec(options);
  const drop = ["/usr/bin/setpriv", "--reuid=65532", "--regid=65532", "--clear-groups", "--inh-caps=-all"];
  return localExec({ ...options, command: [...drop, "--bounding-set=-all", ...options.command] });
};
