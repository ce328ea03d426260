import { archiveLimits } from "../../crds/archive/archive-limits.ts";
import type { Exec } from "../../crds/client/exec/exec.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation, WORKLOAD_CONTAINER } from "../../crds/labels.ts";
import type { Log } from "../../crds/log.ts";
import type { ListedSnapshot } from "../../crds/snapshots/parse-snapshot-list.ts";
import { podFiles } from "../../crds/snapshots/pod-files.ts";
import type { SnapshotKey } from "../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../crds/snapshots/snapshot-metadata.ts";
import { SNAPSHOTS_CONTAINER, SNAPSHOTS_NAME } from "../../crds/snapshots/store-folder.ts";
import type { IdentifiedArchive } from "./archive-lookup.ts";
import type { ArchiveRoom } from "./archive-room.ts";
import { createArchiveSession } from "./archive-session.ts";
import { createArchiveStore } from "./archive-store.ts";
import { overlayRoots } from "./overlay-pod.ts";
import { TOOLS_CONTAINER } from "./pod-tools.ts";
import { runPreSave } from "./pre-save.ts";
import { createPrestartedRestores } from "./prestarted-restores.ts";
import { restoreCommand } from "./restore-command.ts";
import { restoreOverlay } from "./restore-overlay.ts";
import { saveOverlay } from "./save-overlay.ts";
import type { VolumeMark } from "./volume-mark.ts";

// For what only looks at the volume or changes a name on it.
const LOOK_LIMIT_MS = 20_000;
const LIST_LIMIT_MS = 120_000;

/** What a save has made, and what it has left as an older version. */
export interface SavedSnapshot extends SnapshotMetadata {
  readonly kept?: { readonly sha256: string; readonly createdAt: string | undefined };
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
   * What is recorded of the archive; undefined when there is none.
   *
   * @param options.version an older version, or the newest, by its SHA-256 or the first 16 digits of that.
   *   @default the newest
   * @param options.brings whether a restore will follow at once. @default true
   */
  find(
    key: SnapshotKey,
    options: { version?: string | undefined; brings?: boolean; signal: AbortSignal },
  ): Promise<SnapshotMetadata | undefined>;
  /**
   * Saves the overlay directories of a running pod in the place of the archive before, which stays as an older version
   * unless it is what was restored into the pod.
   *
   * @param isFenced asked before the new archive takes that place: whether another operator may be at work by now
   */
  save(key: SnapshotKey, pod: Pod, options: { signal: AbortSignal; isFenced: () => boolean }): Promise<SavedSnapshot>;
  /**
   * Restores an archive into a pod; undefined when it is not there.
   *
   * @param sha256 which archive. @default the newest
   * @param into whether the workload runs already, or its start waits for this
   */
  restore(
    key: SnapshotKey,
    pod: Pod,
    options: { into: "running" | "waiting"; sha256?: string | undefined; signal: AbortSignal },
  ): Promise<SnapshotMetadata | undefined>;
  /** Has a restore into a running pod wait there for its beginning; it changes nothing until then. */
  prepare(pod: Pod): void;
  /** To be called when the pod is about to be bound for a restore: has what waits there answer meanwhile. */
  warm(pod: Pod): void;
  /** Ends what waits there. */
  cancelPrestarted(pod: Pod): void;
  list(signal: AbortSignal): Promise<ListedSnapshot[]>;
  /**
   * Deletes the archive where it is that one, with its older versions, when nothing has written or touched it for so
   * long.
   */
  delete(snapshot: SnapshotMetadata, options: { unusedForMs: number; signal: AbortSignal }): Promise<boolean>;
  /** Notes on archives that they are in use now. */
  touch(keys: readonly SnapshotKey[], signal: AbortSignal): Promise<void>;
  /** Deletes what saves left behind that were ended in the middle. */
  tidy(signal: AbortSignal): Promise<void>;
  /**
   * To be called when the volume is made anew: until then, one that is empty is not believed where archives were seen.
   */
  forgetVolume(): void;
  /** Ends what stays in the helper pod between calls, which goes; later calls start anew. */
  leaveHelper(): void;
  /**
   * Ends all that stays in pods between calls, and forgets what it said: another operator may change the volume from
   * now on.
   */
  close(): void;
}

/** Archives on the snapshots volume, through the helper pod. */
export function createSnapshots(options: {
  exec: Exec;
  namespace: string;
  timeoutMs: number;
  /** @default an archive takes what there is */
  room?: ArchiveRoom | undefined;
  /** @default only what this process has seen is known of the volume */
  mark?: VolumeMark | undefined;
  log?: Log | undefined;
}): Snapshots {
  const { exec, namespace, timeoutMs, room, mark, log } = options;
  const folder = { namespace, pod: SNAPSHOTS_NAME, container: SNAPSHOTS_CONTAINER };
  const session = createArchiveSession({ exec, folder, log });
  const store = createArchiveStore({ exec, folder, session, mark, log });
  const prestarted = createPrestartedRestores({ exec, timeoutMs });

  function overlay(pod: Pod, container: string) {
    const { overlayDirs, diskGb } = podFiles(pod);
    return {
      ...{ exec, overlayDirs, timeoutMs },
      limits: archiveLimits({ diskGb }),
      pod: { namespace, pod: pod.metadata.name, container },
    };
  }

  return {
    find: (key, options) => store.stat(key, { ...options, timeoutMs: LOOK_LIMIT_MS }),
    async runPreSave(pod, signal) {
      const { preSave } = podFiles(pod);
      if (preSave === undefined) return;
      await runPreSave({ exec, pod: overlay(pod, WORKLOAD_CONTAINER).pod, preSave, signal });
    },
    async save(key, pod, { signal, isFenced }) {
      const before = await store.identify(key, { signal, timeoutMs: LOOK_LIMIT_MS });
      const keeps = before !== undefined && !isContinued(before, pod);
      const over = { replaces: before?.sha256 ?? "none", keeps };
      const fenced: Pick<typeof store, "write" | "space"> = {
        space: store.space,
        write: (target, archive, call) =>
          store.write(target, archive, {
            ...call,
            ...over,
            describe() {
              if (isFenced()) throw new Error("Cannot save the files: another operator may be at work on them");
              return { ...call.describe(), podUid: idOf(pod) };
            },
          }),
      };
      const saved = await saveOverlay({ ...overlay(pod, WORKLOAD_CONTAINER), store: fenced, room, key, signal });
      if (!keeps) return saved;
      return { ...saved, kept: { sha256: before.sha256, createdAt: before.metadata?.createdAt } };
    },
    restore(key, pod, { into, sha256, signal }) {
      const opensGate = into === "waiting";
      return restoreOverlay({
        ...overlay(pod, opensGate ? TOOLS_CONTAINER : WORKLOAD_CONTAINER),
        ...{ store, key, sha256, opensGate, signal },
        takePrestarted: opensGate ? undefined : (given) => prestarted.take(idOf(pod), given),
      });
    },
    prepare(pod) {
      const { overlayDirs, pod: target } = overlay(pod, WORKLOAD_CONTAINER);
      if (overlayDirs.length === 0) return;
      prestarted.prepare(idOf(pod), restoreCommand(target, { roots: overlayRoots(overlayDirs), opensGate: false }));
    },
    warm: (pod) => prestarted.warm(idOf(pod)),
    cancelPrestarted: (pod) => prestarted.cancel(idOf(pod)),
    list: (signal) => store.list({ signal, timeoutMs: LIST_LIMIT_MS }),
    delete({ tenantId, workloadRef, sha256 }, { unusedForMs, signal }) {
      const only = { sha256, unusedForSeconds: unusedForMs / 1000 };
      return store.delete({ tenantId, workloadRef }, { ...only, signal, timeoutMs: LIST_LIMIT_MS });
    },
    touch: (keys, signal) => store.touch(keys, { signal, timeoutMs: LIST_LIMIT_MS }),
    tidy: (signal) => store.tidy({ signal, timeoutMs: LIST_LIMIT_MS }),
    forgetVolume: store.forgetVolume,
    leaveHelper: store.close,
    close() {
      store.close();
      prestarted.close();
    },
  };
}

/**
 * Whether the pod's files are a continuation of that archive: the pod was given its files, or an earlier save of the
 * same pod wrote it.
 */
function isContinued({ sha256, metadata }: IdentifiedArchive, pod: Pod): boolean {
  const { annotations = {} } = pod.metadata;
  if (metadata?.podUid !== undefined && metadata.podUid === pod.metadata.uid) return true;
  const resumedFrom = annotations[annotation.resumedFrom];
  // Pods that an older operator bound do not say which archive.
  if (resumedFrom === undefined) return annotations[annotation.source]?.endsWith("+data") === true;
  return resumedFrom === sha256;
}

function idOf({ metadata: { uid = "" } }: Pod): string {
  return uid;
}
