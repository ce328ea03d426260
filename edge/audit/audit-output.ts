import { close, fstat, open, openSync, stat, write } from "node:fs";
import type { Clock } from "../../crds/client/clock.ts";
import type { Log } from "../../crds/log.ts";
import type { AuditNote } from "./audit-text.ts";
import { lineOf } from "./audit-text.ts";

/** Where the lines of the audit log go. Nothing here waits in a request, and nothing fails one. */
export interface AuditOutput {
  /** @param line without its end */
  write(line: string): void;
  /** Settles when everything is written, or has failed once more. */
  close(): Promise<void>;
}

/** Lines that wait for a slow disk or reader; what comes then is lost. */
const MAX_WAITING_BYTES = 4 * 1024 * 1024;
/** A pipe takes so much at once, so that no line of the log comes in between (POSIX's PIPE_BUF). */
const PIPE_BYTES = 4096;
const FILE_BYTES = 64 * 1024;
const RETRY_MS = 1000;
/** How often the path is compared with the open file. */
const LOOK_MS = 1000;
const STDOUT = 1;
const NEWLINE = 10;
const OWN_ONLY = 0o600;

interface OutputOptions {
  readonly log: Log;
  readonly clock: Clock;
  /** Called for each line that is lost. */
  readonly onLost?: () => void;
  /** Called for each failed write, which is tried again. */
  readonly onFailure?: () => void;
  /** @default 4 MiB */
  readonly maxWaitingBytes?: number;
}

/**
 * Opens the output (docs/decisions/audit-log.md#no-request-waits-for-the-lines). A file is appended to, and opened again once its path names another file or none, as after
 * logrotate.
 *
 * @param target `stdout`, or the path of a file
 * @throws Error if the file cannot be opened
 */
export function openAuditOutput(target: string, options: OutputOptions): AuditOutput {
  const { log, clock, onLost, onFailure, maxWaitingBytes = MAX_WAITING_BYTES } = options;
  const path = target === "stdout" ? undefined : target;
  const batchBytes = path === undefined ? PIPE_BYTES : FILE_BYTES;
  const waiting: string[] = [];
  let waitingBytes = 0;
  let lost = 0;
  let fd = path === undefined ? STDOUT : openNow(path);
  let lookedAt = clock.now();
  let isFailing = false;
  let isClosing = false;
  let wake = (): void => undefined;
  let draining: Promise<void> | undefined;

  function add(line: string): boolean {
    if (waitingBytes + line.length > maxWaitingBytes) return false;
    waiting.push(`${line}\n`);
    waitingBytes += line.length + 1;
    return true;
  }

  function addNote(): void {
    const note: AuditNote = { time: new Date(clock.now()).toISOString(), omitted: lost, why: "lost" };
    if (lost > 0 && add(lineOf(note))) lost = 0;
  }

  /** Whole lines, at least one. They are ASCII, so a character is a byte. */
  function nextBatch(): Buffer {
    let text = waiting.shift() ?? "";
    while (waiting[0] !== undefined && text.length + waiting[0].length <= batchBytes) text += waiting.shift();
    waitingBytes -= text.length;
    return Buffer.from(text, "latin1");
  }

  async function drain(): Promise<void> {
    while (waiting.length > 0) {
      const batch = nextBatch();
      let at = 0;
      while (at < batch.length) {
        try {
          // What is left of a line belongs behind its beginning, which another file does not have.
          if (await followPath()) at = batch.lastIndexOf(NEWLINE, Math.max(0, at - 1)) + 1;
          at += await written(fd, batch, at);
          if (isFailing) log.info({ audit: target }, "the audit log is written again");
          isFailing = false;
        } catch (error) {
          if (!isFailing) log.error({ audit: target, error }, "the audit log cannot be written");
          isFailing = true;
          onFailure?.();
          if (isClosing) return;
          await retry();
        }
      }
    }
  }

  function retry(): Promise<void> {
    return new Promise((resolve) => {
      const cancel = clock.after(RETRY_MS, resolve);
      wake = () => {
        cancel();
        resolve();
      };
    });
  }

  /** Opens the file again if its path names another one; whether it does. */
  async function followPath(): Promise<boolean> {
    const ageMs = clock.now() - lookedAt;
    if (path === undefined || (ageMs >= 0 && ageMs < LOOK_MS && !isFailing)) return false;
    lookedAt = clock.now();
    if (
      (await fileOf((done) => stat(path, { bigint: true }, done))) ===
      (await fileOf((done) => fstat(fd, { bigint: true }, done)))
    )
      return false;
    const before = fd;
    fd = await new Promise<number>((resolve, reject) =>
      open(path, "a", OWN_ONLY, (error, opened) => (error ? reject(error) : resolve(opened))),
    );
    close(before, () => undefined);
    return true;
  }

  return {
    write(line) {
      if (lost > 0) addNote();
      if (lost > 0 || !add(line)) {
        lost += 1;
        onLost?.();
      }
      draining ??= drain().finally(() => {
        draining = undefined;
      });
    },
    async close() {
      addNote();
      isClosing = true;
      wake();
      await draining;
      if (waiting.length > 0) await drain();
      if (path !== undefined) close(fd, () => undefined);
    },
  };
}

function openNow(path: string): number {
  try {
    return openSync(path, "a", OWN_ONLY);
  } catch (cause) {
    throw new Error(
      `TENANCY_AUDIT: cannot open ${path}: ${cause instanceof Error ? cause.message : String(cause)}; make its ` +
        "folder, which the edge's user may write to",
      { cause },
    );
  }
}

function written(fd: number, bytes: Buffer, at: number): Promise<number> {
  return new Promise((resolve, reject) => {
    write(fd, bytes, at, bytes.length - at, null, (error, count) => (error ? reject(error) : resolve(count)));
  });
}

interface FileStats {
  readonly dev: bigint;
  readonly ino: bigint;
}

/** Identifies a file; undefined if there is none. */
function fileOf(
  ask: (done: (error: NodeJS.ErrnoException | null, stats: FileStats) => void) => void,
): Promise<string | undefined> {
  return new Promise((resolve, reject) => {
    ask((error, stats) => {
      if (error?.code === "ENOENT") resolve(undefined);
      else if (error) reject(error);
      else resolve(`${stats.dev}.${stats.ino}`);
    });
  });
}
