import { createHash, randomBytes } from "node:crypto";
import type { Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { ArchiveError } from "../../crds/archive/archive-error.ts";
import { systemClock } from "../../crds/client/clock.ts";
import { type ListedSnapshot, parseSnapshotList } from "../../crds/snapshots/parse-snapshot-list.ts";
import { checkSnapshotKey, type SnapshotKey } from "../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../crds/snapshots/snapshot-metadata.ts";
import { storeCommand } from "../../crds/snapshots/store-folder.ts";
import { archiveDigits, NO_ARCHIVE, storeScripts } from "../../crds/snapshots/store-scripts.ts";
import {
  type ArchiveLookupOptions,
  candidates,
  createArchiveLookup,
  failure,
  type IdentifiedArchive,
  isOf,
  type LookedUpArchive,
  parseLines,
  type StoreCall,
  unlessCut,
} from "./archive-lookup.ts";
import { createArchiveSource } from "./archive-source.ts";
import { fedScript, feedCommand } from "./feed-command.ts";
import { END, frames } from "./frames.ts";
import { createHeldArchives } from "./held-archives.ts";

const maxSilenceMs = 60_000;

/** What a save knows of its archive; the store adds the rest. */
export type SnapshotDescription = Omit<SnapshotMetadata, "sha256" | "sizeBytes" | "tenantId" | "workloadRef">;

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
   * @returns what was recorded of the archives that may be this one, of which one has its SHA-256; undefined when there
   *   is none
   * @throws ArchiveError when it is another tenant's
   */
  read(
    key: SnapshotKey,
    archive: Writable,
    options: StoreCall & { sha256?: string | undefined },
  ): Promise<SnapshotMetadata[] | undefined>;
  /**
   * The archive's metadata; undefined when there is no archive.
   *
   * @param options.version 16 digits of the SHA-256, or all, of the newest archive or an older version.
   *   @default the newest
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
  /**
   * What is recorded of each newest archive, in no order. Archives beside which nothing is recorded that fits them are
   * left out.
   */
  list(options: StoreCall): Promise<ListedSnapshot[]>;
  /**
   * Deletes the archive and its older versions.
   *
   * @param options.sha256 deletes them only when the newest is this one
   * @param options.unusedForSeconds deletes them only when nothing was written or touched for so long, by the volume's
   *   own clock
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
export function createArchiveStore(options: ArchiveLookupOptions): ArchiveStore {
  const { exec, folder, session, mark, clock = systemClock, log } = options;
  const lookup = createArchiveLookup({ exec, folder, session, mark, clock, log });
  const { run, locate } = lookup;
  const held = createHeldArchives<LookedUpArchive>({ clock });

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
      const expected = (await lookup.wasMarked(signal)) ? "marked" : "";
      const over = [replaces === undefined ? "" : archiveDigits(replaces), keeps ? "keep" : ""];
      const words = [key.tenantId, key.workloadRef, randomBytes(4).toString("hex"), expected, ...over];
      const target = storeCommand(folder, { script: fedScript(storeScripts.write), words, limitMs: timeoutMs });
      await feedCommand({ exec, target, what: "store the archive", input: input(), signal, timeoutMs });
      if (metadata === undefined) throw new Error("Cannot store the archive: it was stored before it was sent");
      lookup.noteMark();
      return metadata;
    },

    async read(key, archive, { sha256, signal, timeoutMs }) {
      checkSnapshotKey(key);
      try {
        const taken = held.take(key);
        const wanted = sha256 ?? taken?.sha256;
        // Only the archive itself says which of several records of one size is its own.
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
      const newest = await lookup.identify(key, { ...call, brings });
      const isNewest = version === undefined || newest?.sha256.startsWith(version) === true;
      const found = isNewest
        ? newest
        : await lookup.identify(key, { ...call, brings, version: archiveDigits(version) });
      if (version !== undefined && found?.sha256.startsWith(version) !== true)
        throw await noVersion(key, version, call);
      if (found === undefined) return undefined;
      if (brings && found.found.archive !== undefined) held.hold(key, found);
      if (found.metadata !== undefined) return found.metadata;
      throw new ArchiveError("Corrupt", "the archive has changed: nothing that was recorded beside it fits it");
    },

    async identify(key, call) {
      checkSnapshotKey(key);
      return await lookup.identify(key, { ...call, brings: false });
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

    forgetVolume: lookup.forgetVolume,

    close() {
      held.clear();
      session?.close();
    },
  };
}

function own(key: SnapshotKey, lines: readonly string[]): SnapshotMetadata[] {
  return parseLines(lines).filter((recorded) => isOf(key, recorded));
}

function ignore(): void {
  // The failure is thrown where it is waited for.
}
