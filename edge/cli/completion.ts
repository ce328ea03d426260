import type { Command, Option } from "./command.ts";
import { GLOBAL_OPTIONS } from "./parse.ts";

export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof SHELLS)[number];

/** A script that completes the commands, the options of each, and files. */
export function completionScript(shell: Shell, commands: readonly Command[]): string {
  switch (shell) {
    case "bash":
      return `${bashFunction(commands)}complete -o default -F _tenancy tenancy\n`;
    case "zsh":
      // zsh runs completions of bash.
      return `#compdef tenancy\nautoload -U +X bashcompinit && bashcompinit\n${bashFunction(commands)}complete -o default -F _tenancy tenancy\n`;
    case "fish":
      return fishScript(commands);
    default:
      return shell satisfies never;
  }
}

function bashFunction(commands: readonly Command[]): string {
  const cases = commands.map(({ name, options }) => `    "${name}") words="${optionWords(options).join(" ")}" ;;`);
  const groups = groupsOf(commands).map(([group, names]) => `    "${group}") words="${names.join(" ")}" ;;`);
  return `_tenancy() {
  local current="\${COMP_WORDS[COMP_CWORD]}" first="\${COMP_WORDS[1]}" words=""
  local command="$first"
  case "$first" in
    ${groupsOf(commands)
      .map(([group]) => group)
      .join("|")}) command="$first \${COMP_WORDS[2]}" ;;
  esac
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="${firstWords(commands).join(" ")}"
  elif [ "$COMP_CWORD" -eq 2 ] && [ "$command" != "$first" ]; then
    case "$first" in
${groups.join("\n")}
    esac
  elif [ "\${current#-}" != "$current" ]; then
    case "$command" in
${cases.join("\n")}
    esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
`;
}

function fishScript(commands: readonly Command[]): string {
  const lines = firstWords(commands).map((word) => {
    const summary = commands.find(({ name }) => name === word)?.summary ?? `${word} commands`;
    return `complete -c tenancy -n __fish_use_subcommand -f -a ${word} -d ${quoted(summary)}`;
  });
  for (const { name, summary, options } of commands) {
    const [first = "", second] = name.split(" ");
    let condition = `__fish_seen_subcommand_from ${first}`;
    if (second !== undefined) {
      const others = commands
        .filter((other) => other.name.startsWith(`${first} `))
        .map((other) => other.name.split(" ")[1]);
      lines.push(
        `complete -c tenancy -n ${quoted(`${condition}; and not __fish_seen_subcommand_from ${others.join(" ")}`)} -f -a ${second} -d ${quoted(summary)}`,
      );
      condition = `${condition}; and __fish_seen_subcommand_from ${second}`;
    }
    for (const [option, { short, kind, help }] of Object.entries<Option>({ ...options, ...GLOBAL_OPTIONS })) {
      const parts = [
        `-l ${option}`,
        ...(short === undefined ? [] : [`-s ${short}`]),
        ...(kind === "flag" ? [] : ["-r"]),
      ];
      lines.push(`complete -c tenancy -n ${quoted(condition)} ${parts.join(" ")} -d ${quoted(help)}`);
    }
  }
  return `${lines.join("\n")}\n`;
}

function firstWords(commands: readonly Command[]): string[] {
  return [...new Set(commands.map(({ name }) => name.split(" ")[0] ?? ""))];
}

function groupsOf(commands: readonly Command[]): [group: string, names: string[]][] {
  const groups = new Map<string, string[]>();
  for (const { name } of commands) {
    const [first = "", second] = name.split(" ");
    if (second !== undefined) groups.set(first, [...(groups.get(first) ?? []), second]);
  }
  return [...groups];
}

function optionWords(options: Command["options"]): string[] {
  return Object.keys({ ...options, ...GLOBAL_OPTIONS }).map((name) => `--${name}`);
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
