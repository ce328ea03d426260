import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Exec } from "../../../crds/client/exec/exec.ts";
import { SAY_FILE_SYSTEM } from "../../../operator/snapshots/pods/pod-time.ts";
import { RESTORE_GATE, TOOLS_BUSYBOX, TOOLS_IMAGE_BUSYBOX } from "../../../operator/snapshots/pods/pod-tools.ts";
import { localExec } from "./local-exec.ts";
import { staticBusybox } from "./static-busybox.ts";

/** Runs the commands of pods in the folders of their names in a folder. They say that these are on ext4. */
export function execInFolders(folder: string): Exec {
  return ({ command, ...asked }) => {
    const root = join(folder, asked.pod);
    const known: Record<string, string> = {
      ...{ [TOOLS_BUSYBOX]: staticBusybox, [TOOLS_IMAGE_BUSYBOX]: staticBusybox },
      ...{ "/": root, [RESTORE_GATE]: `${root}.gate` },
    };
    const there = (word: string): string => known[word] ?? word.replace(SAY_FILE_SYSTEM, "echo file system ef53");
    return localExec({ ...asked, command: command.map(there) });
  };
}

/**
 * Makes the folder of a pod that waits for its files.
 *
 * @returns what reads its gate in the place of the container that waits
 */
export function makeWaitingPod(root: string, overlayDirs: readonly string[]): ChildProcess {
  for (const name of overlayDirs) mkdirSync(join(root, name), { recursive: true });
  execFileSync(staticBusybox, ["mkfifo", `${root}.gate`]);
  return spawn(staticBusybox, ["cat", `${root}.gate`], { stdio: "ignore" });
}
