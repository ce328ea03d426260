import { Writable } from "node:stream";
import type { Exec, ExecResult } from "../../../crds/client/exec/exec.ts";
import type { PreSave } from "../../../crds/defaults.ts";
import { LAUNCHER_FOLDER } from "../../launcher/launch-command.ts";
import { NOW_FUNCTION } from "../../launcher/shell-functions.ts";
import { ExecFailure } from "../streams/exec-output.ts";
import { endFreeze } from "./freeze.ts";
import type { OverlayPod } from "./overlay-pod.ts";
import { TOOLS_BUSYBOX } from "./pod-tools.ts";

/** How long a command may take to end after SIGTERM. */
const END_LIMIT_MS = 5000;
const MOST_SHOWN = 500;
const MOST_KEPT = 4096;
/** The exit code of a command that exceeded its limit, whatever its own exit code is. */
const LATE = 124;
const LAUNCHER = `/${LAUNCHER_FOLDER}`;

// Both outputs are merged, so that the last line is the one that was printed last. The pod measures the time: a slow
// connection does not make a command late that ends just in time.
const script = `b="$1"; seconds="$2"; shift 2
[ ! -e ${LAUNCHER}/stop ] && [ ! -e ${LAUNCHER}/term ] || exit 0
${endFreeze(LAUNCHER)}
${NOW_FUNCTION}
now; began="$up"
"$b" timeout "$seconds" "$@" 2>&1
code=$?
now; [ $((up - began)) -lt $((seconds * 100)) ] || exit ${LATE}
exit $code`;

/**
 * Runs `filesystem.preSave` in the workload's container, and ends it there at its limit. The image needs only the
 * program that preSave names.
 *
 * @throws ExecFailure if it fails, with the last line that it printed, or does not end within its limit
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
  const command = [
    busybox,
    "sh",
    "-c",
    script,
    "pre-save",
    busybox,
    String(preSave.timeoutSeconds),
    ...preSave.command,
  ];
  let output = "";
  const stdout = new Writable({
    write(chunk: Buffer, _encoding, callback) {
      output = (output + chunk.toString("latin1")).slice(-MOST_KEPT);
      callback();
    },
  });
  const began = performance.now();
  let result: ExecResult | undefined;
  try {
    result = await exec({
      namespace,
      pod: name,
      container,
      command,
      stdout,
      signal,
      timeoutMs: timeoutMs + END_LIMIT_MS,
    });
    if (result.exitCode === 0) return;
  } catch (error) {
    if (signal.aborted || performance.now() - began < timeoutMs) throw error;
  }
  const { exitCode = LATE, stderr = "" } = result ?? {};
  const printed = Buffer.from(output, "latin1").toString("utf8").trim() || stderr.trim();
  const last = printed.split("\n").at(-1)?.slice(-MOST_SHOWN);
  const isLate = exitCode === LATE && performance.now() - began >= timeoutMs;
  const why = isLate ? `did not end within ${preSave.timeoutSeconds} s` : `ended with ${exitCode}`;
  throw new ExecFailure(`filesystem.preSave ${why}${last ? `: ${last}` : ""}`, { exitCode });
}
