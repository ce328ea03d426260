import { type Command, type Option, UsageError } from "./command.ts";
import { EXIT_CODES } from "./exit-code.ts";
import { GLOBAL_OPTIONS, usageOf } from "./parse.ts";

/** The help of all commands, of a group such as `files`, or of one command. @throws UsageError if there is none */
export function helpText(of: string, commands: readonly Command[]): string {
  if (of === "") return overview(commands);
  const command = commands.find(({ name }) => name === of);
  if (command !== undefined) return commandHelp(command);
  const group = commands.filter(({ name }) => name.startsWith(`${of} `));
  if (group.length === 0) throw new UsageError(`Cannot find ${JSON.stringify(of)}: tenancy help lists the commands`);
  return `${listOf(group)}\n\ntenancy ${of} <command> --help shows one with its options.\n`;
}

function overview(commands: readonly Command[]): string {
  const codes = Object.entries(EXIT_CODES).map(([code, meaning]) => [code, meaning] as const);
  return [
    "tenancy claims isolated containers for tenants and works in them.",
    "",
    "usage: tenancy <command> [options] [arguments]",
    "",
    listOf(commands),
    "",
    "Options of every command:",
    rowsOf(optionRows(GLOBAL_OPTIONS)),
    "",
    "Exit codes:",
    rowsOf(codes),
    "",
    "tenancy <command> --help shows one with its options and an example.",
    "",
  ].join("\n");
}

function commandHelp(command: Command): string {
  const { summary, options = {}, notes = [], examples } = command;
  const rows = optionRows(options);
  return [
    `${summary}.`,
    "",
    `usage: ${usageOf(command)}`,
    ...(rows.length > 0 ? ["", "Options:", rowsOf(rows)] : []),
    ...(notes.length > 0 ? ["", ...notes] : []),
    "",
    examples.length === 1 ? "Example:" : "Examples:",
    ...examples.map((example) => `  ${exampleLine(example)}`),
    "",
    "--url, --key-file, -o and --help are options of every command: see tenancy help.",
    "",
  ].join("\n");
}

/** An example as a person types it. One that begins with another program is written as it is. */
export function exampleLine(example: string): string {
  return example.includes("tenancy ") ? example : `tenancy ${example}`;
}

function listOf(commands: readonly Command[]): string {
  return rowsOf(commands.map(({ name, words, summary }) => [words === undefined ? name : `${name} ${words}`, summary]));
}

/** Each option with its names, and its help. */
export function optionRows(options: Readonly<Record<string, Option>>): [names: string, help: string][] {
  return Object.entries(options).map(([name, { kind, short, value, help }]) => {
    const names = short === undefined ? `--${name}` : `-${short}, --${name}`;
    if (kind === "flag") return [names, help];
    return [kind === "optional" ? `${names}[=${value}]` : `${names} ${value}`, help];
  });
}

/** Longer beginnings have a line of their own. */
const WIDEST = 34;

function rowsOf(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([start]) => start.length).filter((length) => length <= WIDEST), 0);
  return rows
    .map(([start, text]) =>
      start.length > WIDEST ? `  ${start}\n  ${" ".repeat(width)}  ${text}` : `  ${start.padEnd(width)}  ${text}`,
    )
    .join("\n");
}
