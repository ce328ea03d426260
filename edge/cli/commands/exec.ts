import { constants } from "node:os";
import type { Process } from "../../client/index.ts";
import { eventsOf } from "../../client/read-stream.ts";
import { type Command, CommandError, type Context, type Input } from "../command.ts";
import { instanceOf } from "../instance.ts";
import { EXIT_OF_SIGNAL } from "../interrupts.ts";
import { writeTo } from "../io.ts";
import { pairOf, secondsOf } from "../parse.ts";
import type { Shape } from "../printer.ts";

/** The longest that the API allows. */
const LONGEST = "1d";

type OutputEvent =
  | { readonly type: "stdout" | "stderr"; readonly base64: string }
  | { readonly type: "process"; readonly process: Process };

const processShape: Shape<Process> = {
  columns: [
    ["PID", ({ pid }) => pid],
    ["STATE", (process) => stateOf(process)],
    ["TTY", ({ tty }) => (tty ? "yes" : "no")],
    ["STARTED", ({ startedAt }) => startedAt],
    ["COMMAND", ({ command }) => command.join(" ")],
  ],
  name: ({ pid }) => String(pid),
};

function stateOf({ state, exitCode, signal }: Process): string {
  if (state === "running") return state;
  return exitCode === undefined ? `ended by ${signal ?? "a signal"}` : `exit code ${exitCode}`;
}

export const ps: Command = {
  name: "ps",
  summary: "List the processes that were started in an instance",
  words: "<where>",
  least: 1,
  notes: ["The workload's own program is not one of them."],
  examples: ["ps alice/hello"],
  async run({ words }, { client, print, signal }) {
    const instance = await instanceOf(words[0], { client, signal });
    await print.list(await client.processes.list(instance, { signal }), processShape);
    return 0;
  },
};

export const exec: Command = {
  name: "exec",
  summary: "Run a command in an instance; the exit code is that of the command",
  words: "<where>",
  least: 1,
  takesCommand: true,
  options: {
    env: { kind: "values", short: "e", value: "NAME=VALUE", help: "a variable of the command" },
    cwd: { kind: "value", value: "FOLDER", help: "the folder that it starts in; by default the container's" },
    timeout: {
      kind: "value",
      value: "TIME",
      help: `end it after this time; ${LONGEST} by default, which is the longest`,
    },
    detach: { kind: "flag", short: "d", help: "leave it in the background, and print its pid" },
  },
  notes: [
    "No shell is involved unless you name one. Ctrl-C goes to the command; a second Ctrl-C ends it.",
    "A command that a signal ends has 128 and the number of the signal as its exit code. Errors of tenancy itself have",
    "a line on standard error that begins with tenancy:.",
  ],
  examples: ["exec alice/hello -- uname -a", "exec alice/hello -- sh -c 'exit 3'"],
  async run(input, context) {
    const { client, print, signal } = context;
    const instance = await instanceOf(input.words[0], { client, signal });
    if (!input.flag("detach")) return await runAttended(instance, input, context);
    const path = { id: instance };
    const body = { ...startOf(input), background: true };
    const process = await client.call("POST /api/v1/instances/{id}/processes", { path, body, signal });
    await print.one(process, processShape);
    return 0;
  },
};

function startOf(input: Input) {
  const cwd = input.value("cwd");
  const timeout = input.value("timeout") ?? (input.flag("detach") ? undefined : LONGEST);
  return {
    command: [...input.command],
    env: Object.fromEntries(input.values("env").map((text) => pairOf(text, "--env"))),
    ...(cwd !== undefined && { cwd }),
    ...(timeout !== undefined && { timeoutSeconds: secondsOf(timeout, "--timeout") }),
  };
}

/** Runs it for as long as this program does: it ends with the connection. */
async function runAttended(instance: string, input: Input, context: Context): Promise<number> {
  const { client, io, print, interrupts, signal } = context;
  const response = await client.send("POST /api/v1/instances/{id}/processes", {
    ...{ path: { id: instance }, query: { follow: true, encoding: "base64" }, body: startOf(input) },
    ...{ accept: "text/event-stream", signal },
  });
  let process: Process | undefined;
  let isInterrupted = false;
  const release = interrupts.take(() => {
    isInterrupted = true;
    if (process === undefined) return interrupts.end("interrupted", EXIT_OF_SIGNAL.SIGINT);
    // It may have ended by now.
    client.processes.kill(instance, process.pid, { name: "SIGINT", signal }).catch(() => undefined);
  });
  try {
    for await (const event of eventsOf<OutputEvent>(response, { signal })) {
      if (event.type === "process") process = event.process;
      else await writeTo(io[event.type], Buffer.from(event.base64, "base64"));
    }
  } finally {
    release();
  }
  if (process?.state !== "ended")
    throw new CommandError("the connection was lost before the end of the command, which is ended", { exitCode: 6 });
  if (process.timedOut) await print.note("tenancy: its time was up, so it was ended");
  return isInterrupted ? EXIT_OF_SIGNAL.SIGINT : exitCodeOf(process);
}

/** As shells give it. */
export function exitCodeOf({ exitCode, signal }: Process): number {
  if (exitCode !== undefined) return exitCode;
  return 128 + (constants.signals[signal as NodeJS.Signals] ?? 0);
}
