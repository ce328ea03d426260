import { PassThrough } from "node:stream";
import { commands } from "../../../edge/cli/commands.ts";
import { createInterrupts, type SignalSource } from "../../../edge/cli/interrupts.ts";
import type { Io } from "../../../edge/cli/io.ts";
import { runCommandLine } from "../../../edge/cli/run.ts";

export interface CliRun {
  readonly exitCode: number;
  readonly stdout: Buffer;
  readonly stderr: string;
}

export interface CliOptions {
  readonly env?: Io["env"];
  readonly stdin?: string | Uint8Array;
  /** Whether standard output is a terminal. */
  readonly isTerminal?: boolean;
  /** Called with all of standard output so far, and with what sends a signal. */
  readonly onStdout?: (text: string, interrupt: () => void) => void;
  /** Called with each piece of standard error. */
  readonly onStderr?: (piece: string) => void;
}

/** Runs a command line in this process. */
export async function runCli(argv: readonly string[], options: CliOptions = {}): Promise<CliRun> {
  const { env = {}, stdin, isTerminal = false, onStdout, onStderr } = options;
  const handlers = new Map<string, () => void>();
  const source: SignalSource = { on: (signal, handle) => handlers.set(signal, handle) };
  const interrupts = createInterrupts(source, { kill: () => undefined });
  const output = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
  const stream = (name: "stdout" | "stderr") =>
    Object.assign(new PassThrough(), isTerminal && { isTTY: true }).on("data", (piece: Buffer) => {
      output[name].push(piece);
      if (name === "stderr") onStderr?.(String(piece));
      if (name === "stdout") onStdout?.(String(Buffer.concat(output.stdout)), () => handlers.get("SIGINT")?.());
    });
  const io = { stdin: new PassThrough(), stdout: stream("stdout"), stderr: stream("stderr"), env };
  if (stdin !== undefined) io.stdin.end(stdin);
  const exitCode = await runCommandLine(argv, { commands, io, interrupts });
  return { exitCode, stdout: Buffer.concat(output.stdout), stderr: String(Buffer.concat(output.stderr)) };
}
