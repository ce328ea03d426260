import type { AttachedProcess, Operations, Process } from "../../client/index.ts";
import { eventsOf } from "../../client/read-stream.ts";
import { CommandError, type Context } from "../command.ts";
import { EXIT_OF_SIGNAL } from "../interrupts.ts";
import { writeTo } from "../io.ts";

export type StartBody = Operations["POST /api/v1/instances/{id}/processes"]["body"];

type OutputEvent =
  | { readonly type: "stdout" | "stderr"; readonly base64: string }
  | { readonly type: "process"; readonly process: Process };

/** More than any output has, so that none is sent beside that which is followed. The API takes no more. */
const NO_OUTPUT = 10 ** 15 - 1;

/**
 * Runs a command for as long as this program does: it ends with the connection. Ctrl-C goes to it.
 *
 * @param options.hasInput whether it reads standard input
 * @returns how it ended, and whether there was a Ctrl-C
 * @throws CommandError if the connection is lost
 */
export async function runAttended(
  instance: string,
  start: StartBody,
  options: Pick<Context, "client" | "io" | "interrupts" | "signal"> & { hasInput: boolean },
): Promise<{ process: Process; isInterrupted: boolean }> {
  const { client, io, interrupts, hasInput } = options;
  /** Ends the command if its input is lost, since it must not take a part for the whole. */
  const failed = new AbortController();
  const signal = AbortSignal.any([options.signal, failed.signal]);
  const response = await client.send("POST /api/v1/instances/{id}/processes", {
    ...{ path: { id: instance }, query: { follow: true, encoding: "base64" } },
    body: { ...start, ...(hasInput && { keepStdin: true }) },
    ...{ accept: "text/event-stream", signal },
  });
  let process: Process | undefined;
  let input: AttachedProcess | undefined;
  let isInterrupted = false;
  const release = interrupts.take(() => {
    isInterrupted = true;
    if (process === undefined) return interrupts.end("interrupted", EXIT_OF_SIGNAL.SIGINT);
    // It may have ended by now.
    client.processes.kill(instance, process.pid, { name: "SIGINT", signal }).catch(() => undefined);
  });

  async function feed(pid: number): Promise<void> {
    const from = { stdoutFrom: NO_OUTPUT, stderrFrom: NO_OUTPUT };
    input = await client.processes.attach(instance, pid, { ...from, signal });
    // What was sent may be lost after all of it was.
    input.exited.catch(loseInput);
    for await (const piece of io.stdin) await input.write(piece as Uint8Array);
    await input.end();
  }

  function loseInput(error: Error): void {
    if (process?.state === "ended") return;
    const message = `${error.message}; the command is ended, since its input is not whole`;
    failed.abort(new CommandError(message, { exitCode: 6, cause: error }));
  }

  try {
    for await (const event of eventsOf<OutputEvent>(response, { signal })) {
      if (event.type !== "process") {
        await writeTo(io[event.type], Buffer.from(event.base64, "base64"));
        continue;
      }
      const isFirst = process === undefined;
      process = event.process;
      if (isFirst && hasInput && process.state === "running") void feed(process.pid).catch(loseInput);
    }
  } finally {
    release();
    input?.detach();
  }
  if (process?.state !== "ended")
    throw new CommandError("the connection was lost, so the command was ended", { exitCode: 6 });
  return { process, isInterrupted };
}
