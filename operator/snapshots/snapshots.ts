import { ArchiveError } from "../../crds/archive/archive-error.ts";
import { archiveLimits } from "../../crds/archive/archive-limits.ts";
import { overlayRoots } from "../../crds/archive/overlay-roots.ts";
import type { Exec } from "../../crds/client/exec/exec.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation, WORKLOAD_CONTAINER } from "../../crds/labels.ts";
import type { Log } from "../../crds/log.ts";
import { podFiles } from "../../crds/snapshots/pod-files.ts";
import type { SnapshotKey } from "../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../crds/snapshots/snapshot-metadata.ts";
import {
  type KeptAs,
  type KeptSnapshots,
  type MostKept,
  type OpenArchive,
  type SnapshotStore,
  type StoreCall,
  StoreConflict,
  StoreError,
  type StoreUse,
} from "../../crds/snapshots/snapshot-store.ts";
import type { StoreMark } from "../../crds/snapshots/store-mark.ts";
import type { PageFilter, StorePage } from "../../crds/snapshots/store-pages.ts";
import { launchedProgram } from "../launcher/launch-command.ts";
import { type Stopped, stopProgram } from "../launcher/stop-program.ts";
import { createArchiveLooks } from "./archive-looks.ts";
import { POD_PACE } from "./pods/overlay-pod.ts";
import { TOOLS_CONTAINER } from "./pods/pod-tools.ts";
import { runPreSave } from "./pods/pre-save.ts";
import { restoreCommand } from "./pods/restore-command.ts";
import { MOST_RESTORE_OUTPUT_BYTES, type RestoredSnapshot, restoreOverlay } from "./pods/restore-overlay.ts";
import { saveOverlay } from "./pods/save-overlay.ts";
import { createUnchangedCheck } from "./pods/unchanged-files.ts";
import { createRefusedSaves } from "./refused-saves.ts";
import { createRestoredArchives } from "./restored-archives.ts";
import { type ArchiveRoom, checkArchiveSize } from "./streams/archive-room.ts";
import { createPrestartedCommands } from "./streams/prestarted-commands.ts";
import { createTransferHeap } from "./streams/transfer-heap.ts";

// For calls that only read metadata or rename a file.
const LOOK_LIMIT_MS = 20_000;
const LIST_LIMIT_MS = 120_000;
/** With a million tenants, each folder is read. */
const TIDY_LIMIT_MS = 3_600_000;

/** The result of a save. */
export interface SavedSnapshot extends SnapshotMetadata {
  /** The previous archive, if it stays as an older version because the session did not resume from it. */
  readonly replaced?: SnapshotMetadata;
  /** Whether no file has changed since the restore, so that the restored archive stays the newest. */
  readonly isUnchanged?: boolean;
}

/** Tenants' files and their archives. Each call throws what the function behind it throws. */
export interface Snapshots {
  /**
   * Runs the workload's preSave command, if it has one.
   *
   * @throws ExecFailure if it fails, or does not end within its limit
   */
  runPreSave(pod: Pod, signal: AbortSignal): Promise<void>;
  /**
   * Ends the pod's program for good, where the launcher runs it; its container goes on.
   *
   * @throws ExecFailure if a process does not end
   */
  stopProgram(pod: Pod, signal: AbortSignal): Promise<Stopped>;
  /**
   * What is recorded of the archive; undefined when there is none.
   *
   * @param options.version of the archive, by its SHA-256 or the first 16 digits of it. @default the newest
   */
  find(
    key: SnapshotKey,
    options: { version?: string | undefined; signal: AbortSignal },
  ): Promise<SnapshotMetadata | undefined>;
  /**
   * Saves the overlay directories of a running pod as the newest archive. The previous archive stays as an older
   * version if it is not the one that was restored into the pod, or if versions are kept. If no file has changed since
   * the restore, the save only notes the use of the archive.
   *
   * @param overlayId of the directories that the tenant was given: no others are saved. @default any
   * @param isErased whether the saved files were to be erased: the previous archive is then not relied on. @default
   * false
   * @param isFenced called before the new archive becomes the newest: whether another operator may be active now
   * @param onBytes called with the number of bytes received from the pod
   */
  save(
    key: SnapshotKey,
    pod: Pod,
    options: {
      overlayId?: string | undefined;
      isErased?: boolean;
      signal: AbortSignal;
      isFenced: () => boolean;
      onBytes?: ((bytes: number) => void) | undefined;
    },
  ): Promise<SavedSnapshot>;
  /**
   * Restores an archive into a pod; undefined if the archive does not exist.
   *
   * @param sha256 of the archive. @default the newest
   * @param into whether the workload runs already, is held by its launcher, or its container waits for the restore
   * @param onBytes called with the number of bytes sent to the pod
   */
  restore(
    key: SnapshotKey,
    pod: Pod,
    options: {
      into: RestoreInto;
      sha256?: string | undefined;
      signal: AbortSignal;
      onBytes?: ((bytes: number) => void) | undefined;
    },
  ): Promise<RestoredSnapshot | undefined>;
  /** Prestarts the restore command in a running pod; it changes nothing there until it is used. */
  prepare(pod: Pod): void;
  /** Call this when a restore is about to bind the pod: the prestarted command answers in the meantime. */
  warm(pod: Pod): void;
  /** Ends the pod's prestarted command. */
  cancelPrestarted(pod: Pod): void;
  /** Call this when the pod is gone. */
  forgetPod(pod: Pod): void;
  /** A page of archives with their last use. */
  uses(page: PageFilter, signal: AbortSignal): Promise<StorePage<StoreUse>>;
  /**
   * Deletes the archives of a key if they were not written or touched for so long, by the store's clock. An archive
   * that does not match its metadata, or belongs to another key, stays for a person to look at.
   *
   * @returns whether archives were deleted
   */
  delete(key: SnapshotKey, options: { unusedForMs: number; signal: AbortSignal }): Promise<boolean>;
  /** Notes that archives are in use now. */
  touch(keys: readonly SnapshotKey[], signal: AbortSignal): Promise<void>;
  /** Deletes what interrupted saves left behind. */
  tidy(signal: AbortSignal): Promise<void>;
  /**
   * Call this when the volume is recreated. Without this call, an empty volume counts as replaced or emptied if the
   * store had its mark before.
   */
  forgetVolume(): void;
  /** Ends all prestarted commands. */
  close(): void;
}

/**
 * What runs in a pod while files are restored into it: its program, its launcher that starts the program later, or only
 * the container that restores them.
 */
export type RestoreInto = "running" | "held" | "waiting";

/** Moves files between pods and a store. */
export function createSnapshots(options: {
  exec: Exec;
  archives: SnapshotStore;
  mark: StoreMark;
  most: MostKept;
  namespace: string;
  timeoutMs: number;
  /** @default an archive has no limit */
  room?: ArchiveRoom | undefined;
  log?: Log | undefined;
}): Snapshots {
  const { exec, archives, mark, most, namespace, timeoutMs, room, log } = options;
  const looks = createArchiveLooks({ archives, mark, log });
  const refused = createRefusedSaves();
  const prestarted = createPrestartedCommands({
    ...{ exec, what: "restore the files", minInput: POD_PACE, timeoutMs },
    mostOutputBytes: MOST_RESTORE_OUTPUT_BYTES,
  });
  const withTransferHeap = createTransferHeap();

  function overlay(pod: Pod, container: string) {
    const { overlayDirs, diskGb } = podFiles(pod);
    return {
      ...{ exec, overlayDirs, timeoutMs },
      limits: archiveLimits({ diskGb }),
      pod: { namespace, pod: pod.metadata.name, container },
    };
  }

  async function open(
    key: SnapshotKey,
    { sha256, ...call }: StoreCall & { sha256: string | undefined },
  ): Promise<OpenArchive | undefined> {
    const wanted = sha256 ?? (await looks.find(key, call))?.sha256;
    const opened = wanted === undefined ? undefined : await archives.open(key, wanted, call);
    const { metadata } = opened ?? {};
    if (metadata === undefined || (metadata.sha256 === wanted && isOf(key, metadata))) return opened;
    opened?.close();
    throw new StoreError("the snapshots store returned another archive than the requested one", {
      isTransient: false,
    });
  }

  /**
   * Whether an archive is still the newest and can be read: after the pod is gone, it is the only copy of the files. In
   * object storage, the head can name an archive that a rule of the bucket has deleted.
   */
  async function isKept(
    key: SnapshotKey,
    { sha256, replaces, signal }: { sha256: string; replaces: string; signal: AbortSignal },
  ): Promise<boolean> {
    const call = { signal, timeoutMs: LOOK_LIMIT_MS };
    const opened = await archives.open(key, sha256, call);
    opened?.close();
    return opened !== undefined && (await looks.look(key, call)).revision === replaces;
  }

  const restored = createRestoredArchives({ archives, open, timeoutMs, log });

  return {
    find: (key, options) => looks.find(key, { ...options, timeoutMs: LOOK_LIMIT_MS }),
    async runPreSave(pod, signal) {
      const { preSave } = podFiles(pod);
      if (preSave === undefined) return;
      await runPreSave({ exec, pod: overlay(pod, WORKLOAD_CONTAINER).pod, preSave, signal });
    },
    async stopProgram(pod, signal) {
      const program = launchedProgram(pod.spec);
      if (program === undefined) return "none";
      const { stopGraceSeconds: graceSeconds } = program;
      return await stopProgram({ exec, pod: overlay(pod, WORKLOAD_CONTAINER).pod, graceSeconds, signal });
    },
    async save(key, pod, { overlayId, isErased = false, signal, isFenced, onBytes }) {
      const before = await looks.look(key, { signal, timeoutMs: LOOK_LIMIT_MS });
      const { revision: replaces, newest } = before;
      const podUid = overlayId === undefined ? idOf(pod) : `${idOf(pod)}.${overlayId}`;
      const keep = keptAs(before, { pod, podUid, most });
      const attempt = refused.begin(idOf(pod));
      const from = overlay(pod, WORKLOAD_CONTAINER);
      const files = restored.of(idOf(pod));
      const isNewest = !isErased && newest !== undefined && files?.sha256 === newest.sha256;
      const roots = overlayRoots(from.overlayDirs);
      const unchanged = isNewest ? createUnchangedCheck(files, { roots }) : undefined;
      const base = isNewest ? await restored.baseOf(key, newest, { files, roots, signal }) : undefined;
      const readers = [unchanged, base?.list, attempt.reader].filter((reader) => reader !== undefined);
      let isUnchanged = false;
      async function present(): Promise<SnapshotMetadata | undefined> {
        if (newest !== undefined && unchanged?.isUnchanged() === true) {
          await archives.touch([key], { signal, timeoutMs: LOOK_LIMIT_MS });
          isUnchanged = await isKept(key, { sha256: newest.sha256, replaces, signal });
          if (isUnchanged) return newest;
        }
        if (isLimited(most)) {
          // The first call in a process of the store counts all archives.
          const call = { signal, timeoutMs: LIST_LIMIT_MS };
          await archives.checkRoom(key, { ...call, sizeBytes: attempt.leastBytes(), keep, most });
        }
        return undefined;
      }
      if (readers.length === 0) await present();
      const save = (noteSize: (bytes: number) => void) =>
        saveOverlay({
          ...from,
          ...{ overlayId, space: archives.space, room, signal, onBytes },
          asked: readers.length === 0 ? undefined : { readers, present, base },
          async write(archive, { describe, onto, ...call }) {
            const { metadata } = await archives.put(key, archive, {
              ...{ ...call, replaces, keep, most, onto: onto && newest && { ...onto, base: newest.sha256 } },
              describe(stored) {
                if (isFenced()) throw new Error("Cannot save the files: another operator may be active");
                noteSize(stored.sizeBytes);
                if (room !== undefined) checkArchiveSize(stored.sizeBytes, room);
                return { ...describe(stored), podUid };
              },
            });
            return metadata;
          },
        });
      const saved = await withTransferHeap(() => attempt.run(save));
      if (isUnchanged) return { ...saved, isUnchanged };
      looks.noteMark();
      return { ...saved, ...(keep === "replaced" && newest !== undefined && { replaced: newest }) };
    },
    restore(key, pod, { into, sha256, signal, onBytes }) {
      const opensGate = into === "waiting";
      // Another runtime, such as gVisor, may report different file times.
      const isRecorded = into !== "running" && sha256 !== undefined && pod.spec.runtimeClassName === undefined;
      return withTransferHeap(() =>
        restoreOverlay({
          ...overlay(pod, opensGate ? TOOLS_CONTAINER : WORKLOAD_CONTAINER),
          open: (call) => open(key, { sha256, ...call }),
          ...{ opensGate, signal, onBytes },
          onRestored: isRecorded ? (files) => restored.remember(idOf(pod), { ...files, sha256 }) : undefined,
          takePrestarted: opensGate ? undefined : (given) => prestarted.take(idOf(pod), given),
        }),
      );
    },
    prepare(pod) {
      const { overlayDirs, pod: target } = overlay(pod, WORKLOAD_CONTAINER);
      if (overlayDirs.length === 0) return;
      prestarted.prepare(idOf(pod), restoreCommand(target, { roots: overlayRoots(overlayDirs), opensGate: false }));
    },
    warm: (pod) => prestarted.warm(idOf(pod)),
    cancelPrestarted: (pod) => prestarted.cancel(idOf(pod)),
    forgetPod(pod) {
      prestarted.cancel(idOf(pod));
      restored.forget(idOf(pod));
      refused.forget(idOf(pod));
    },
    uses: (page, signal) => archives.uses(page, { signal, timeoutMs: LIST_LIMIT_MS }),
    async delete({ tenantId, workloadRef }, { unusedForMs, signal }) {
      const key = { tenantId, workloadRef };
      const call = { signal, timeoutMs: LIST_LIMIT_MS };
      try {
        const { revision: replaces, state } = await looks.look(key, call);
        return state === "kept" && (await archives.delete(key, { ...call, replaces, unusedForMs }));
      } catch (error) {
        if (error instanceof StoreConflict || error instanceof ArchiveError) return false;
        throw error;
      }
    },
    touch: (keys, signal) => archives.touch(keys, { signal, timeoutMs: LIST_LIMIT_MS }),
    tidy: (signal) => archives.tidy({ signal, timeoutMs: TIDY_LIMIT_MS }),
    forgetVolume: looks.forgetMark,
    close: prestarted.close,
  };
}

function isLimited({ tenantBytes, workloadBytes }: MostKept): boolean {
  return tenantBytes !== undefined || workloadBytes !== undefined;
}

/** How the previous archive is kept; undefined if it is not. */
function keptAs(
  { state, newest }: KeptSnapshots,
  { pod, podUid, most }: { pod: Pod; podUid: string; most: MostKept },
): KeptAs | undefined {
  if (newest === undefined) return state === "unrecorded" ? "replaced" : undefined;
  // An earlier save of the same pod wrote it.
  if (newest.podUid === podUid) return undefined;
  if (!isContinued(newest, pod)) return "replaced";
  return most.history > 0 ? "history" : undefined;
}

/** Whether the archive was restored into the pod. */
function isContinued({ sha256 }: SnapshotMetadata, pod: Pod): boolean {
  const { annotations = {} } = pod.metadata;
  const resumedFrom = annotations[annotation.resumedFrom];
  // A pod that an earlier version bound does not name its archive.
  if (resumedFrom === undefined) return annotations[annotation.source]?.endsWith("+data") === true;
  return resumedFrom === sha256;
}

function isOf(key: SnapshotKey, { tenantId, workloadRef }: SnapshotKey): boolean {
  return tenantId === key.tenantId && workloadRef === key.workloadRef;
}

function idOf({ metadata: { uid = "" } }: Pod): string {
  return uid;
}
