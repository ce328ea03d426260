import { WebSocket as NodeWebSocket } from "ws";
import { createClient, type SocketConstructor } from "../client/index.ts";
import { type Command, CommandError } from "./command.ts";
import { escapeText } from "./escape.ts";
import { failureOf } from "./exit-code.ts";
import { helpText } from "./help.ts";
import { EXIT_OF_SIGNAL, type Interrupts } from "./interrupts.ts";
import { type Io, writeTo } from "./io.ts";
import { longFetch } from "./long-fetch.ts";
import { parseCommandLine } from "./parse.ts";
import { createPrinter, type Format } from "./printer.ts";
import { readSettings } from "./settings.ts";

/**
 * Runs a command line.
 *
 * @param argv without the program
 * @returns the exit code; an error is on standard error, in one line
 */
export async function runCommandLine(
  argv: readonly string[],
  { commands, io, interrupts }: { commands: readonly Command[]; io: Io; interrupts: Interrupts },
): Promise<number> {
  // A reader such as `head` may leave.
  io.stdout.on("error", () => interrupts.end("the reader of the output has gone", EXIT_OF_SIGNAL.SIGPIPE));
  io.stderr.on("error", () => undefined);
  try {
    const parsed = parseCommandLine(argv, commands);
    if (parsed.kind === "help") {
      await writeTo(io.stdout, helpText(parsed.of, commands));
      return 0;
    }
    const { command, input } = parsed;
    const settings = await readSettings(input, io, command);
    const { signal } = interrupts;
    // It does not end with the signal, so that a command can still end what it has started. Node 20 has no WebSocket.
    const WebSocket = (globalThis.WebSocket ?? NodeWebSocket) as unknown as SocketConstructor;
    const client = createClient({ ...settings, fetch: longFetch, WebSocket, retries: 2 });
    const print = createPrinter((input.value("output") ?? "table") as Format, io);
    return (await command.run(input, { settings, client, io, print, interrupts, signal })) ?? 0;
  } catch (error) {
    // What was broken off by a signal fails in many ways.
    const { exitCode, message } = failureOf(interrupts.signal.aborted ? interrupts.signal.reason : error);
    const isSilent = error instanceof CommandError && error.message === "";
    if (exitCode !== EXIT_OF_SIGNAL.SIGPIPE && !isSilent)
      await writeTo(io.stderr, `tenancy: ${escapeText(message)}\n`).catch(() => undefined);
    return exitCode;
  }
}
