import type { Command } from "./command.ts";
import { claim, list, release } from "./commands/claims.ts";
import { exec, ps } from "./commands/exec.ts";
import { logs } from "./commands/logs.ts";

/** All commands, in the order of the help. */
export const commands: readonly Command[] = [claim, release, list, exec, ps, logs];
