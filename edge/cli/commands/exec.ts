import { constants } from "node:os";
import type { Process } from "../../client/index.ts";
import type { Command, Context, Input } from "../command.ts";
import { instanceOf } from "../instance.ts";
import { pairOf, secondsOf } from "../parse.ts";
import type { Shape } from "../printer.ts";
import { runAttended } from "../processes/run-attended.ts";
import { runTerminal } from "../processes/run-terminal.ts";

/** The longest that the API allows. */
const LONGEST = "1d";

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
    stdin: { kind: "flag", short: "i", help: "pass standard input on" },
    tty: { kind: "flag", short: "t", help: "give it a terminal, and standard input too" },
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
    "No shell is involved unless you name one. Ctrl-C goes to the command, and then the exit code is 130. Without a",
    "terminal a second Ctrl-C ends the command. The command also ends with this program.",
    "A command that a signal ends has 128 and the number of the signal as its exit code. Errors of tenancy itself have",
    "a line on standard error that begins with tenancy:.",
  ],
  examples: [
    "exec alice/hello -- uname -a",
    "exec -it alice/hello -- sh",
    "echo hello | tenancy exec -i alice/hello -- cat",
  ],
  async run(input, context) {
    const { client, print, signal } = context;
    const instance = await instanceOf(input.words[0], { client, signal });
    if (input.flag("detach")) {
      const [path, body] = [{ id: instance }, { ...startOf(input), background: true }];
      await print.one(await client.call("POST /api/v1/instances/{id}/processes", { path, body, signal }), processShape);
      return 0;
    }
    if (input.flag("tty")) return exitCodeOf(await runTerminal(instance, startOf(input), context));
    return await attended(instance, input, context);
  },
};

async function attended(instance: string, input: Input, context: Context): Promise<number> {
  const { process, isInterrupted } = await runAttended(instance, startOf(input), {
    ...context,
    hasInput: input.flag("stdin"),
  });
  if (process.timedOut) await context.print.note("tenancy: the time of the command was up, so it was ended");
  return isInterrupted ? 130 : exitCodeOf(process);
}

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

/** As shells give it. */
function exitCodeOf({ exitCode, signal }: Process): number {
  if (exitCode !== undefined) return exitCode;
  return 128 + (constants.signals[signal as NodeJS.Signals] ?? 0);
}
