import { PassThrough } from "node:stream";
import { contextScripts, NO_CONTEXT } from "../../crds/builds/context-store.ts";
import type { Exec } from "../../crds/client/exec/exec.ts";
import { SNAPSHOTS_CONTAINER, SNAPSHOTS_NAME, storeCommand } from "../../crds/snapshots/store-folder.ts";
import { linkSignals } from "../../crds/waits.ts";
import { createArchiveSource } from "../snapshots/archive-source.ts";
import { collectOutput, ExecFailure } from "../snapshots/exec-output.ts";

const MAX_SILENCE_MS = 60_000;
const ERASE_LIMIT_MS = 60_000;

/** A build context that was uploaded and is not there any longer. */
export class ContextGoneError extends Error {
  override readonly name = "ContextGoneError";
}

interface StoreCall {
  readonly exec: Exec;
  /** Of the helper pod. */
  readonly namespace: string;
  readonly workload: string;
}

/**
 * The bytes of a build context that was uploaded, out of the helper pod.
 *
 * @throws ContextGoneError when it is not there, and as `Exec` does
 */
export async function* readStoredContext(
  { exec, namespace, workload }: StoreCall,
  { sha256, signal, timeoutMs }: { sha256: string; signal: AbortSignal; timeoutMs: number },
): AsyncGenerator<Uint8Array> {
  const archive = new PassThrough();
  const ending = linkSignals(signal);
  const command = { script: contextScripts.read, words: [workload, sha256], limitMs: timeoutMs };
  const target = storeCommand({ namespace, pod: SNAPSHOTS_NAME, container: SNAPSHOTS_CONTAINER }, command);
  const { stdin, stdout, end } = createArchiveSource(archive);
  const read = async () => {
    const options = { stdin, stdout, signal: ending.signal, timeoutMs, maxSilenceMs: MAX_SILENCE_MS };
    const { exitCode, stderr } = await exec({ ...target, ...options });
    if (exitCode === NO_CONTEXT) throw new ContextGoneError(`build context ${sha256} is not kept any longer`);
    if (exitCode !== 0) throw storeFailure("read the build context", exitCode, stderr);
    await end();
  };
  const reading = read().catch((error: Error) => void archive.destroy(error));
  try {
    for await (const chunk of archive) yield chunk as Buffer;
  } finally {
    ending.abort(new Error("nobody reads the build context any longer"));
    await reading;
    ending.close();
  }
}

/**
 * Deletes every build context of a workload.
 *
 * @throws ExecFailure when they are still there, and as `Exec` does
 */
export async function eraseStoredContexts(
  { exec, namespace, workload }: StoreCall,
  signal: AbortSignal,
): Promise<void> {
  const command = { script: contextScripts.erase, words: [workload], limitMs: ERASE_LIMIT_MS };
  const target = storeCommand({ namespace, pod: SNAPSHOTS_NAME, container: SNAPSHOTS_CONTAINER }, command);
  const { exitCode, stdout, stderr } = await collectOutput(exec, { target, signal, timeoutMs: ERASE_LIMIT_MS });
  if (exitCode !== 0 || stdout.trim() !== "erased")
    throw storeFailure("delete the build contexts", exitCode, stderr || stdout);
}

function storeFailure(what: string, exitCode: number, said: string): ExecFailure {
  return new ExecFailure(`Cannot ${what}: ${said.trim() || `exit code ${exitCode}`}`, { exitCode });
}
