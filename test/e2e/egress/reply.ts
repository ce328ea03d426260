import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";

/** The command that runs one of the programs in this folder. */
export function testProgram(name: string): string[] {
  return [process.execPath, "--import", "tsx", join(import.meta.dirname, name)];
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
