import type { Command } from "../../edge/cli/command.ts";
import { EXIT_CODES } from "../../edge/cli/exit-code.ts";
import { exampleLine, optionRows } from "../../edge/cli/help.ts";
import { GLOBAL_OPTIONS, usageOf } from "../../edge/cli/parse.ts";

/** The text of docs/reference/cli.md. */
export function cliPage(commands: readonly Command[]): string {
  return [
    "# The command line",
    "",
    "This page is for people who use `tenancy` in a terminal or in scripts. Look up here every command, its options and",
    "its exit codes.",
    "",
    "`npm run docs` writes this page from the table of the commands. [How to install and use",
    "it](../how-to/use-the-command-line.md).",
    "",
    "`<where>` is `tenant/workload`, or the id of an instance. `<tenant/workload>` may be two words.",
    "",
    "## Options of every command",
    "",
    ...optionTable(GLOBAL_OPTIONS),
    "",
    "| variable | |",
    "| --- | --- |",
    "| `TENANCY_URL` | the address of the API |",
    "| `TENANCY_KEY` | the key |",
    "| `XDG_CONFIG_HOME` | `tenancy/config.json` in it has the logins; default `~/.config`. A file that other users can read is refused |",
    "| `VISUAL`, `EDITOR` | the editor of `files edit` |",
    "",
    "- JSON and YAML are the API's own objects. A table is for people and may change; `-o name` prints one name a line.",
    "- Results are on standard output, everything else on standard error. Nothing is coloured.",
    "- Control characters in names and messages are written as `\\x1b` or `\\u{202e}`. `exec`, `logs` and `files cat` pass",
    "  bytes on as they are, so their output can act on your terminal.",
    "",
    "## Exit codes",
    "",
    "| code | |",
    "| --- | --- |",
    ...Object.entries(EXIT_CODES).map(([code, meaning]) => `| ${code} | ${meaning} |`),
    "",
    "`exec` has the exit code of the program.",
    "",
    "## Commands",
    ...commands.flatMap(sectionOf),
    "",
  ].join("\n");
}

function sectionOf(command: Command): string[] {
  const { name, summary, options = {}, notes = [], examples } = command;
  return [
    ...["", `### ${name}`, "", `${inCode(summary)}.`],
    ...(Object.keys(options).length > 0 ? ["", ...optionTable(options)] : []),
    ...(notes.length > 0 ? ["", ...notes.map(inCode)] : []),
    ...["", "```", `usage: ${usageOf(command)}`, ...examples.map(exampleLine), "```"],
  ];
}

function optionTable(options: Parameters<typeof optionRows>[0]): string[] {
  const cell = (text: string) => text.replaceAll("|", "\\|");
  return [
    "| option | |",
    "| --- | --- |",
    ...optionRows(options).map(([names, help]) => `| \`${cell(names)}\` | ${inCode(cell(help))} |`),
  ];
}

/** Options and paths in a sentence, as code. */
function inCode(text: string): string {
  return text.replaceAll(
    /(?<![\w`$/-])(--?[a-z][\w-]*(?:[ =]yaml| json| name)?|\$XDG\S+|tenant\/workload(?::path)?|instance:path)(?![\w`])/g,
    "`$1`",
  );
}
