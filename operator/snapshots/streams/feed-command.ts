import { Readable, Writable } from "node:stream";
import type { Exec } from "../../../crds/client/exec/exec.ts";
import type { ExecTarget } from "../../../crds/client/exec/exec-outcome.ts";
import type { Pace } from "../../../crds/client/exec/pace-meter.ts";
import { linkSignals } from "../../../crds/waits.ts";
import { ExecFailure } from "./exec-output.ts";

export interface FeedCommandOptions {
  readonly exec: Exec;
  readonly target: ExecTarget;
  /** What the error says could not be done, as in `Cannot <what>`. */
  readonly what: string;
  readonly input: AsyncIterable<Uint8Array>;
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  /** @default a slow command is waited for */
  readonly minInput?: Pace | undefined;
  /** Called with what was written so far, its last 16 KiB, whenever that grows. */
  readonly onOutput?: ((output: string) => void) | undefined;
}

const exitStatusLine = /^exit-status (\d+)$/m;
/** What a script says on its way, which is in no message. */
const answerLines = /^answer .*$/gm;
const maxOutputBytes = 16 * 1024;

/**
 * Runs a shell script that reads an input (see `fedScript`), until it writes `exit-status <exit code>` as a line of its
 * own.
 *
 * The end of a command that leaves input unread is never reported by a server that still has some to send (tried: 1.34;
 * kubectl hangs there too), so the script says itself how it ended.
 *
 * @throws ExecFailure when the exit status is not 0
 * @throws what the input fails with, and as `Exec` does
 */
export async function feedCommand(options: FeedCommandOptions): Promise<void> {
  const { exec, target, what, input, signal, timeoutMs, minInput, onOutput } = options;
  const ending = linkSignals(signal);
  let output = "";
  let exitStatus: number | undefined;
  let inputError: unknown;

  const stdout = new Writable({
    write(chunk: Buffer, _encoding, callback) {
      // What a script writes is short; of one that does not stop, the end is what counts.
      output = (output + chunk.toString("utf8")).slice(-maxOutputBytes);
      onOutput?.(output);
      const found = exitStatusLine.exec(output)?.[1];
      if (found !== undefined) {
        exitStatus = Number(found);
        ending.abort(new Error("the command has ended"));
      }
      callback();
    },
  });
  async function* watched(): AsyncGenerator<Uint8Array> {
    try {
      yield* input;
    } catch (error) {
      // One that ends because the command has ended is not why it failed.
      if (exitStatus === undefined) inputError = error;
      throw error;
    }
  }

  try {
    const stdin = Readable.from(watched(), { objectMode: false, highWaterMark: 64 * 1024 });
    const result = await exec({ ...target, stdin, stdout, signal: ending.signal, timeoutMs, minInput });
    exitStatus ??= result.exitCode === 0 ? 1 : result.exitCode;
    output += result.stderr;
  } catch (error) {
    if (inputError !== undefined) throw inputError;
    if (exitStatus === undefined) throw error;
  } finally {
    ending.close();
  }
  if (exitStatus === 0) return;
  const said = output.replace(exitStatusLine, "").replace(answerLines, "").trim() || `exit code ${exitStatus}`;
  throw new ExecFailure(`Cannot ${what}: ${said}`, { exitCode: exitStatus });
}

/**
 * A shell function that copies the frames of its input (see `frames`) to its output, up to the line that ends them, and
 * fails when that line does not come. `$b` is busybox. It reads not one byte too much: `read` takes single bytes from a
 * pipe, and dd what it is told. Its pieces are what a pipe holds: one of a megabyte for each frame took three times the
 * processor time of the pod.
 */
const receive = `receive() {
  while read -r length; do
    case "$length" in
      end) return 0 ;;
      "" | *[!0-9]*) return 1 ;;
    esac
    "$b" dd bs=65536 count="$length" iflag=fullblock,count_bytes status=none || return 1
  done
  return 1
}`;

/** What the reader of the exit status may take to close the connection, where nothing tells the script that it has. */
const CLOSING_SECONDS = 30;

/**
 * The whole of a script for `feedCommand`, with the function `receive`: all that it says goes to its standard output,
 * its exit status last. A script that calls `exit` itself ends without that line, by its exit code.
 *
 * It then takes the rest of its input until the reader of that line closes the connection, for at most 30 s: what a
 * command has said can be lost when it ends first
 * (docs/decisions/snapshots.md#the-ends-of-an-execs-streams-are-confirmed). The shell itself keeps both its outputs
 * open: containerd closes the input of an exec as soon as one of the two is closed.
 */
export function fedScript(text: string): string {
  return `${receive}\n{\n${text}\n} 2>&1\necho "exit-status $?"\n"$b" timeout ${CLOSING_SECONDS} "$b" cat > /dev/null`;
}
