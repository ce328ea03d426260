import { createHash } from "node:crypto";
import { ArchiveError } from "../../crds/archive/archive-error.ts";
import { type Clock, systemClock } from "../../crds/client/clock.ts";
import type { Exec } from "../../crds/client/exec/exec.ts";
import { annotation } from "../../crds/labels.ts";
import type { Log } from "../../crds/log.ts";
import { type SnapshotKey, snapshotPath } from "../../crds/snapshots/snapshot-key.ts";
import { parseSnapshotMetadata, type SnapshotMetadata } from "../../crds/snapshots/snapshot-metadata.ts";
import { type StoreFolder, storeCommand } from "../../crds/snapshots/store-folder.ts";
import { archiveDigits, NO_ARCHIVE, storeScripts, UNMARKED } from "../../crds/snapshots/store-scripts.ts";
import { createDeferred, type Deferred, onAbort } from "../../crds/waits.ts";
import type { ArchiveSession, FoundArchive, NoneFound } from "./archive-session.ts";
import { collectOutput, ExecFailure } from "./exec-output.ts";
import type { VolumeMark } from "./volume-mark.ts";

/** A session that has not answered by then is not waited for. */
const SESSION_LIMIT_MS = 5000;

/** A call of the store. */
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

/** An archive with what the lookup has brought along. */
export interface LookedUpArchive extends IdentifiedArchive {
  readonly found: FoundArchive;
}

export interface ArchiveLookupOptions {
  exec: Exec;
  folder: StoreFolder;
  /** Spares a look a command of its own, and the read of a small archive after it another. @default without */
  session?: ArchiveSession | undefined;
  /** What operators before this one have seen, and those after it will ask. @default it is not known */
  mark?: VolumeMark | undefined;
  clock?: Clock | undefined;
  log?: Log | undefined;
}

/** For the newest archive, or for the older version of those digits. */
export interface LookupCall extends StoreCall {
  readonly version?: string | undefined;
  readonly brings?: boolean | undefined;
}

export interface ScriptAnswer {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/**
 * Finds out which archives the snapshots volume has. Never takes a failure for an answer, nor another volume for an
 * empty one.
 */
export interface ArchiveLookup {
  /**
   * Which archive is there, and what the lookup has brought along.
   *
   * @throws ArchiveError when it is another tenant's
   * @throws ExecFailure when the volume is not the one that was seen before
   */
  identify(key: SnapshotKey, call: LookupCall): Promise<LookedUpArchive | undefined>;
  /**
   * Where the archive is that has this SHA-256: the newest, or an older version. Undefined when it is not there any
   * more.
   */
  locate(key: SnapshotKey, sha256: string, call: LookupCall): Promise<{ version: string } | undefined>;
  /**
   * Whether the volume has been seen with its mark
   * (docs/decisions/snapshots.md#a-volume-without-its-mark-is-not-believed).
   */
  wasMarked(signal: AbortSignal): Promise<boolean>;
  /**
   * The volume has its mark. Never waited for: what was saved or found is so without it, and the next time tries again.
   */
  noteMark(): void;
  /** Forgets the mark, where the volume is made anew. */
  forgetVolume(): void;
  /** Runs one of the store's scripts. */
  run(script: string, words: readonly string[], call: StoreCall): Promise<ScriptAnswer>;
}

/** Looks through the session, or where that has no answer by a command of its own. */
export function createArchiveLookup(options: ArchiveLookupOptions): ArchiveLookup {
  const { exec, folder, session, mark, clock = systemClock, log } = options;
  // Whether the volume has been seen with its mark, and whether that is written down.
  let isMarked = false;
  let isRemembered = false;

  async function run(
    script: string,
    words: readonly string[],
    { signal, timeoutMs }: StoreCall,
  ): Promise<ScriptAnswer> {
    const target = storeCommand(folder, { script, words, limitMs: timeoutMs });
    return await collectOutput(exec, { target, signal, timeoutMs });
  }

  /**
   * The session's answer, or, where it has none, that of a command of its own: what the session fails with is never
   * taken for an answer.
   */
  async function look(
    key: SnapshotKey,
    { version, brings, signal, timeoutMs }: LookupCall,
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

  function noteMark(): void {
    isMarked = true;
    if (isRemembered) return;
    isRemembered = true;
    mark?.remember().catch((error: unknown) => {
      isRemembered = false;
      log?.warn({ error }, "cannot record the volume mark on the snapshots volume claim");
    });
  }

  async function digestOf(key: SnapshotKey, brought: FoundArchive["archive"], call: LookupCall): Promise<string> {
    const archive = await unlessCut(brought, call.signal);
    if (archive !== undefined) return createHash("sha256").update(archive).digest("hex");
    const answer = await run(storeScripts.digest, [key.tenantId, key.workloadRef, call.version ?? ""], call);
    if (answer.exitCode !== 0) throw failure("read the archive", answer);
    return answer.stdout.slice(0, 64);
  }

  async function identify(key: SnapshotKey, call: LookupCall): Promise<LookedUpArchive | undefined> {
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

  async function locate(key: SnapshotKey, sha256: string, call: LookupCall): Promise<{ version: string } | undefined> {
    for (const version of ["", archiveDigits(sha256)]) {
      const found = await identify(key, { ...call, version });
      if (found?.sha256 === sha256) return { version };
    }
    return undefined;
  }

  return {
    identify,
    locate,
    wasMarked,
    noteMark,
    run,
    forgetVolume() {
      isMarked = false;
      isRemembered = false;
    },
  };
}

/** A volume that ignores case has one place for the archives of two tenants. */
export function isOf(key: SnapshotKey, { tenantId, workloadRef }: SnapshotKey): boolean {
  return tenantId === key.tenantId && workloadRef === key.workloadRef;
}

/** What is recorded of archives of that size. */
export function candidates({ lines, sizeBytes }: FoundArchive): SnapshotMetadata[] {
  return parseLines(lines).filter((recorded) => recorded.sizeBytes === sizeBytes);
}

/** What can be read of what is recorded beside an archive. */
export function parseLines(lines: readonly string[]): SnapshotMetadata[] {
  return lines.map(parseSnapshotMetadata).filter((found) => found !== undefined);
}

/** The archive that a look has brought; undefined when it was cut off on its way, since it can still be read anew. */
export async function unlessCut(
  archive: Promise<Buffer> | undefined,
  signal: AbortSignal,
): Promise<Buffer | undefined> {
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

/** What a script that failed is reported as. */
export function failure(what: string, { exitCode, stderr }: Omit<ScriptAnswer, "stdout">): ExecFailure {
  return new ExecFailure(`Cannot ${what}: ${stderr.trim() || `exit code ${exitCode}`}`, { exitCode });
}

function foreign(key: SnapshotKey, { tenantId, workloadRef }: SnapshotKey): ArchiveError {
  const whose = `of tenant "${tenantId}" and workload "${workloadRef}"`;
  const message = `${snapshotPath(key)} is ${whose}, not of "${key.tenantId}" and "${key.workloadRef}": the volume may ignore case, so rename the tenant or use another volume`;
  return new ArchiveError("Foreign", message);
}
