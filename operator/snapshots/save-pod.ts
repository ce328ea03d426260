import { overlayRoots } from "../../crds/archive/overlay-roots.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import { annotation, WORKLOAD_CONTAINER } from "../../crds/labels.ts";
import { mostKept } from "../../crds/quotas/room.ts";
import type { TenantLimits } from "../../crds/quotas/tenant-quotas.ts";
import { allArchives } from "../../crds/snapshots/kept-versions.ts";
import type { SnapshotKey } from "../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../crds/snapshots/snapshot-metadata.ts";
import type { KeptAs, KeptSnapshots, MostKept, SnapshotStore } from "../../crds/snapshots/snapshot-store.ts";
import { launchedProgram } from "../launcher/launch-command.ts";
import type { ArchiveLooks } from "./archive-looks.ts";
import type { KnownArchive, KnownArchives } from "./known-archives.ts";
import { MovedOn } from "./pods/save-output.ts";
import { type SaveOverlayOptions, saveOverlay } from "./pods/save-overlay.ts";
import { type ArchivedFiles, createUnchangedCheck } from "./pods/unchanged-files.ts";
import { createRefusedSaves } from "./refused-saves.ts";
import { type ArchiveRoom, checkArchiveSize } from "./streams/archive-room.ts";

// For calls that only read metadata or rename a file.
export const LOOK_LIMIT_MS = 20_000;
export const LIST_LIMIT_MS = 120_000;

/** The result of a save. */
export interface SavedSnapshot extends SnapshotMetadata {
  /** The previous archive, if it stays as an older version because the session did not resume from it. */
  readonly replaced?: SnapshotMetadata;
  /** Whether no file has changed since the restore or the last checkpoint, so that nothing new was stored. */
  readonly isUnchanged?: boolean;
}

export interface SaveCall {
  /** Names the session: see `sessionOf`. @default no checkpoint is known to be of the same session */
  readonly session?: string | undefined;
  /** A checkpoint is an older version beside the newest archive. @default the archive becomes the newest */
  readonly kind?: "checkpoint" | undefined;
  /** Of the tenant's quota. */
  readonly limits?: TenantLimits | undefined;
  /** Of the directories that the tenant was given: no others are saved. @default any */
  readonly overlayId?: string | undefined;
  /** Whether the saved files were to be erased: the previous archive is then not relied on. @default false */
  readonly isErased?: boolean;
  /** Of the metadata. */
  readonly sandbox?: string | undefined;
  readonly signal: AbortSignal;
  /** Called before the archive is committed: whether another operator may be active now. */
  readonly isFenced: () => boolean;
  /** Called with the number of bytes received from the pod. */
  readonly onBytes?: ((bytes: number) => void) | undefined;
  /** Called with the milliseconds for which a checkpoint has stopped the program. */
  readonly onFrozen?: ((ms: number) => void) | undefined;
}

export interface PodSaves {
  save(key: SnapshotKey, pod: Pod, call: SaveCall): Promise<SavedSnapshot>;
  /** Call this when the pod is gone. */
  forgetPod(uid: string): void;
}

/** Saves the files of pods, as `Snapshots` says. */
export function createPodSaves(options: {
  archives: SnapshotStore;
  looks: ArchiveLooks;
  known: KnownArchives;
  most: MostKept;
  room: ArchiveRoom | undefined;
  overlay: (
    pod: Pod,
    container: string,
  ) => Pick<SaveOverlayOptions, "exec" | "overlayDirs" | "timeoutMs" | "limits" | "pod">;
}): PodSaves {
  const { archives, looks, known, room, overlay } = options;
  const refused = createRefusedSaves();
  /** The uids of pods whose files changed between a list and the stop of the program: there, it is stopped first. */
  const busy = new Set<string>();

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

  /** What shows in a list of the pod's files what has changed since they were in an archive that is still kept. */
  async function comparedWith(
    files: KnownArchive | undefined,
    { key, before, call, roots }: { key: SnapshotKey; before: KeptSnapshots; call: SaveCall; roots: readonly string[] },
  ) {
    const present = files && allArchives(before).find(({ sha256 }) => sha256 === files.sha256);
    if (files === undefined || present === undefined) return {};
    const { digest } = files;
    // A release makes the newest archive, whatever the checkpoints have.
    const mayStay = digest !== undefined && (present === before.newest || call.kind !== undefined);
    return {
      present,
      unchanged: mayStay ? createUnchangedCheck({ ...files, digest }, { roots }) : undefined,
      base: await known.baseOf(key, present, { files, roots, signal: call.signal }),
    };
  }

  async function save(key: SnapshotKey, pod: Pod, call: SaveCall): Promise<SavedSnapshot> {
    const { session, kind, overlayId, sandbox, isErased = false, signal, isFenced, onBytes, onFrozen } = call;
    const most = mostKept(options.most, call.limits);
    const { uid = "" } = pod.metadata;
    const before = await looks.look(key, { signal, timeoutMs: LOOK_LIMIT_MS });
    const { revision: replaces, newest } = before;
    const podUid = overlayId === undefined ? uid : `${uid}.${overlayId}`;
    const keep = kind === undefined ? keptAs(before, { pod, podUid, most }) : undefined;
    const attempt = refused.begin(uid);
    const mayFreeze = kind !== undefined && launchedProgram(pod.spec) !== undefined;
    const freezes = mayFreeze ? (busy.has(uid) ? "first" : "later") : undefined;
    const from = overlay(pod, WORKLOAD_CONTAINER);
    const roots = overlayRoots(from.overlayDirs);
    const files = isErased && kind === undefined ? undefined : known.of(uid);
    const { present, base, unchanged } = await comparedWith(files, { key, before, call, roots });
    const readers = [unchanged, base?.list, attempt.reader].filter((reader) => reader !== undefined);
    const hasChanged = (): boolean => {
      if (unchanged?.isUnchanged() === true) return false;
      const changes = kind === undefined ? undefined : base?.changes();
      return typeof changes !== "object" || !changes.isNothing;
    };
    let isUnchanged = false;

    async function asBefore(): Promise<SnapshotMetadata | undefined> {
      if (present !== undefined && !hasChanged()) {
        isUnchanged = true;
        // The program is stopped until this is known.
        if (kind !== undefined) return present;
        if (present === newest) await archives.touch([key], { signal, timeoutMs: LOOK_LIMIT_MS });
        isUnchanged = await isKept(key, { sha256: present.sha256, replaces, signal });
        if (isUnchanged) return present;
      }
      if (kind === undefined && (most.tenantBytes !== undefined || most.workloadBytes !== undefined)) {
        // The first call in a process of the store counts all archives.
        const call = { signal, timeoutMs: LIST_LIMIT_MS };
        await archives.checkRoom(key, { ...call, sizeBytes: attempt.leastBytes(), keep, most, session });
      }
      return undefined;
    }
    if (readers.length === 0) await asBefore();
    let savedFiles: ArchivedFiles | undefined;
    const run = (noteSize: (bytes: number) => void) =>
      saveOverlay({
        ...from,
        ...{ overlayId, space: archives.space, signal, onBytes, onFrozen },
        ...{ freezes, room: room && { ...room, isCheckpoint: kind !== undefined } },
        asked: readers.length === 0 ? undefined : { readers, present: asBefore, base },
        onSaved(saved) {
          savedFiles = saved;
        },
        async write(archive, { describe, onto, ...limits }) {
          const { metadata } = await archives.put(key, archive, {
            ...{ ...limits, replaces, keep, most, onto: onto && present && { ...onto, base: present.sha256 } },
            describe(stored) {
              if (isFenced()) throw new Error("Cannot save the files: another operator may be active");
              noteSize(stored.sizeBytes);
              if (room !== undefined) checkArchiveSize(stored.sizeBytes, room);
              const own = { ...describe(stored), podUid, session, ...(sandbox !== undefined && { sandbox }) };
              return kind === undefined ? own : { ...own, kind, continues: beganWith(pod) };
            },
          });
          return metadata;
        },
      });
    let saved: SnapshotMetadata;
    try {
      saved = await attempt.run(run);
    } catch (error) {
      if (!(error instanceof MovedOn)) throw error;
      busy.add(uid);
      return await save(key, pod, call);
    }
    if (isUnchanged && kind !== undefined && !(await isKept(key, { sha256: saved.sha256, replaces, signal }))) {
      known.forget(uid);
      return await save(key, pod, call);
    }
    if (isUnchanged) return { ...saved, isUnchanged };
    // Another runtime, such as gVisor, may report different file times.
    if (savedFiles !== undefined && pod.spec.runtimeClassName === undefined)
      known.remember(uid, { ...savedFiles, sha256: saved.sha256 });
    looks.noteMark();
    return { ...saved, ...(keep === "replaced" && newest !== undefined && { replaced: newest }) };
  }

  return {
    save,
    forgetPod(uid) {
      refused.forget(uid);
      busy.delete(uid);
    },
  };
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

/** The archive that the session of the pod began with; undefined if it began without files. */
function beganWith({ metadata: { annotations = {} } }: Pod): string | undefined {
  const resumedFrom = annotations[annotation.resumedFrom] ?? "";
  return /^[0-9a-f]{64}$/.test(resumedFrom) ? resumedFrom : undefined;
}

/** Whether the session of the pod goes on from the newest archive. */
function isContinued(newest: SnapshotMetadata, pod: Pod): boolean {
  const { annotations = {} } = pod.metadata;
  const resumedFrom = annotations[annotation.resumedFrom];
  if (resumedFrom !== undefined) return resumedFrom === newest.sha256;
  // A pod that an earlier version bound does not name its archive.
  return (
    annotations[annotation.restoredFrom] === undefined && annotations[annotation.source]?.endsWith("+data") === true
  );
}
