import type { AttachedProcess, Process, TerminalSize } from "../../client/index.ts";
import type { Context } from "../command.ts";
import { type Io, writeTo } from "../io.ts";
import type { StartBody } from "./run-attended.ts";

const PATIENCE_MS = 2000;
/** Of a screen that is none, such as a pipe. */
const SIZE: TerminalSize = { cols: 80, rows: 24 };

/**
 * Runs a command with a terminal, which this program's terminal shows and feeds: keys go to the command as they are,
 * Ctrl-C too. A lost connection is made again. The command gets SIGHUP,
 * and then SIGKILL, if this program is ended.
 *
 * @throws ApiError if the connection is lost for too long
 */
export async function runTerminal(
  instance: string,
  start: StartBody,
  { client, io, signal }: Pick<Context, "client" | "io" | "signal">,
): Promise<Process> {
  const { command, ...options } = start;
  const attached = await client.processes.start(instance, command, { ...options, tty: sizeOf(io) });
  const hangUp = (): void => void end(attached).catch(() => attached.detach());
  const resize = (): void => attached.resize(sizeOf(io));
  signal.addEventListener("abort", hangUp, { once: true });
  if (signal.aborted) hangUp();
  io.stdout.on("resize", resize);
  const isRaw = io.stdin.isTTY === true;
  if (isRaw) io.stdin.setRawMode?.(true);
  try {
    // What it has typed after the end has no reader.
    void feed(io, attached).catch(() => undefined);
    for await (const piece of attached.stdout) await writeTo(io.stdout, piece);
    const process = await attached.exited;
    signal.throwIfAborted();
    return process;
  } finally {
    if (isRaw) io.stdin.setRawMode?.(false);
    io.stdin.pause();
    io.stdout.off("resize", resize);
    signal.removeEventListener("abort", hangUp);
  }
}

/** As a terminal that is closed does; a command that ignores it is killed. */
async function end(attached: AttachedProcess): Promise<void> {
  await attached.kill("SIGHUP");
  const timer = setTimeout(() => attached.kill("SIGKILL").catch(() => attached.detach()), PATIENCE_MS);
  await attached.exited.finally(() => clearTimeout(timer));
}

async function feed({ stdin }: Io, attached: { write(data: Uint8Array): Promise<void>; end(): Promise<void> }) {
  for await (const piece of stdin) await attached.write(piece as Uint8Array);
  await attached.end();
}

function sizeOf({ stdout }: Io): TerminalSize {
  const { columns, rows } = stdout;
  const within = (cells: number): number => Math.min(Math.max(cells, 1), 1000);
  return { cols: within(columns || SIZE.cols), rows: within(rows || SIZE.rows) };
}
