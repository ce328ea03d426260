import { randomBytes } from "node:crypto";
import { Readable, type Writable } from "node:stream";
import { type Clock, systemClock } from "../../crds/client/clock.ts";
import type { Exec } from "../../crds/client/exec/exec.ts";
import type { Log } from "../../crds/log.ts";
import { checkSnapshotKey, type SnapshotKey } from "../../crds/snapshots/snapshot-key.ts";
import { type StoreFolder, storeCommand } from "../../crds/snapshots/store-folder.ts";
import { storeScripts } from "../../crds/snapshots/store-scripts.ts";
import { createDeferred, type Deferred, orAborted } from "../../crds/waits.ts";
import { createSessionReader, type SessionAnswer } from "./session-reader.ts";

/** There is no archive; `unmarked` on a volume that no save has marked. */
export interface NoneFound {
  readonly kind: "none" | "unmarked";
}

/** What is known of an archive that exists. */
export interface FoundArchive {
  readonly kind: "found";
  readonly sizeBytes: number;
  /** What is recorded beside it, a JSON object each. */
  readonly lines: readonly string[];
  /** The archive itself, where it is small, which is still on its way. Rejected when it does not arrive whole. */
  readonly archive: Promise<Buffer> | undefined;
}

interface SessionLookup {
  readonly version?: string | undefined;
  readonly brings?: boolean | undefined;
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}

/**
 * Looks at archives through one command that stays in the helper pod and answers question after question, since
 * starting a command there takes longer than the look. It is started at the first question, and ended when nobody has
 * asked for a while.
 */
export interface ArchiveSession {
  /**
   * Says that there is no archive only where the volume itself has said so.
   *
   * @param options.version the digits of an older version. @default the newest
   * @param options.brings whether a small archive is sent along. @default true
   * @param options.timeoutMs for the answer and the archive together
   * @throws Error when there is no answer: a command of its own can still find out
   */
  look(key: SnapshotKey, options: SessionLookup): Promise<FoundArchive | NoneFound>;
  /** Ends the command; the next look starts another. */
  close(): void;
}

/** An archive of more bytes is read by a command of its own, which streams. */
const SMALL_BYTES = 2 * 1024 * 1024;
/** A command that stays costs the helper pod less than a megabyte, and the first claim after it a tenth of a second. */
const IDLE_MS = 15 * 60_000;
/** Whatever a shell gathers over days goes with it. */
const LONGEST_MS = 24 * 3_600_000;

interface Command {
  readonly questions: Readable;
  readonly stdout: Writable;
  readonly waiting: Map<string, Deferred<SessionAnswer>>;
  readonly stop: AbortController;
}

/** Makes a session for the archives in a folder of a container. */
export function createArchiveSession(options: {
  exec: Exec;
  folder: StoreFolder;
  clock?: Clock | undefined;
  log?: Log | undefined;
}): ArchiveSession {
  const { exec, folder, clock = systemClock, log } = options;
  let command: Command | undefined;
  let cancelIdle = (): void => undefined;

  function open(): Command {
    const questions = new Readable({
      read() {
        // Questions come when they are asked.
      },
    });
    const waiting: Command["waiting"] = new Map();
    const stdout = createSessionReader({
      mostBytes: SMALL_BYTES,
      onAnswer: (answer) => waiting.get(answer.id)?.resolve(answer),
    });
    const opened: Command = { questions, stdout, waiting, stop: new AbortController() };
    const target = storeCommand(folder, { script: storeScripts.session, words: [], limitMs: LONGEST_MS });
    const { signal } = opened.stop;
    exec({ ...target, stdin: questions, stdout, signal, timeoutMs: LONGEST_MS }).then(
      ({ exitCode, stderr }) => end(opened, new Error(`it ended with ${exitCode}: ${stderr}`)),
      (error: unknown) => end(opened, error),
    );
    return opened;
  }

  function end(ended: Command, cause: unknown): void {
    if (command === ended) command = undefined;
    ended.stdout.destroy();
    const why = cause instanceof Error ? cause.message : String(cause);
    if (ended.waiting.size > 0) log?.info({ why }, "archive session ended, looking up with a command instead");
    for (const { reject } of ended.waiting.values())
      reject(new Error("Cannot ask the helper pod's command", { cause }));
  }

  /** Gives a command up that does not answer: it would not answer anybody else either. */
  function abandon(given: Command, why: string): void {
    if (command === given) command = undefined;
    given.stop.abort(new Error(why));
  }

  function close(): void {
    cancelIdle();
    if (command !== undefined) abandon(command, "the session is closed");
  }

  return {
    async look(key, { version = "", brings = true, signal, timeoutMs }) {
      checkSnapshotKey(key);
      signal.throwIfAborted();
      cancelIdle();
      command ??= open();
      const asked = command;
      const id = randomBytes(6).toString("hex");
      const question: Deferred<SessionAnswer> = createDeferred();
      asked.waiting.set(id, question);
      const cancelLimit = clock.after(timeoutMs, () => abandon(asked, `no answer within ${timeoutMs} ms`));
      asked.questions.push(`${id} ${key.tenantId} ${key.workloadRef} ${brings ? SMALL_BYTES : 0} ${version}\n`);
      let arrived: Promise<unknown> = Promise.resolve();
      try {
        const answer = await orAborted(question.promise, signal);
        if (answer.kind === "failed") throw new Error(`Cannot look at the archive: ${answer.why}`);
        if (answer.kind !== "found") return { kind: answer.kind };
        const { kind, sizeBytes, lines, archive } = answer;
        arrived = archive ?? arrived;
        return { kind, sizeBytes, lines, archive };
      } finally {
        arrived.then(cancelLimit, cancelLimit);
        asked.waiting.delete(id);
        if (command === asked && asked.waiting.size === 0) {
          cancelIdle();
          cancelIdle = clock.after(IDLE_MS, close);
        }
      }
    },
    close,
  };
}
