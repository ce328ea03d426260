import type { Command } from "../command.ts";
import { UsageError } from "../command.ts";
import { completionScript, SHELLS, type Shell } from "../completion.ts";
import { writeTo } from "../io.ts";

/** @param commands of the program, with this one */
export function completionCommand(commands: () => readonly Command[]): Command {
  return {
    name: "completion",
    summary: "Print a script that completes commands and options in a shell",
    words: "<bash|zsh|fish>",
    least: 1,
    examples: ["completion bash > /etc/bash_completion.d/tenancy"],
    async run({ words: [shell = ""] }, { io }) {
      if (!SHELLS.includes(shell as Shell))
        throw new UsageError(`Cannot complete in ${JSON.stringify(shell)}: write one of ${SHELLS.join(", ")}`);
      await writeTo(io.stdout, completionScript(shell as Shell, commands()));
      return 0;
    },
  };
}
