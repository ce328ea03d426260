import { ArchiveError } from "../../crds/archive/archive-error.ts";
import { archiveLimits } from "../../crds/archive/archive-limits.ts";
import { overlayRoots } from "../../crds/archive/overlay-roots.ts";
import type { Exec } from "../../crds/client/exec/exec.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { WORKLOAD_CONTAINER } from "../../crds/labels.ts";
import type { Log } from "../../crds/log.ts";
import { allArchives } from "../../crds/snapshots/kept-versions.ts";
import { podFiles } from "../../crds/snapshots/pod-files.ts";
import type { SnapshotKey } from "../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../crds/snapshots/snapshot-metadata.ts";
import {
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
import type { NameOutcome } from "../../crds/snapshots/version-names.ts";
import { launchedProgram } from "../launcher/launch-command.ts";
import { type Stopped, stopProgram } from "../launcher/stop-program.ts";
import { createArchiveLooks } from "./archive-looks.ts";
import { createKnownArchives } from "./known-archives.ts";
import { POD_PACE } from "./pods/overlay-pod.ts";
import { TOOLS_CONTAINER } from "./pods/pod-tools.ts";
import { runPreSave } from "./pods/pre-save.ts";
import { restoreCommand } from "./pods/restore-command.ts";
import { MOST_RESTORE_OUTPUT_BYTES, type RestoredSnapshot, restoreOverlay } from "./pods/restore-overlay.ts";
import { createPodSaves, LIST_LIMIT_MS, LOOK_LIMIT_MS, type SaveCall, type SavedSnapshot } from "./save-pod.ts";
import type { ArchiveRoom } from "./streams/archive-room.ts";
import { createPrestartedCommands } from "./streams/prestarted-commands.ts";
import { createTransferHeap } from "./streams/transfer-heap.ts";

/** With a million tenants, each folder is read. */
const TIDY_LIMIT_MS = 3_600_000;

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
  /** The checkpoint of a session; undefined if there is none. */
  findCheckpoint(
    key: SnapshotKey,
    options: { session: string; signal: AbortSignal },
  ): Promise<SnapshotMetadata | undefined>;
  /** Deletes the checkpoint of a session whose files are given up. */
  dropCheckpoint(key: SnapshotKey, options: { session: string; signal: AbortSignal }): Promise<boolean>;
  /** The names that archives of the key have. */
  namesOf(key: SnapshotKey, signal: AbortSignal): Promise<string[]>;
  /** Gives a kept archive a name. */
  setName(key: SnapshotKey, options: { sha256: string; name: string; signal: AbortSignal }): Promise<NameOutcome>;
  /**
   * Saves the overlay directories of a running pod as the newest archive. The previous archive stays as an older
   * version if it is not the one that was restored into the pod, or if versions are kept. If no file has changed since
   * the restore, the save only notes the use of the archive.
   * A checkpoint is an older version of the same session instead, and stores nothing if nothing has changed since the
   * one before.
   */
  save(key: SnapshotKey, pod: Pod, call: SaveCall): Promise<SavedSnapshot>;
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

  const known = createKnownArchives({ archives, open, timeoutMs, log });
  const saves = createPodSaves({ archives, looks, known, most, room, overlay });

  return {
    find: (key, options) => looks.find(key, { ...options, timeoutMs: LOOK_LIMIT_MS }),
    findCheckpoint: (key, options) => looks.findCheckpoint(key, { ...options, timeoutMs: LOOK_LIMIT_MS }),
    dropCheckpoint: (key, options) => archives.dropCheckpoint(key, { ...options, timeoutMs: LOOK_LIMIT_MS }),
    async namesOf(key, signal) {
      const kept = await looks.look(key, { signal, timeoutMs: LOOK_LIMIT_MS });
      return allArchives(kept).flatMap(({ names = [] }) => names);
    },
    setName: (key, { sha256, name, signal }) =>
      archives.setName(key, { sha256, name }, { signal, timeoutMs: LOOK_LIMIT_MS }),
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
    save: (key, pod, call) => withTransferHeap(() => saves.save(key, pod, call)),
    restore(key, pod, { into, sha256, signal, onBytes }) {
      const opensGate = into === "waiting";
      // Another runtime, such as gVisor, may report different file times.
      const isRecorded = into !== "running" && sha256 !== undefined && pod.spec.runtimeClassName === undefined;
      return withTransferHeap(() =>
        restoreOverlay({
          ...overlay(pod, opensGate ? TOOLS_CONTAINER : WORKLOAD_CONTAINER),
          open: (call) => open(key, { sha256, ...call }),
          ...{ opensGate, signal, onBytes },
          onRestored: isRecorded ? (files) => known.remember(idOf(pod), { ...files, sha256 }) : undefined,
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
      known.forget(idOf(pod));
      saves.forgetPod(idOf(pod));
    },
    uses: (page, signal) => archives.uses(page, { signal, timeoutMs: LIST_LIMIT_MS }),
    async delete({ tenantId, workloadRef }, { unusedForMs, signal }) {
      const key = { tenantId, workloadRef };
      const call = { signal, timeoutMs: LIST_LIMIT_MS };
      try {
        const { revision: replaces, state, versions } = await looks.look(key, call);
        const isOurs = state === "kept" || (state !== "unrecorded" && versions.length > 0);
        return isOurs && (await archives.delete(key, { ...call, replaces, unusedForMs }));
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

function isOf(key: SnapshotKey, { tenantId, workloadRef }: SnapshotKey): boolean {
  return tenantId === key.tenantId && workloadRef === key.workloadRef;
}

function idOf({ metadata: { uid = "" } }: Pod): string {
  return uid;
}
