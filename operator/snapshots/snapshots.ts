import type { Exec } from "../../crds/client/exec.ts";
import type { Pod } from "../../crds/kubernetes.ts";
import type { Log } from "../../crds/log.ts";
import type { SnapshotKey } from "../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../crds/snapshots/snapshot-metadata.ts";
import { SNAPSHOTS_CONTAINER, SNAPSHOTS_NAME } from "../../crds/snapshots/snapshots-names.ts";
import { WORKLOAD_CONTAINER } from "../../crds/workload-container.ts";
import { createArchiveDesk } from "./archive-desk.ts";
import { archiveLimits } from "./archive-limits.ts";
import type { ArchiveRoom } from "./archive-room.ts";
import { createArchiveStore } from "./archive-store.ts";
import { overlayRoots } from "./overlay-roots.ts";
import { podFiles } from "./pod-files.ts";
import { TOOLS_CONTAINER } from "./pod-tools.ts";
import { runPreSave } from "./pre-save.ts";
import { restoreCommand } from "./restore-command.ts";
import { restoreOverlay } from "./restore-overlay.ts";
import { createRestoreStandby } from "./restore-standby.ts";
import { saveOverlay } from "./save-overlay.ts";
import type { VolumeMark } from "./volume-mark.ts";

// For what only looks at the volume or changes a name on it.
const LOOK_LIMIT_MS = 20_000;
const LIST_LIMIT_MS = 120_000;

/** Tenants' files and their archives: every call fails as the function that it stands for does. */
export interface Snapshots {
  /** What is recorded of the archive; undefined when there is none. */
  find(key: SnapshotKey, signal: AbortSignal): Promise<SnapshotMetadata | undefined>;
  /**
   * Runs what the pod's program asks for before a save, where it does.
   *
   * @throws ExecFailure when it fails, or does not end in its time
   */
  runPreSave(pod: Pod, signal: AbortSignal): Promise<void>;
  /**
   * Saves the overlay directories of a running pod in the place of the archive before.
   *
   * @param isFenced asked before the new archive takes that place: whether another operator may be at work by now
   */
  save(
    key: SnapshotKey,
    pod: Pod,
    options: { signal: AbortSignal; isFenced: () => boolean },
  ): Promise<SnapshotMetadata>;
  /**
   * Restores the archive into a pod; undefined when there is none.
   *
   * @param into whether the workload runs already, or its start waits for this
   */
  restore(
    key: SnapshotKey,
    pod: Pod,
    options: { into: "running" | "waiting"; signal: AbortSignal },
  ): Promise<SnapshotMetadata | undefined>;
  /** Has a restore into a running pod wait there for its beginning; it changes nothing until then. */
  prepare(pod: Pod): void;
  /** To be called when the pod is about to be bound for a restore: has what waits there answer meanwhile. */
  rouse(pod: Pod): void;
  /** Ends what waits there. */
  dismiss(pod: Pod): void;
  list(signal: AbortSignal): Promise<SnapshotMetadata[]>;
  /** Deletes the archive where it is that one. */
  delete(snapshot: SnapshotMetadata, signal: AbortSignal): Promise<boolean>;
  /** Deletes what saves left behind that were ended in the middle. */
  tidy(signal: AbortSignal): Promise<void>;
  /** To be called when the volume is made anew: until then, one that is empty is not believed where archives were seen. */
  forgetVolume(): void;
  /** Ends what stays in the helper pod between calls, which goes; later calls start anew. */
  leaveHelper(): void;
  /** Ends all that stays in pods between calls, and forgets what it said: another operator may change the volume from now on. */
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
  const desk = createArchiveDesk({ exec, folder, log });
  const store = createArchiveStore({ exec, folder, desk, mark, log });
  const standby = createRestoreStandby({ exec, timeoutMs });

  function overlay(pod: Pod, container: string) {
    const { overlayDirs, diskGb } = podFiles(pod);
    return {
      ...{ exec, overlayDirs, timeoutMs },
      limits: archiveLimits({ diskGb }),
      pod: { namespace, pod: pod.metadata.name, container },
    };
  }

  return {
    find: (key, signal) => store.stat(key, { signal, timeoutMs: LOOK_LIMIT_MS }),
    async runPreSave(pod, signal) {
      const { preSave } = podFiles(pod);
      if (preSave === undefined) return;
      await runPreSave({ exec, pod: overlay(pod, WORKLOAD_CONTAINER).pod, preSave, signal });
    },
    save(key, pod, { signal, isFenced }) {
      const fenced: Pick<typeof store, "write" | "space"> = {
        space: store.space,
        write: (target, archive, call) =>
          store.write(target, archive, {
            ...call,
            describe() {
              if (isFenced()) throw new Error("Cannot save the files: another operator may be at work on them");
              return call.describe();
            },
          }),
      };
      return saveOverlay({ ...overlay(pod, WORKLOAD_CONTAINER), store: fenced, room, key, signal });
    },
    restore(key, pod, { into, signal }) {
      const opensGate = into === "waiting";
      return restoreOverlay({
        ...overlay(pod, opensGate ? TOOLS_CONTAINER : WORKLOAD_CONTAINER),
        ...{ store, key, opensGate, signal },
        standing: opensGate ? undefined : (given) => standby.take(idOf(pod), given),
      });
    },
    prepare(pod) {
      const { overlayDirs, pod: target } = overlay(pod, WORKLOAD_CONTAINER);
      if (overlayDirs.length === 0) return;
      standby.prepare(idOf(pod), restoreCommand(target, { roots: overlayRoots(overlayDirs), opensGate: false }));
    },
    rouse: (pod) => standby.rouse(idOf(pod)),
    dismiss: (pod) => standby.dismiss(idOf(pod)),
    list: (signal) => store.list({ signal, timeoutMs: LIST_LIMIT_MS }),
    delete: ({ tenantId, workloadRef, sha256 }, signal) =>
      store.delete({ tenantId, workloadRef }, { sha256, signal, timeoutMs: LIST_LIMIT_MS }),
    tidy: (signal) => store.tidy({ signal, timeoutMs: LIST_LIMIT_MS }),
    forgetVolume: store.forgetVolume,
    leaveHelper: store.close,
    close() {
      store.close();
      standby.close();
    },
  };
}

function idOf({ metadata: { uid = "" } }: Pod): string {
  return uid;
}
