import type { Command } from "./command.ts";
import { build } from "./commands/build.ts";
import { claim, list, release } from "./commands/claims.ts";
import { completionCommand } from "./commands/completion.ts";
import { cp } from "./commands/cp.ts";
import { exec, ps } from "./commands/exec.ts";
import * as files from "./commands/files.ts";
import { login, logout, version } from "./commands/login.ts";
import { logs } from "./commands/logs.ts";
import { open } from "./commands/open.ts";
import { apply, getWorkload, listWorkloads, remove } from "./commands/resources.ts";
import { createKey, events, listKeys, removeKey, usage } from "./commands/service.ts";
import * as snapshots from "./commands/snapshots.ts";
import { wait } from "./commands/wait.ts";

/** All commands, in the order of the help. */
export const commands: readonly Command[] = [
  ...[login, logout, listWorkloads, getWorkload, apply, remove],
  ...[claim, release, list, wait, exec, ps, logs, cp, open, build],
  ...[files.list, files.cat, files.put, files.remove, files.move, files.edit, files.watch],
  ...[snapshots.checkpoint, snapshots.list, snapshots.diff, snapshots.rollback, snapshots.copy],
  ...[usage, events, listKeys, createKey, removeKey, completionCommand(() => commands), version],
];
