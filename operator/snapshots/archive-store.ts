import { createHash, randomBytes } from "node:crypto";
import type { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { type Clock, systemClock } from "../../crds/client/clock.ts";
import { createDeferred, type Deferred } from "../../crds/client/deferred.ts";
import type { Exec } from "../../crds/client/exec.ts";
import { onAbort } from "../../crds/client/on-abort.ts";
import { annotation } from "../../crds/labels.ts";
import type { Log } from "../../crds/log.ts";
import { parseSnapshotList } from "../../crds/snapshots/parse-snapshot-list.ts";
import { checkSnapshotKey, type SnapshotKey } from "../../crds/snapshots/snapshot-key.ts";
import { parseSnapshotMetadata, type SnapshotMetadata } from "../../crds/snapshots/snapshot-metadata.ts";
import { type StoreFolder, storeCommand } from "../../crds/snapshots/store-folder.ts";
import { NO_ARCHIVE, storeScripts, UNMARKED } from "../../crds/snapshots/store-scripts.ts";
import type { ArchiveDesk, FoundArchive, NoneFound } from "./archive-desk.ts";
import { ArchiveError } from "./archive-error.ts";
import { createArchiveSource } from "./archive-source.ts";
import { collectOutput } from "./collect-output.ts";
import { ExecFailure } from "./exec-failure.ts";
import { fedScript } from "./fed-script.ts";
import { feedCommand } from "./feed-command.ts";
import { END, frames } from "./frames.ts";
import { createHeldArchives } from "./held-archives.ts";
import type { VolumeMark } from "./volume-mark.ts";

const maxSilenceMs = 60_000;

/** A desk that has not answered by then is not waited for. */
const DESK_LIMIT_MS = 5000;

/** What a save knows of its archive; the store adds the rest. */
export type SnapshotDescription = Omit<SnapshotMetadata, "sha256" | "sizeBytes" | "tenantId" | "workloadRef">;

export interface StoreCall {
  readonly signal: AbortSignal;
  /** Milliseconds for the whole of it. */
  readonly timeoutMs: number;
}

/** The archives on the snapshots volume (spec.md, section 2.5). Every call fails as `Exec` does, or with an `ExecFailure`. */
export interface ArchiveStore {
  /**
   * Stores an archive in the place of the one before, which stays as it is when anything fails.
   *
   * @param archive its bytes; a failure of it fails the call
   * @param describe asked when the archive is at its end
   */
  write(
    key: SnapshotKey,
    archive: AsyncIterable<Uint8Array>,
    options: StoreCall & { describe: () => SnapshotDescription },
  ): Promise<SnapshotMetadata>;
  /**
   * Writes an archive to a stream and ends it; a failure destroys the stream.
   *
   * @returns what was recorded of the archives that may be this one, of which one has its SHA-256; undefined when there is none
   */
  read(key: SnapshotKey, archive: Writable, options: StoreCall): Promise<SnapshotMetadata[] | undefined>;
  /**
   * What is beside the archive; undefined when there is no archive.
   *
   * @throws ArchiveError when there is an archive without it
   */
  stat(key: SnapshotKey, options: StoreCall): Promise<SnapshotMetadata | undefined>;
  /** What is recorded of each archive, in no order. Archives beside which nothing is recorded that fits them are left out. */
  list(options: StoreCall): Promise<SnapshotMetadata[]>;
  /**
   * @param options.sha256 deletes the archive only when it is this one
   * @returns false when there is none
   */
  delete(key: SnapshotKey, options: StoreCall & { sha256?: string | undefined }): Promise<boolean>;
  /** What the volume has. */
  space(options: StoreCall): Promise<{ freeBytes: number; totalBytes: number }>;
  /** Deletes what saves left behind that were ended in the middle, more than a day ago. */
  tidy(options: StoreCall): Promise<void>;
  /** To be called when the volume is made anew: it may be empty. */
  forgetVolume(): void;
  /** Forgets what looks have brought along, and ends the desk. */
  close(): void;
}

/** Keeps archives in a folder of a container, by commands run in it. */
export function createArchiveStore(options: {
  exec: Exec;
  folder: StoreFolder;
  /** Spares a look a command of its own, and the read of a small archive after it another. @default without */
  desk?: ArchiveDesk | undefined;
  /** What operators before this one have seen, and those after it will ask. @default it is not known */
  mark?: VolumeMark | undefined;
  clock?: Clock | undefined;
  log?: Log | undefined;
}): ArchiveStore {
  const { exec, folder, desk, mark, clock = systemClock, log } = options;
  // Whether the volume has been seen with its mark (docs/decisions/624), and whether that is written down.
  let isMarked = false;
  let isRemembered = false;
  const held = createHeldArchives<FoundArchive>({ clock });

  async function run(script: string, words: readonly string[], { signal, timeoutMs }: StoreCall): Promise<Answer> {
    const target = storeCommand(folder, { script, words, limitMs: timeoutMs });
    return await collectOutput(exec, { target, signal, timeoutMs });
  }

  /** The desk's answer, or, where it has none, that of a command of its own: what the desk fails with is never taken for an answer. */
  async function look(key: SnapshotKey, { signal, timeoutMs }: StoreCall): Promise<FoundArchive | NoneFound> {
    const began = clock.now();
    if (desk !== undefined) {
      const limitMs = Math.min(DESK_LIMIT_MS, timeoutMs / 2);
      try {
        const answer = await desk.look(key, { signal, timeoutMs: limitMs });
        if (answer.kind !== "found" || candidates(answer).length > 0) return answer;
      } catch {
        // What it failed with, the command finds too, and has the words for.
        signal.throwIfAborted();
      }
    }
    const call = { signal, timeoutMs: timeoutMs - (clock.now() - began) };
    const answer = await run(storeScripts.stat, [key.tenantId, key.workloadRef], call);
    if (answer.exitCode === NO_ARCHIVE) return { kind: "none" };
    if (answer.exitCode === UNMARKED) return { kind: "unmarked" };
    const [size = "", ...lines] = answer.stdout.split("\n");
    if (answer.exitCode !== 0 && lines.length === 0) throw failure("look at the archive", answer);
    return { kind: "found", sizeBytes: Number(size), lines, archive: undefined };
  }

  async function wasMarked(signal: AbortSignal): Promise<boolean> {
    return isMarked || (await mark?.wasSeen(signal)) === true;
  }

  /** Never waited for: what was saved or found is so without it, and the next time tries again. */
  function noteMark(): void {
    isMarked = true;
    if (isRemembered) return;
    isRemembered = true;
    mark?.remember().catch((error: unknown) => {
      isRemembered = false;
      log?.warn({ error }, "that the snapshots volume has its mark could not be written to its claim");
    });
  }

  async function digestOf(key: SnapshotKey, brought: FoundArchive["archive"], call: StoreCall): Promise<string> {
    const archive = await unlessCut(brought, call.signal);
    if (archive !== undefined) return createHash("sha256").update(archive).digest("hex");
    const answer = await run(storeScripts.digest, [key.tenantId, key.workloadRef], call);
    if (answer.exitCode !== 0) throw failure("read the archive", answer);
    return answer.stdout.slice(0, 64);
  }

  return {
    async write(key, archive, { describe, signal, timeoutMs }) {
      checkSnapshotKey(key);
      held.take(key);
      const hash = createHash("sha256");
      let sizeBytes = 0;
      let metadata: SnapshotMetadata | undefined;
      async function* input(): AsyncGenerator<Uint8Array> {
        yield* frames(archive, (frame) => {
          hash.update(frame);
          sizeBytes += frame.length;
        });
        const { tenantId, workloadRef } = key;
        metadata = { sha256: hash.digest("hex"), sizeBytes, tenantId, workloadRef, ...describe() };
        yield Buffer.concat([END, Buffer.from(`${metadata.sha256}\n${JSON.stringify(metadata)}\n`)]);
      }
      const expected = (await wasMarked(signal)) ? "marked" : "";
      const words = [key.tenantId, key.workloadRef, randomBytes(4).toString("hex"), expected];
      const target = storeCommand(folder, { script: fedScript(storeScripts.write), words, limitMs: timeoutMs });
      await feedCommand({ exec, target, what: "store the archive", input: input(), signal, timeoutMs });
      if (metadata === undefined) throw new Error("Cannot store the archive: it was stored before it was sent");
      noteMark();
      return metadata;
    },

    async read(key, archive, { signal, timeoutMs }) {
      checkSnapshotKey(key);
      const taken = held.take(key);
      const brought = await unlessCut(taken?.archive, signal);
      if (taken !== undefined && brought !== undefined) {
        await pipeline([brought], archive, { signal });
        return parseLines(taken.lines);
      }
      const words = [key.tenantId, key.workloadRef];
      const target = storeCommand(folder, { script: storeScripts.read, words, limitMs: timeoutMs });
      const source = createArchiveSource(archive);
      const { stdin, stdout } = source;
      try {
        const { exitCode, stderr } = await exec({ ...target, stdin, stdout, signal, timeoutMs, maxSilenceMs });
        if (exitCode !== 0 && exitCode !== NO_ARCHIVE) throw failure("read the archive", { exitCode, stderr });
        if (exitCode === 0) return await source.end();
        archive.destroy();
        return undefined;
      } catch (error) {
        const first = archive.errored ?? stdout.errored ?? error;
        archive.destroy(first as Error);
        throw first;
      }
    },

    async stat(key, call) {
      checkSnapshotKey(key);
      // What an earlier look has brought may be another archive.
      held.take(key);
      const found = await look(key, call);
      if (found.kind === "unmarked" && (await wasMarked(call.signal))) {
        const why = `the mark that was on the volume is gone, so it is another. Should that be meant, take the annotation ${annotation.volumeMarked} from its claim and restart the operator`;
        throw new ExecFailure(`Cannot look at the archive: ${why}`, { exitCode: UNMARKED });
      }
      // An archive says nothing of the mark: it may be older than marks are.
      if (found.kind === "none") noteMark();
      if (found.kind !== "found") return undefined;
      if (found.archive !== undefined) held.hold(key, found);
      const recorded = candidates(found);
      if (recorded.length === 1) return recorded[0];
      const digest = await digestOf(key, found.archive, call);
      const exact = recorded.find(({ sha256 }) => sha256 === digest);
      if (exact !== undefined) return exact;
      throw new ArchiveError("Corrupt", "the archive has changed: nothing that was recorded beside it fits it");
    },

    async list(call) {
      const answer = await run(storeScripts.list, [], call);
      if (answer.exitCode !== 0) throw failure("list the archives", answer);
      const list = parseSnapshotList(answer.stdout);
      if (list === undefined)
        throw failure("list the archives", { ...answer, stderr: "the list came without its end" });
      return list.snapshots;
    },

    async delete(key, { sha256 = "", ...call }) {
      checkSnapshotKey(key);
      held.take(key);
      const answer = await run(storeScripts.delete, [key.tenantId, key.workloadRef, sha256], call);
      if (answer.exitCode !== 0 && answer.exitCode !== NO_ARCHIVE) throw failure("delete the archive", answer);
      return answer.exitCode === 0;
    },

    async space(call) {
      const answer = await run(storeScripts.space, [], call);
      const [, free, total, block] = /^(\d+) (\d+) (\d+)\n$/.exec(answer.stdout) ?? [];
      if (block === undefined) throw failure("look at the snapshots volume", answer);
      return { freeBytes: Number(free) * Number(block), totalBytes: Number(total) * Number(block) };
    },

    async tidy(call) {
      const answer = await run(storeScripts.tidy, [], call);
      if (answer.exitCode !== 0) throw failure("tidy the snapshots volume", answer);
    },

    forgetVolume() {
      isMarked = false;
      isRemembered = false;
    },

    close() {
      held.clear();
      desk?.close();
    },
  };
}

/** What is recorded of archives of that size. */
function candidates({ lines, sizeBytes }: FoundArchive): SnapshotMetadata[] {
  return parseLines(lines).filter((recorded) => recorded.sizeBytes === sizeBytes);
}

/** The archive that a look has brought; undefined when it was cut off on its way, since it can still be read anew. */
async function unlessCut(archive: Promise<Buffer> | undefined, signal: AbortSignal): Promise<Buffer | undefined> {
  signal.throwIfAborted();
  const aborted: Deferred<never> = createDeferred();
  const ignoreAbort = onAbort(signal, () => aborted.reject(signal.reason));
  try {
    return await Promise.race([archive, aborted.promise]);
  } catch {
    signal.throwIfAborted();
    return undefined;
  } finally {
    ignoreAbort();
  }
}

function parseLines(lines: readonly string[]): SnapshotMetadata[] {
  return lines.map(parseSnapshotMetadata).filter((found) => found !== undefined);
}

interface Answer {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

function failure(what: string, { exitCode, stderr }: Omit<Answer, "stdout">): ExecFailure {
  return new ExecFailure(`Cannot ${what}: ${stderr.trim() || `exit code ${exitCode}`}`, { exitCode });
}
