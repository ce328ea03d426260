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
import { TOOLS_CONTAINER } from "./pods/pod-tools.ts";
import { runPreSave } from "./pods/pre-save.ts";
import { createPrestartedRestores } from "./pods/prestarted-restores.ts";
import { restoreCommand } from "./pods/restore-command.ts";
import { type RestoredSnapshot, restoreOverlay } from "./pods/restore-overlay.ts";
import { saveOverlay } from "./pods/save-overlay.ts";
import { createUnchangedCheck, type RestoredFiles } from "./pods/unchanged-files.ts";
import { type CountBytes, createRefusedSaves } from "./refused-saves.ts";
import type { ArchiveRoom } from "./streams/archive-room.ts";
import { createTransferHeap } from "./streams/transfer-heap.ts";

// For what only looks at the volume or changes a name on it.
const LOOK_LIMIT_MS = 20_000;
const LIST_LIMIT_MS = 120_000;
/** Of a million tenants each folder is looked into. */
const TIDY_LIMIT_MS = 3_600_000;

/** What a save has made, and what it has left as an older version, which nobody has asked for. */
export interface SavedSnapshot extends SnapshotMetadata {
  readonly replaced?: SnapshotMetadata;
  /** Whether it is what was restored into the pod, since no file was changed. */
  readonly isUnchanged?: boolean;
}

/** Tenants' files and their archives: every call fails as the function that it stands for does. */
export interface Snapshots {
  /**
   * Runs what the pod's program asks for before a save, where it does.
   *
   * @throws ExecFailure when it fails, or does not end in its time
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
   * @param options.version an older version, or the newest, by its SHA-256 or the first 16 digits of that.
   *   @default the newest
   */
  find(
    key: SnapshotKey,
    options: { version?: string | undefined; signal: AbortSignal },
  ): Promise<SnapshotMetadata | undefined>;
  /**
   * Saves the overlay directories of a running pod in the place of the archive before. That stays as an older version
   * where it is not what was restored into the pod, and else where versions are kept. Where no file was changed since,
   * only that it was in use is noted.
   *
   * @param overlayId names the directories that the tenant was given: no others are saved. @default whatever is there
   * @param isErased whether somebody has asked to erase what was saved: then the archive of before is not relied on.
   *   @default false
   * @param isFenced asked before the new archive takes that place: whether another operator may be at work by now
   * @param onBytes called with how many bytes have come from the pod
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
   * Restores an archive into a pod; undefined when it is not there.
   *
   * @param sha256 which archive. @default the newest
   * @param into whether the workload runs already, or its start waits for this
   * @param onBytes called with how many bytes have gone to the pod
   */
  restore(
    key: SnapshotKey,
    pod: Pod,
    options: {
      into: "running" | "waiting";
      sha256?: string | undefined;
      signal: AbortSignal;
      onBytes?: ((bytes: number) => void) | undefined;
    },
  ): Promise<RestoredSnapshot | undefined>;
  /** Has a restore into a running pod wait there for its beginning; it changes nothing until then. */
  prepare(pod: Pod): void;
  /** To be called when the pod is about to be bound for a restore: has what waits there answer meanwhile. */
  warm(pod: Pod): void;
  /** Ends what waits there. */
  cancelPrestarted(pod: Pod): void;
  /** To be called when the pod is gone. */
  forgetPod(pod: Pod): void;
  /** A page of when archives were last in use. */
  uses(page: PageFilter, signal: AbortSignal): Promise<StorePage<StoreUse>>;
  /**
   * Deletes what is kept of a key, when nothing has written or touched it for so long by the store's clock. One that
   * nothing recorded fits, or that is not the key's own, stays for a person to look at.
   *
   * @returns whether it was there and is gone now
   */
  delete(key: SnapshotKey, options: { unusedForMs: number; signal: AbortSignal }): Promise<boolean>;
  /** Notes on archives that they are in use now. */
  touch(keys: readonly SnapshotKey[], signal: AbortSignal): Promise<void>;
  /** Deletes what saves left behind that were ended in the middle. */
  tidy(signal: AbortSignal): Promise<void>;
  /**
   * To be called when the volume is made anew: until then, one that is empty is not believed where archives were seen.
   */
  forgetVolume(): void;
  /** Ends all that stays in pods between calls. */
  close(): void;
}

/** Moves files between pods and a store. */
export function createSnapshots(options: {
  exec: Exec;
  archives: SnapshotStore;
  mark: StoreMark;
  most: MostKept;
  namespace: string;
  timeoutMs: number;
  /** @default an archive takes what there is */
  room?: ArchiveRoom | undefined;
  log?: Log | undefined;
}): Snapshots {
  const { exec, archives, mark, most, namespace, timeoutMs, room, log } = options;
  const looks = createArchiveLooks({ archives, mark, log });
  const refused = createRefusedSaves();
  const prestarted = createPrestartedRestores({ exec, timeoutMs });
  const withTransferHeap = createTransferHeap();
  /** By the pods' uids. */
  const restored = new Map<string, RestoredFiles & { readonly sha256: string }>();

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
    throw new StoreError("the snapshots store gives another archive than the one that it was asked for", {
      isTransient: false,
    });
  }

  /**
   * Whether an archive is still the newest, as when it was looked at, and can be read: nothing else is left of the files
   * when the pod is gone. A head in object storage can name one that a rule of the bucket has deleted.
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
      const files = restored.get(idOf(pod));
      const isNewest = !isErased && newest !== undefined && files?.sha256 === newest.sha256;
      const unchanged = isNewest ? createUnchangedCheck(files, { roots: overlayRoots(from.overlayDirs) }) : undefined;
      const readers = [unchanged, attempt.reader].filter((reader) => reader !== undefined);
      let isUnchanged = false;
      async function present(): Promise<SnapshotMetadata | undefined> {
        if (newest !== undefined && unchanged?.isUnchanged() === true) {
          await archives.touch([key], { signal, timeoutMs: LOOK_LIMIT_MS });
          isUnchanged = await isKept(key, { sha256: newest.sha256, replaces, signal });
          if (isUnchanged) return newest;
        }
        if (isLimited(most)) {
          // The first of a store's process counts all archives.
          const call = { signal, timeoutMs: LIST_LIMIT_MS };
          await archives.checkRoom(key, { ...call, sizeBytes: attempt.leastBytes(), keep, most });
        }
        return undefined;
      }
      if (readers.length === 0) await present();
      const save = (count: CountBytes) =>
        saveOverlay({
          ...from,
          ...{ overlayId, space: archives.space, room, signal, onBytes },
          asked: readers.length === 0 ? undefined : { readers, present },
          async write(archive, { describe, ...call }) {
            const { metadata } = await archives.put(key, count(archive), {
              ...{ ...call, replaces, keep, most },
              describe() {
                if (isFenced()) throw new Error("Cannot save the files: another operator may be at work on them");
                return { ...describe(), podUid };
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
      return withTransferHeap(() =>
        restoreOverlay({
          ...overlay(pod, opensGate ? TOOLS_CONTAINER : WORKLOAD_CONTAINER),
          open: (call) => open(key, { sha256, ...call }),
          ...{ opensGate, signal, onBytes },
          onRestored(files) {
            // What else keeps files for the pod, such as gVisor, may know other times of them.
            if (sha256 === undefined || pod.spec.runtimeClassName !== undefined) return;
            restored.set(idOf(pod), { ...files, sha256 });
          },
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
      restored.delete(idOf(pod));
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

/** As what the archive before stays. */
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

/** Whether the pod was given the files of that archive. */
function isContinued({ sha256 }: SnapshotMetadata, pod: Pod): boolean {
  const { annotations = {} } = pod.metadata;
  const resumedFrom = annotations[annotation.resumedFrom];
  // Pods that an older operator bound do not say which archive.
  if (resumedFrom === undefined) return annotations[annotation.source]?.endsWith("+data") === true;
  return resumedFrom === sha256;
}

function isOf(key: SnapshotKey, { tenantId, workloadRef }: SnapshotKey): boolean {
  return tenantId === key.tenantId && workloadRef === key.workloadRef;
}

function idOf({ metadata: { uid = "" } }: Pod): string {
  return uid;
}
