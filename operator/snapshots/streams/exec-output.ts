import { Writable } from "node:stream";
import type { Exec } from "../../../crds/client/exec/exec.ts";
import type { ExecTarget } from "../../../crds/client/exec/exec-outcome.ts";

/**
 * Runs a command and returns its output. Not for archives, since it buffers the output.
 *
 * @param options.maxBytes of its output. @default 64 MiB
 * @throws as `Exec` does, and Error if it writes more
 */
export async function collectOutput(
  exec: Exec,
  options: {
    target: ExecTarget;
    signal: AbortSignal;
    timeoutMs: number;
    maxBytes?: number;
  },
): Promise<{ exitCode: number; stdout: string; stderr: string }> {
  const { target, signal, timeoutMs, maxBytes = 64 * 1024 * 1024 } = options;
  const chunks: Buffer[] = [];
  let bytes = 0;
  const stdout = new Writable({
    write(chunk: Buffer, _encoding, callback) {
      chunks.push(chunk);
      bytes += chunk.length;
      callback(bytes > maxBytes ? new Error(`Cannot read the output: it is longer than ${maxBytes} bytes`) : null);
    },
  });
  const { exitCode, stderr } = await exec({ ...target, stdout, signal, timeoutMs });
  return { exitCode, stdout: Buffer.concat(chunks).toString("utf8"), stderr };
}

/** A command in a pod that failed. The message has what the command wrote. */
export class ExecFailure extends Error {
  override readonly name = "ExecFailure";
  readonly exitCode: number;

  constructor(message: string, fields: { exitCode: number }) {
    super(message);
    this.exitCode = fields.exitCode;
  }
}
