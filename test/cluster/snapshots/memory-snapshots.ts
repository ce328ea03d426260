import { createHash } from "node:crypto";
import { ArchiveError } from "../../../crds/archive/archive-error.ts";
import { annotation } from "../../../crds/labels.ts";
import { podFiles } from "../../../crds/snapshots/pod-files.ts";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../../crds/snapshots/snapshot-metadata.ts";
import type { Snapshots } from "../../../operator/snapshots/snapshots.ts";
import { pause } from "../../../scripts/cluster/process/wait-until.ts";
import type { PretendKubelet } from "./pretend-kubelet.ts";

/** Where something can be made to happen. */
export type Point = "find" | "save-begun" | "save-commits" | "save-done" | "restore-begun" | "restore-done";

interface Archive {
  readonly content: string;
  readonly metadata: SnapshotMetadata;
}

/** A snapshots volume in memory, that all operators share. */
export interface MemoryVolume {
  /** By `<tenant>/<workload>`. */
  readonly archives: Map<string, Archive>;
  /** Those that a save has replaced and kept, by the same. */
  readonly versions: Map<string, Archive[]>;
  /** Checkpoints, by the same and the session. */
  readonly checkpoints: Map<string, Archive>;
  /** Those that were noted to be in use, in order. */
  readonly touched: string[];
}

/**
 * Keeps one text a pod, with the promises of `createSnapshots`: a save asks whether it is fenced, then replaces the
 * archive in one step; a restore gives what is there, or fails; neither works without the helper pod. That a late
 * command of a save replaces nothing is for test/unit/snapshots/store-contract.ts to show.
 *
 * @param reach called at each point; what it throws is the failure
 */
export function createMemorySnapshots(options: {
  kubelet: PretendKubelet;
  volume: MemoryVolume;
  reach(point: Point): Promise<void>;
}): Snapshots {
  const { kubelet, volume, reach } = options;

  async function needHelper(): Promise<void> {
    await pause(1);
    if (!kubelet.isHelperRunning()) throw new Error("the helper pod does not run");
  }

  function everyArchive(key: SnapshotKey): Archive[] {
    const newest = volume.archives.get(path(key));
    const checkpoints = [...volume.checkpoints].filter(([of]) => of.startsWith(`${path(key)} `)).map(([, one]) => one);
    return [...(newest === undefined ? [] : [newest]), ...(volume.versions.get(path(key)) ?? []), ...checkpoints];
  }

  return {
    async find(key, { version = "" }) {
      await reach("find");
      await needHelper();
      const newest = volume.archives.get(path(key));
      const found =
        version === "" ? newest : everyArchive(key).find(({ metadata }) => metadata.sha256.startsWith(version));
      if (found === undefined && version !== "") throw new ArchiveError("NoVersion", `there is no version ${version}`);
      return found?.metadata;
    },
    async findCheckpoint(key, { session }) {
      await reach("find");
      await needHelper();
      return volume.checkpoints.get(`${path(key)} ${session}`)?.metadata;
    },
    dropCheckpoint: async (key, { session }) => volume.checkpoints.delete(`${path(key)} ${session}`),
    namesOf: async () => [],
    setName: async () => "gone",
    runPreSave: async () => undefined,
    stopProgram: async () => "none",
    async save(key, pod, { session = "", kind, overlayId, isFenced }) {
      await reach("save-begun");
      await needHelper();
      const content = kubelet.files.get(pod.metadata.uid ?? "");
      const before = volume.archives.get(path(key));
      if (content === undefined) throw new Error("the pod is gone");
      if (overlayId !== undefined && kubelet.overlayIds.get(pod.metadata.uid ?? "") !== overlayId)
        throw new Error("the pod came back without its files");
      await reach("save-commits");
      await needHelper();
      if (isFenced()) throw new Error("another operator may be at work");
      const metadata = describe(key, content, podFiles(pod).overlayDirs);
      const own = `${path(key)} ${session}`;
      if (kind !== undefined) {
        volume.checkpoints.set(own, { content, metadata: { ...metadata, kind, session } });
        await reach("save-done");
        return metadata;
      }
      const resumedFrom = pod.metadata.annotations?.[annotation.resumedFrom];
      const isKept = before !== undefined && ![resumedFrom, metadata.sha256].includes(before.metadata.sha256);
      if (isKept) volume.versions.set(path(key), [before, ...(volume.versions.get(path(key)) ?? [])]);
      volume.archives.set(path(key), { content, metadata });
      volume.checkpoints.delete(own);
      await reach("save-done");
      return { ...metadata, ...(isKept && { replaced: before.metadata }) };
    },
    async restore(key, pod, { into, sha256 = "" }) {
      const uid = pod.metadata.uid ?? "";
      // As in the pod: what is there goes before anything comes.
      if (kubelet.files.has(uid)) kubelet.files.set(uid, "half of it");
      await reach("restore-begun");
      await needHelper();
      const found = everyArchive(key).find(({ metadata }) => metadata.sha256.startsWith(sha256));
      if (found === undefined) return undefined;
      if (!kubelet.files.has(uid)) throw new Error("the pod is gone");
      kubelet.files.set(uid, found.content);
      if (into === "waiting") await kubelet.openGate(pod);
      await reach("restore-done");
      return found.metadata;
    },
    uses: async () => ({
      items: [...volume.archives.values()].map(({ metadata }) => ({ ...metadata, usedAt: metadata.createdAt })),
      next: undefined,
    }),
    touch: async (keys) => void volume.touched.push(...keys.map(path)),
    delete: async (key) => volume.archives.delete(path(key)),
    async tidy() {
      await needHelper();
    },
    prepare: () => undefined,
    warm: () => undefined,
    cancelPrestarted: () => undefined,
    forgetPod: () => undefined,
    forgetVolume: () => undefined,
    close: () => undefined,
  };
}

function path({ tenantId, workloadRef }: SnapshotKey): string {
  return `${tenantId}/${workloadRef}`;
}

function describe(key: SnapshotKey, content: string, overlayDirs: readonly string[]): SnapshotMetadata {
  return {
    ...key,
    ...{ overlayDirs, uid: 65532, gid: 65532, entries: 1 },
    sha256: createHash("sha256").update(content).digest("hex"),
    sizeBytes: content.length,
    contentBytes: content.length,
    createdAt: new Date().toISOString(),
  };
}
