import { parseArgs } from "node:util";
import { type Command, type Input, type Option, UsageError } from "./command.ts";

/** Options of every command. */
export const GLOBAL_OPTIONS = {
  url: {
    kind: "value",
    value: "URL",
    help: "the API; else TENANCY_URL, the address of the login, or http://127.0.0.1:8080",
  },
  "key-file": {
    kind: "value",
    value: "FILE",
    help: "a file with the key, - for standard input; else TENANCY_KEY, or the login",
  },
  output: {
    ...{ kind: "value", short: "o", value: "FORMAT" },
    choices: ["table", "json", "yaml", "name"],
    help: "how results are written: table (the default), json, yaml or name",
  },
  help: { kind: "flag", short: "h", help: "show this help" },
} as const satisfies Record<string, Option>;

/** What a command line asks for. */
export type Parsed =
  | { readonly kind: "help"; readonly of: string }
  | { readonly kind: "command"; readonly command: Command; readonly input: Input };

/**
 * Reads a command line.
 *
 * @param argv without the program
 * @throws UsageError that says what to write instead
 */
export function parseCommandLine(argv: readonly string[], commands: readonly Command[]): Parsed {
  const leading = countLeadingOptions(argv);
  const [first, second, ...others] = argv.slice(leading);
  const rest = (words: readonly (string | undefined)[]): string[] => [
    ...argv.slice(0, leading),
    ...words.filter((word) => word !== undefined),
  ];
  if (first === undefined) return { kind: "help", of: "" };
  if (first === "help") return { kind: "help", of: [second, ...others].filter(Boolean).join(" ") };
  const group = commands.filter(({ name }) => name.startsWith(`${first} `));
  const command =
    commands.find(({ name }) => name === first) ?? group.find(({ name }) => name === `${first} ${second}`);
  if (command === undefined) {
    if (group.length === 0)
      throw new UsageError(`Cannot run ${JSON.stringify(first)}: tenancy help lists the commands`);
    if (second === undefined || second === "-h" || second === "--help") return { kind: "help", of: first };
    const known = group.map(({ name }) => name.slice(first.length + 1)).join(", ");
    throw new UsageError(`Cannot run ${JSON.stringify(`${first} ${second}`)}: after ${first} write one of ${known}`);
  }
  const input = parseInput(command, rest(command.name === first ? [second, ...others] : others));
  return input.flag("help") ? { kind: "help", of: command.name } : { kind: "command", command, input };
}

/** How many words before the command are options. */
function countLeadingOptions(argv: readonly string[]): number {
  let at = 0;
  for (;;) {
    const word = argv[at];
    if (word === undefined || !word.startsWith("-") || word === "-") return at;
    const option = Object.entries<Option>(GLOBAL_OPTIONS).find(
      ([name, { short }]) => word === `--${name}` || word === `-${short}`,
    );
    at += option !== undefined && option[1].kind !== "flag" ? 2 : 1;
  }
}

/** @throws UsageError */
export function parseInput(command: Command, argv: readonly string[]): Input {
  const options: Record<string, Option> = { ...command.options, ...GLOBAL_OPTIONS };
  const end = argv.indexOf("--");
  const given = end === -1 ? argv : argv.slice(0, end);
  const { tokens } = parseArgs({
    // An option whose value may be missing is given an empty one.
    args: given.map((word) =>
      options[word.slice(2)]?.kind === "optional" && word.startsWith("--") ? `${word}=` : word,
    ),
    options: Object.fromEntries(
      Object.entries(options).map(([name, { kind, short }]) => [
        name,
        { type: kind === "flag" ? "boolean" : "string", ...(short !== undefined && { short }) } as const,
      ]),
    ),
    ...{ strict: false, allowPositionals: true, tokens: true },
  });
  const words: string[] = [];
  const found = new Map<string, string[]>();
  for (const token of tokens) {
    if (token.kind === "positional") words.push(token.value);
    if (token.kind !== "option") continue;
    const value = optionValue(token, options[token.name], command);
    found.set(token.name, [...(found.get(token.name) ?? []), value]);
  }
  const after = end === -1 ? [] : argv.slice(end + 1);
  const { least = 0, most = least, takesCommand = false } = command;
  // A command without options of its own needs no --.
  const surplus = takesCommand ? words.splice(most) : [];
  if (!takesCommand) words.push(...after);
  const isHelp = found.has("help");
  if (!isHelp && (words.length < least || words.length > most)) {
    throw new UsageError(`Cannot run ${command.name} with ${words.length} arguments: write ${usageOf(command)}`);
  }
  const all = takesCommand ? [...surplus, ...after] : [];
  if (takesCommand && all.length === 0 && !isHelp)
    throw new UsageError(`Cannot run ${command.name} without a command: write ${usageOf(command)}`);
  return {
    words,
    command: all,
    flag: (name) => found.has(name),
    value: (name) => found.get(name)?.at(-1),
    values: (name) => found.get(name) ?? [],
  };
}

function optionValue(
  token: { name: string; rawName: string; value?: string | undefined; inlineValue?: boolean | undefined },
  option: Option | undefined,
  command: Command,
): string {
  const { rawName, value } = token;
  if (option === undefined) {
    const hint = command.takesCommand ? ", or write -- before the command that it belongs to" : "";
    throw new UsageError(`Cannot use ${rawName}: see tenancy ${command.name} --help${hint}`);
  }
  if (option.kind === "flag") {
    if (token.inlineValue) throw new UsageError(`Cannot use ${rawName}=${value}: ${rawName} takes no value`);
    return "";
  }
  if (value === undefined)
    throw new UsageError(`Cannot use ${rawName} without a value: write ${rawName} ${option.value}`);
  if (option.choices !== undefined && !option.choices.includes(value)) {
    const known = option.choices.join(", ");
    throw new UsageError(`Cannot use ${rawName} ${JSON.stringify(value)}: it is one of ${known}`);
  }
  return value;
}

/** Such as `tenancy logs <where> [options]`. */
export function usageOf({ name, words, options, takesCommand }: Command): string {
  const parts = ["tenancy", name];
  if (options !== undefined && Object.keys(options).length > 0) parts.push("[options]");
  if (words !== undefined) parts.push(words);
  if (takesCommand) parts.push("-- <command>");
  return parts.join(" ");
}

const SECONDS = { s: 1, m: 60, h: 3600, d: 86_400 } as const;

/** Reads `90`, `90s`, `30m`, `2h` or `7d` as seconds. @throws UsageError */
export function secondsOf(text: string, option: string): number {
  const [, digits, unit = "s"] = /^(\d{1,9})([smhd])?$/.exec(text) ?? [];
  if (digits === undefined)
    throw new UsageError(`Cannot use ${option} ${JSON.stringify(text)}: write such as 90s, 30m, 2h or 7d`);
  return Number(digits) * SECONDS[unit as keyof typeof SECONDS];
}

/** Reads a whole number. @throws UsageError */
export function numberOf(text: string, option: string): number {
  if (!/^\d{1,9}$/.test(text))
    throw new UsageError(`Cannot use ${option} ${JSON.stringify(text)}: write a whole number`);
  return Number(text);
}

/** Splits `NAME=VALUE`. @throws UsageError */
export function pairOf(text: string, option: string): [name: string, value: string] {
  const at = text.indexOf("=");
  if (at < 1) throw new UsageError(`Cannot use ${option} ${JSON.stringify(text)}: write such as ${option} NAME=VALUE`);
  return [text.slice(0, at), text.slice(at + 1)];
}
