import { Readable, Writable } from "node:stream";
import type { Exec } from "../../../crds/client/exec/exec.ts";
import type { ExecTarget } from "../../../crds/client/exec/exec-outcome.ts";
import type { Pace } from "../../../crds/client/exec/pace-meter.ts";
import { linkSignals } from "../../../crds/waits.ts";
import { ExecFailure } from "./exec-output.ts";

export interface FeedCommandOptions {
  readonly exec: Exec;
  readonly target: ExecTarget;
  /** The action, for the error `Cannot <what>`. */
  readonly what: string;
  readonly input: AsyncIterable<Uint8Array>;
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  /** The least pace at which the command has to read. @default none */
  readonly minInput?: Pace | undefined;
  /** Called with the last bytes of the output, whenever it grows. */
  readonly onOutput?: ((output: string) => void) | undefined;
  /** How many bytes of the output count. @default 16 KiB */
  readonly mostOutputBytes?: number | undefined;
}

const exitStatusLine = /^exit-status (\d+)$/m;
/** Lines that a script writes during its work; error messages leave them out. */
const answerLines = /^answer .*$/gm;
const MOST_WORDS = 16 * 1024;

/**
 * Runs a shell script that reads an input (see `fedScript`), until it writes the line `exit-status <exit code>`.
 *
 * The script reports its exit status itself. If a command ends with unread input, a server that still has some to send
 * never reports the end (tried: 1.34; kubectl hangs there too).
 *
 * @throws ExecFailure if the exit status is not 0
 * @throws the error of the input, and as `Exec` does
 */
export async function feedCommand(options: FeedCommandOptions): Promise<void> {
  const { exec, target, what, input, signal, timeoutMs, minInput, onOutput, mostOutputBytes = MOST_WORDS } = options;
  const ending = linkSignals(signal);
  let output = "";
  let exitStatus: number | undefined;
  let inputError: unknown;

  const stdout = new Writable({
    write(chunk: Buffer, _encoding, callback) {
      // A script writes little. If one does not stop, its last output counts.
      output = (output + chunk.toString("utf8")).slice(-mostOutputBytes);
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
      // If the command has ended, the end of the input is not the cause of a failure.
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
  const said = output.replace(exitStatusLine, "").replace(answerLines, "").trim().slice(-MOST_WORDS);
  throw new ExecFailure(`Cannot ${what}: ${said || `exit code ${exitStatus}`}`, { exitCode: exitStatus });
}

/**
 * A shell function that copies the frames of its input (see `frames`) to its output, up to their end line. It fails
 * without that line. `$b` is busybox. It never reads a byte too much: `read` takes single bytes from a pipe, and dd
 * takes `count` bytes. The block size is what a pipe holds: blocks of 1 MiB took three times the processor time in the
 * pod.
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

/** How long the reader of the exit status may take to close the connection. */
const CLOSING_SECONDS = 30;

/**
 * A complete script for `feedCommand`, with the function `receive`. All its output goes to standard output, the exit
 * status last. A script that calls `exit` ends without that line; then the exit code of the command counts.
 *
 * After that line it reads the rest of its input until the reader closes the connection, for at most 30 s: if a command
 * ends first, its output can be lost (docs/decisions/snapshots.md#the-ends-of-an-execs-streams-are-confirmed). The
 * shell keeps both its outputs open, since containerd closes the input of an exec as soon as one of them is closed.
 */
export function fedScript(text: string): string {
  return `${receive}\n{\n${text}\n} 2>&1\necho "exit-status $?"\n"$b" timeout ${CLOSING_SECONDS} "$b" cat > /dev/null`;
}
