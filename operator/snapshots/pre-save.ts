import type { Exec, ExecResult } from "../../crds/client/exec/exec.ts";
import type { PreSave } from "../../crds/defaults.ts";
import { ExecFailure } from "./exec-output.ts";
import type { OverlayPod } from "./overlay-pod.ts";
import { TOOLS_BUSYBOX } from "./pod-tools.ts";

/** How long a command may take to end after it was asked to. */
const END_LIMIT_MS = 5000;
const MOST_SHOWN = 500;

/**
 * Runs `filesystem.preSave` in the workload's container, and ends it there when its time is over. It needs nothing of
 * the image but the program that it names.
 *
 * @throws ExecFailure when it fails, with the last line of its standard error, or does not end in its time
 * @throws as `Exec` does
 */
export async function runPreSave(options: {
  exec: Exec;
  pod: OverlayPod;
  preSave: PreSave;
  signal: AbortSignal;
}): Promise<void> {
  const { exec, pod, preSave, signal } = options;
  const { namespace, pod: name, container, busybox = TOOLS_BUSYBOX } = pod;
  const timeoutMs = preSave.timeoutSeconds * 1000;
  const command = [busybox, "timeout", String(preSave.timeoutSeconds), ...preSave.command];
  const began = performance.now();
  let result: ExecResult | undefined;
  try {
    result = await exec({ namespace, pod: name, container, command, signal, timeoutMs: timeoutMs + END_LIMIT_MS });
    if (result.exitCode === 0) return;
  } catch (error) {
    if (signal.aborted || performance.now() - began < timeoutMs) throw error;
  }
  const { exitCode = 1, stderr = "" } = result ?? {};
  const last = stderr.trim().split("\n").at(-1)?.slice(-MOST_SHOWN);
  const isLate = performance.now() - began >= timeoutMs;
  const why = isLate ? `did not end within ${preSave.timeoutSeconds} s` : `ended with ${exitCode}`;
  throw new ExecFailure(`filesystem.preSave ${why}${last ? `: ${last}` : ""}`, { exitCode });
}
