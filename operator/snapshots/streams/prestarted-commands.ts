import { type Clock, systemClock } from "../../../crds/client/clock.ts";
import type { Exec } from "../../../crds/client/exec/exec.ts";
import type { ExecTarget } from "../../../crds/client/exec/exec-outcome.ts";
import type { Pace } from "../../../crds/client/exec/pace-meter.ts";
import { createDeferred, onAbort } from "../../../crds/waits.ts";
import { type FeedCommandOptions, feedCommand } from "./feed-command.ts";

const ASK = Buffer.from("ask\n");
/** The answer of a command that is asked whether it runs. It has changed nothing at that time. */
export const ANSWER = "answer there";

/** The input of a command that was not prestarted: the same question comes first. */
export async function* asked(input: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield ASK;
  yield* input;
}

/** A command that waits in a pod and has just answered. */
export interface PrestartedCommand {
  /** Continues as `feedCommand` does, after the answered question. */
  feed(options: Pick<FeedCommandOptions, "input" | "signal" | "timeoutMs" | "onOutput">): Promise<void>;
}

/**
 * Commands that wait in warm pods, since starting one takes longer than most of what they do. A waiting command changes
 * nothing in its pod until it gets input
 * (docs/decisions/snapshots.md#restores-wait-in-the-next-warm-pods).
 */
export interface PrestartedCommands {
  /** Starts a pod's command, unless it waits already or enough others do. */
  prepare(id: string, target: ExecTarget): void;
  /**
   * Asks the pod's command whether it runs, since it is about to be taken. Cancel it if you do not take it.
   */
  warm(id: string): void;
  /** Takes the pod's command; undefined if no command answers at once. A command is taken only once. */
  take(id: string, signal: AbortSignal): Promise<PrestartedCommand | undefined>;
  /** Ends the pod's command, unless it was taken. */
  cancel(id: string): void;
  close(): void;
}

/** Each takes a connection of this process and of the node, and a shell of 0.5 MB in the pod. */
const MOST_PRESTARTED = 32;
const ANSWER_LIMIT_MS = 3000;
/**
 * The pause before an ended command is started again, unless it is cancelled. The cause of its end may have ended all
 * the others too.
 */
const RETRY_MS = 60_000;
const LONGEST_MS = 24 * 3_600_000;

interface Command {
  readonly cancelLimit: () => void;
  readonly stop: AbortController;
  readonly question: () => void;
  readonly answered: Promise<void>;
  /** Milliseconds since its answer; 0 before that. */
  readonly answerAge: () => number;
  readonly ended: Promise<void>;
  readonly give: (input: AsyncIterable<Uint8Array>, onOutput: FeedCommandOptions["onOutput"]) => void;
}

export function createPrestartedCommands(options: {
  exec: Exec;
  /** What they do, for the error `Cannot <what>`. */
  what: string;
  /** The least pace at which they have to read. */
  minInput: Pace;
  /** How many bytes of their output count. @default as of `feedCommand` */
  mostOutputBytes?: number | undefined;
  clock?: Clock | undefined;
  /** Milliseconds that a command may take once it is taken. */
  timeoutMs: number;
}): PrestartedCommands {
  const { exec, what, minInput, mostOutputBytes, clock = systemClock, timeoutMs } = options;
  /** The command of each pod, or the pause before its next one. */
  const waiting = new Map<string, Command | { readonly cancelRetry: () => void }>();

  function open(id: string, target: ExecTarget): void {
    const stop = new AbortController();
    const asked = createDeferred<boolean>();
    const answered = createDeferred<void>();
    let answeredAt: number | undefined;
    let onOutput: FeedCommandOptions["onOutput"];
    const given = createDeferred<Iterable<never> | AsyncIterable<Uint8Array>>();
    async function* input(): AsyncGenerator<Uint8Array> {
      if (!(await asked.promise)) return;
      yield ASK;
      yield* await given.promise;
    }
    const ended = feedCommand({
      ...{ exec, target, what, input: input(), minInput, mostOutputBytes },
      ...{ signal: stop.signal, timeoutMs: LONGEST_MS + timeoutMs },
      onOutput(output) {
        onOutput?.(output);
        if (!output.includes(ANSWER)) return;
        answeredAt ??= clock.now();
        answered.resolve();
      },
    });
    const command: Command = {
      cancelLimit: clock.after(LONGEST_MS, () => stop.abort(new Error("it has waited for a day"))),
      stop,
      question: () => asked.resolve(true),
      answered: answered.promise,
      answerAge: () => (answeredAt === undefined ? 0 : clock.now() - answeredAt),
      ended,
      give(input, listener) {
        onOutput = listener;
        given.resolve(input);
      },
    };
    waiting.set(id, command);
    const note = (error?: unknown): void => {
      command.cancelLimit();
      asked.resolve(false);
      answered.reject(error);
      given.resolve([]);
      if (waiting.get(id) === command) waiting.set(id, { cancelRetry: clock.after(RETRY_MS, () => open(id, target)) });
    };
    ended.then(note, note);
  }

  function remove(id: string): Command | undefined {
    const entry = waiting.get(id);
    waiting.delete(id);
    if (entry === undefined || "stop" in entry) return entry;
    entry.cancelRetry();
    return undefined;
  }

  function end(id: string, why: string): void {
    remove(id)?.stop.abort(new Error(why));
  }

  return {
    prepare(id, target) {
      if (!waiting.has(id) && waiting.size < MOST_PRESTARTED) open(id, target);
    },
    warm(id) {
      const entry = waiting.get(id);
      if (entry !== undefined && "stop" in entry) entry.question();
    },
    async take(id, signal) {
      const command = remove(id);
      if (command === undefined) return undefined;
      command.cancelLimit();
      if (command.answerAge() > ANSWER_LIMIT_MS) {
        // The caller waited for others, so the command may have ended since its answer.
        command.stop.abort(new Error("its answer is old"));
        return undefined;
      }
      const { stop, question, answered, ended, give } = command;
      const cancelLimit = clock.after(ANSWER_LIMIT_MS, () => stop.abort(new Error("it does not answer")));
      const ignoreAbort = onAbort(signal, () => stop.abort(signal.reason));
      question();
      try {
        await answered;
      } catch {
        // This command has done nothing. The caller starts another one, which reports what is wrong with the pod.
        signal.throwIfAborted();
        return undefined;
      } finally {
        cancelLimit();
        ignoreAbort();
      }
      return {
        async feed(fed) {
          const fail = (): void => stop.abort(fed.signal.reason);
          const late = new Error(`Cannot ${what}: not done within ${fed.timeoutMs} ms`);
          const cancelTimeout = clock.after(fed.timeoutMs, () => stop.abort(late));
          const ignoreFedAbort = onAbort(fed.signal, fail);
          if (fed.signal.aborted) fail();
          else give(fed.input, fed.onOutput);
          try {
            await ended;
          } finally {
            cancelTimeout();
            ignoreFedAbort();
          }
        },
      };
    },
    cancel: (id) => end(id, "its pod is taken for something else"),
    close() {
      for (const id of [...waiting.keys()]) end(id, "this operator leads no more");
    },
  };
}
