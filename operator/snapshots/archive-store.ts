import { createHash, randomBytes } from "node:crypto";
import type { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { type Clock, systemClock } from "../../crds/client/clock.ts";
import type { Exec } from "../../crds/client/exec/exec.ts";
import { annotation } from "../../crds/labels.ts";
import type { Log } from "../../crds/log.ts";
import { type ListedSnapshot, parseSnapshotList } from "../../crds/snapshots/parse-snapshot-list.ts";
import { checkSnapshotKey, type SnapshotKey } from "../../crds/snapshots/snapshot-key.ts";
import { parseSnapshotMetadata, type SnapshotMetadata } from "../../crds/snapshots/snapshot-metadata.ts";
import { snapshotPath } from "../../crds/snapshots/snapshot-path.ts";
import { type StoreFolder, storeCommand } from "../../crds/snapshots/store-folder.ts";
import { archiveDigits, NO_ARCHIVE, storeScripts, UNMARKED } from "../../crds/snapshots/store-scripts.ts";
import { createDeferred, type Deferred, onAbort } from "../../crds/waits.ts";
import { ArchiveError } from "./archive-error.ts";
import type { ArchiveSession, FoundArchive, NoneFound } from "./archive-session.ts";
import { createArchiveSource } from "./archive-source.ts";
import { collectOutput, ExecFailure } from "./exec-output.ts";
import { fedScript, feedCommand } from "./feed-command.ts";
import { END, frames } from "./frames.ts";
import { createHeldArchives } from "./held-archives.ts";
import type { VolumeMark } from "./volume-mark.ts";

const maxSilenceMs = 60_000;

/** A session that has not answered by then is not waited for. */
const SESSION_LIMIT_MS = 5000;

/** What a save knows of its archive; the store adds the rest. */
export type SnapshotDescription = Omit<SnapshotMetadata, "sha256" | "sizeBytes" | "tenantId" | "workloadRef">;

export interface StoreCall {
  readonly signal: AbortSignal;
  /** Milliseconds for the whole of it. */
  readonly timeoutMs: number;
}

/** An archive as a save finds it. */
export interface IdentifiedArchive {
  readonly sha256: string;
  readonly metadata: SnapshotMetadata | undefined;
}

export interface WriteCall extends StoreCall {
  /** Asked when the archive is at its end. */
  readonly describe: () => SnapshotDescription;
  /** SHA-256 of the one archive that it may replace; `none` where none may be there. @default whatever is there */
  readonly replaces?: string | undefined;
  /** Whether that one is kept as an older version. @default false */
  readonly keeps?: boolean | undefined;
}

/** The archives on the snapshots volume. Every call fails as `Exec` does, or with an `ExecFailure`. */
export interface ArchiveStore {
  /**
   * Stores an archive in the place of the one before, which stays as it is when anything fails.
   *
   * @param archive its bytes; a failure of it fails the call
   */
  write(key: SnapshotKey, archive: AsyncIterable<Uint8Array>, options: WriteCall): Promise<SnapshotMetadata>;
  /**
   * Writes an archive to a stream and ends it; a failure destroys the stream.
   *
   * @param options.sha256 which archive, the newest or an older version. @default the newest
   * @returns what was recorded of the archives that may be this one, of which one has its SHA-256; undefined when there is none
   * @throws ArchiveError when it is another tenant's
   */
  read(
    key: SnapshotKey,
    archive: Writable,
    options: StoreCall & { sha256?: string | undefined },
  ): Promise<SnapshotMetadata[] | undefined>;
  /**
   * What is beside the archive; undefined when there is no archive.
   *
   * @param options.version 16 digits of the SHA-256, or all, of the newest archive or an older version. @default the newest
   * @param options.brings whether a restore of it will follow at once. @default true
   * @throws ArchiveError when there is an archive without it, or another tenant's, or not that version
   */
  stat(
    key: SnapshotKey,
    options: StoreCall & { version?: string | undefined; brings?: boolean | undefined },
  ): Promise<SnapshotMetadata | undefined>;
  /**
   * Which archive is there: its SHA-256, and what is beside it where that fits.
   *
   * @throws ArchiveError when it is another tenant's
   */
  identify(key: SnapshotKey, options: StoreCall): Promise<IdentifiedArchive | undefined>;
  /** What is recorded of each newest archive, in no order. Archives beside which nothing is recorded that fits them are left out. */
  list(options: StoreCall): Promise<ListedSnapshot[]>;
  /**
   * Deletes the archive and its older versions.
   *
   * @param options.sha256 deletes them only when the newest is this one
   * @param options.unusedForSeconds deletes them only when nothing was written or touched for so long, by the volume's own clock
   * @returns false when there is none
   */
  delete(
    key: SnapshotKey,
    options: StoreCall & { sha256?: string | undefined; unusedForSeconds?: number | undefined },
  ): Promise<boolean>;
  /** Notes on archives that they are in use now; those that are not there stay so. */
  touch(keys: readonly SnapshotKey[], options: StoreCall): Promise<void>;
  /** What the volume has. */
  space(options: StoreCall): Promise<{ freeBytes: number; totalBytes: number }>;
  /** Deletes what saves left behind that were ended in the middle, more than a day ago. */
  tidy(options: StoreCall): Promise<void>;
  /** To be called when the volume is made anew: it may be empty. */
  forgetVolume(): void;
  /** Forgets what looks have brought along, and ends the session. */
  close(): void;
}

/** Keeps archives in a folder of a container, by commands run in it. */
export function createArchiveStore(options: {
  exec: Exec;
  folder: StoreFolder;
  /** Spares a look a command of its own, and the read of a small archive after it another. @default without */
  session?: ArchiveSession | undefined;
  /** What operators before this one have seen, and those after it will ask. @default it is not known */
  mark?: VolumeMark | undefined;
  clock?: Clock | undefined;
  log?: Log | undefined;
}): ArchiveStore {
  const { exec, folder, session, mark, clock = systemClock, log } = options;
  // Whether the volume has been seen with its mark
  // (docs/decisions/snapshots.md#a-volume-without-its-mark-is-not-believed), and whether that is written down.
  let isMarked = false;
  let isRemembered = false;
  const held = createHeldArchives<IdentifiedArchive & { readonly found: FoundArchive }>({ clock });

  async function run(script: string, words: readonly string[], { signal, timeoutMs }: StoreCall): Promise<Answer> {
    const target = storeCommand(folder, { script, words, limitMs: timeoutMs });
    return await collectOutput(exec, { target, signal, timeoutMs });
  }

  /** The session's answer, or, where it has none, that of a command of its own: what the session fails with is never taken for an answer. */
  async function look(
    key: SnapshotKey,
    { version, brings, signal, timeoutMs }: Look,
  ): Promise<FoundArchive | NoneFound> {
    const began = clock.now();
    if (session !== undefined) {
      const limitMs = Math.min(SESSION_LIMIT_MS, timeoutMs / 2);
      try {
        const answer = await session.look(key, { version, brings, signal, timeoutMs: limitMs });
        if (answer.kind !== "found" || candidates(answer).length > 0) return answer;
      } catch {
        // What it failed with, the command finds too, and has the words for.
        signal.throwIfAborted();
      }
    }
    const call = { signal, timeoutMs: timeoutMs - (clock.now() - began) };
    const answer = await run(storeScripts.stat, [key.tenantId, key.workloadRef, version ?? ""], call);
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
      log?.warn({ error }, "cannot record the volume mark on the snapshots volume claim");
    });
  }

  async function digestOf(key: SnapshotKey, brought: FoundArchive["archive"], call: Look): Promise<string> {
    const archive = await unlessCut(brought, call.signal);
    if (archive !== undefined) return createHash("sha256").update(archive).digest("hex");
    const answer = await run(storeScripts.digest, [key.tenantId, key.workloadRef, call.version ?? ""], call);
    if (answer.exitCode !== 0) throw failure("read the archive", answer);
    return answer.stdout.slice(0, 64);
  }

  /** Which archive is there, and what the look at it has brought along. */
  async function identify(key: SnapshotKey, call: Look) {
    const found = await look(key, call);
    if (found.kind === "unmarked" && (await wasMarked(call.signal))) {
      const why = `the mark that was on the volume is gone, so it is another. Should that be meant, take the annotation ${annotation.volumeMarked} from its claim and restart the operator`;
      throw new ExecFailure(`Cannot look at the archive: ${why}`, { exitCode: UNMARKED });
    }
    // An archive says nothing of the mark: it may be older than marks are.
    if (found.kind === "none") noteMark();
    if (found.kind !== "found") return undefined;
    const recorded = candidates(found);
    const [only] = recorded;
    const sha256 = only !== undefined && recorded.length === 1 ? only.sha256 : await digestOf(key, found.archive, call);
    const metadata = recorded.find((record) => record.sha256 === sha256);
    if (metadata !== undefined && !isOf(key, metadata)) throw foreign(key, metadata);
    return { found, sha256, metadata };
  }

  /** Where the archive is that has this SHA-256: the newest, or an older version. Undefined when it is not there any more. */
  async function locate(key: SnapshotKey, sha256: string, call: Look): Promise<{ version: string } | undefined> {
    for (const version of ["", archiveDigits(sha256)]) {
      const found = await identify(key, { ...call, version });
      if (found?.sha256 === sha256) return { version };
    }
    return undefined;
  }

  async function readLocated(
    key: SnapshotKey,
    archive: Writable,
    { version, signal, timeoutMs }: StoreCall & { version: string },
  ): Promise<SnapshotMetadata[] | undefined> {
    const words = [key.tenantId, key.workloadRef, version];
    const target = storeCommand(folder, { script: storeScripts.read, words, limitMs: timeoutMs });
    const source = createArchiveSource(archive);
    const { stdin, stdout } = source;
    try {
      const { exitCode, stderr } = await exec({ ...target, stdin, stdout, signal, timeoutMs, maxSilenceMs });
      if (exitCode === NO_ARCHIVE) return undefined;
      if (exitCode !== 0) throw failure("read the archive", { exitCode, stderr });
      return (await source.end()).filter((recorded) => isOf(key, recorded));
    } catch (error) {
      throw archive.errored ?? stdout.errored ?? error;
    }
  }

  async function noVersion(key: SnapshotKey, version: string, call: StoreCall): Promise<ArchiveError> {
    const all = await list({ folder: `./${key.tenantId}`, depth: "3" }, call);
    const [newest, older] = [true, false].map((isNewest) =>
      all
        .filter((listed) => isOf(key, listed) && (listed.version === undefined) === isNewest)
        .map(({ sha256, createdAt }) => `${archiveDigits(sha256)} of ${createdAt}${isNewest ? " (the newest)" : ""}`),
    );
    const there = [...(newest ?? []), ...(older ?? []).sort()];
    const has = there.length === 0 ? "there is none" : `there are ${there.join(", ")}`;
    return new ArchiveError("NoVersion", `there is no version ${version} of it: ${has}`);
  }

  async function list({ folder: from, depth }: { folder: string; depth: string }, call: StoreCall) {
    const answer = await run(storeScripts.list, [from, depth], call);
    if (answer.exitCode !== 0) throw failure("list the archives", answer);
    const listed = parseSnapshotList(answer.stdout);
    if (listed === undefined)
      throw failure("list the archives", { ...answer, stderr: "the list came without its end" });
    return listed.snapshots;
  }

  return {
    async write(key, archive, { describe, replaces, keeps = false, signal, timeoutMs }) {
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
      const over = [replaces === undefined ? "" : archiveDigits(replaces), keeps ? "keep" : ""];
      const words = [key.tenantId, key.workloadRef, randomBytes(4).toString("hex"), expected, ...over];
      const target = storeCommand(folder, { script: fedScript(storeScripts.write), words, limitMs: timeoutMs });
      await feedCommand({ exec, target, what: "store the archive", input: input(), signal, timeoutMs });
      if (metadata === undefined) throw new Error("Cannot store the archive: it was stored before it was sent");
      noteMark();
      return metadata;
    },

    async read(key, archive, { sha256, signal, timeoutMs }) {
      checkSnapshotKey(key);
      try {
        const taken = held.take(key);
        const wanted = sha256 ?? taken?.sha256;
        // Which of several records of one size is the archive's is told by the archive itself.
        const brings = taken !== undefined && candidates(taken.found).length > 1;
        const located =
          wanted === undefined ? Promise.resolve({ version: "" }) : locate(key, wanted, { brings, signal, timeoutMs });
        located.catch(ignore);
        if (taken !== undefined && taken.sha256 === wanted) {
          const brought = await unlessCut(taken.found.archive, signal);
          // What was erased since is not given back: that it is there still is found out while it is on its way.
          if (brought !== undefined) {
            const [there] = await Promise.all([located, pipeline([brought], archive, { signal })]);
            return there === undefined ? undefined : own(key, taken.found.lines);
          }
        }
        const there = await located;
        const recorded = there && (await readLocated(key, archive, { ...there, signal, timeoutMs }));
        if (recorded === undefined) archive.destroy();
        return recorded;
      } catch (error) {
        // Whoever reads the stream waits for its end.
        const first = archive.errored ?? error;
        archive.destroy(first as Error);
        throw first;
      }
    },

    async stat(key, { version, brings = true, ...call }) {
      checkSnapshotKey(key);
      // What an earlier look has brought may be another archive.
      if (brings) held.take(key);
      const newest = await identify(key, { ...call, brings });
      const isNewest = version === undefined || newest?.sha256.startsWith(version) === true;
      const found = isNewest ? newest : await identify(key, { ...call, brings, version: archiveDigits(version) });
      if (version !== undefined && found?.sha256.startsWith(version) !== true)
        throw await noVersion(key, version, call);
      if (found === undefined) return undefined;
      if (brings && found.found.archive !== undefined) held.hold(key, found);
      if (found.metadata !== undefined) return found.metadata;
      throw new ArchiveError("Corrupt", "the archive has changed: nothing that was recorded beside it fits it");
    },

    async identify(key, call) {
      checkSnapshotKey(key);
      return await identify(key, { ...call, brings: false });
    },

    list: (call) => list({ folder: ".", depth: "2" }, call),

    async delete(key, { sha256 = "", unusedForSeconds, ...call }) {
      checkSnapshotKey(key);
      held.take(key);
      const only = [archiveDigits(sha256), unusedForSeconds === undefined ? "" : String(Math.ceil(unusedForSeconds))];
      const answer = await run(storeScripts.delete, [key.tenantId, key.workloadRef, ...only], call);
      if (answer.exitCode !== 0 && answer.exitCode !== NO_ARCHIVE) throw failure("delete the archive", answer);
      return answer.exitCode === 0;
    },

    async space(call) {
      const answer = await run(storeScripts.space, [], call);
      const [, free, total, block] = /^(\d+) (\d+) (\d+)\n$/.exec(answer.stdout) ?? [];
      if (block === undefined) throw failure("look at the snapshots volume", answer);
      return { freeBytes: Number(free) * Number(block), totalBytes: Number(total) * Number(block) };
    },

    async touch(keys, call) {
      for (const key of keys) checkSnapshotKey(key);
      const words = keys.flatMap(({ tenantId, workloadRef }) => [tenantId, workloadRef]);
      const answer = await run(storeScripts.touch, words, call);
      if (answer.exitCode !== 0) throw failure("note that archives are in use", answer);
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
      session?.close();
    },
  };
}

/** A look at the newest archive, or at the older version of those digits. */
interface Look extends StoreCall {
  readonly version?: string | undefined;
  readonly brings?: boolean | undefined;
}

/** A volume that ignores case has one place for the archives of two tenants. */
function isOf(key: SnapshotKey, { tenantId, workloadRef }: SnapshotKey): boolean {
  return tenantId === key.tenantId && workloadRef === key.workloadRef;
}

function foreign(key: SnapshotKey, { tenantId, workloadRef }: SnapshotKey): ArchiveError {
  const whose = `of tenant "${tenantId}" and workload "${workloadRef}"`;
  const message = `${snapshotPath(key)} is ${whose}, not of "${key.tenantId}" and "${key.workloadRef}": the volume may ignore case, so rename the tenant or use another volume`;
  return new ArchiveError("Foreign", message);
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

function own(key: SnapshotKey, lines: readonly string[]): SnapshotMetadata[] {
  return parseLines(lines).filter((recorded) => isOf(key, recorded));
}

function parseLines(lines: readonly string[]): SnapshotMetadata[] {
  return lines.map(parseSnapshotMetadata).filter((found) => found !== undefined);
}

function ignore(): void {
  // The failure is thrown where it is waited for.
}

interface Answer {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

function failure(what: string, { exitCode, stderr }: Omit<Answer, "stdout">): ExecFailure {
  return new ExecFailure(`Cannot ${what}: ${stderr.trim() || `exit code ${exitCode}`}`, { exitCode });
}
