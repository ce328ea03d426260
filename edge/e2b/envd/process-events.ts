import type { OutputEvent } from "../../api/inside/process-output.ts";
import type { ApiTypes } from "../../api/openapi/schemas.ts";
import { HttpError } from "../../http/http-error.ts";

/** What the envd of E2B calls the signals that end a process. */
const signalTexts: Readonly<Record<string, string>> = {
  SIGHUP: "hangup",
  SIGINT: "interrupt",
  SIGQUIT: "quit",
  SIGILL: "illegal instruction",
  SIGTRAP: "trace/breakpoint trap",
  SIGABRT: "aborted",
  SIGBUS: "bus error",
  SIGFPE: "floating point exception",
  SIGKILL: "killed",
  SIGUSR1: "user defined signal 1",
  SIGSEGV: "segmentation fault",
  SIGUSR2: "user defined signal 2",
  SIGPIPE: "broken pipe",
  SIGALRM: "alarm clock",
  SIGTERM: "terminated",
  SIGXCPU: "CPU time limit exceeded",
  SIGXFSZ: "file size limit exceeded",
  SIGSYS: "bad system call",
};

/** How a process has ended. An exit code of -1 is that of a signal, as Go's `os.ProcessState` has it. */
function endOf({ exitCode, signal }: ApiTypes["Process"]): object {
  if (signal === undefined) {
    const status = `exit status ${exitCode ?? 0}`;
    return { exitCode: exitCode ?? 0, exited: true, status, ...(exitCode !== 0 && { error: status }) };
  }
  const status = `signal: ${signalTexts[signal] ?? signal}`;
  return { exitCode: -1, exited: false, status, error: status };
}

/**
 * The events of a process that is followed: its start, its outputs, its end.
 *
 * @throws HttpError 504 if it was ended by its time limit
 */
export async function* processEvents(
  { pid, tty }: Pick<ApiTypes["Process"], "pid" | "tty">,
  outputs: AsyncIterable<OutputEvent>,
): AsyncGenerator<object, void> {
  yield { event: { start: { pid } } };
  for await (const event of outputs) {
    if (event.type !== "process") {
      const { buffer, byteOffset, length } = event.bytes;
      const name = tty ? "pty" : event.type;
      yield { event: { data: { [name]: Buffer.from(buffer, byteOffset, length).toString("base64") } } };
    } else if (event.process.timedOut === true) {
      throw new HttpError(504, "the process was ended: it has reached the time limit of its call", { expected: true });
    } else yield { event: { end: endOf(event.process) } };
  }
}
