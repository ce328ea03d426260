import type { ChildProcess } from "node:child_process";
import { once } from "node:events";

/** The command that runs a TypeScript program. */
export function testProgram(path: string): string[] {
  return [process.execPath, "--import", "tsx", path];
}

/** Resolves when the program says something; rejects when it ends first. */
export async function reply(child: ChildProcess, what: string): Promise<void> {
  const limit = AbortSignal.timeout(120_000);
  await Promise.race([
    once(child, "message", { signal: limit }),
    once(child, "exit", { signal: limit }).then(([status]) =>
      Promise.reject(new Error(`Cannot go on: ${what} ended with status ${status}`)),
    ),
  ]);
}
