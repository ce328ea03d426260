import type { SnapshotKey } from "../../../../crds/snapshots/snapshot-key.ts";
import {
  archiveNamed,
  type NameOutcome,
  nameOutcome,
  withName,
  withoutName,
} from "../../../../crds/snapshots/version-names.ts";
import type { ChangeIn } from "./volume-changes.ts";
import { rewriteRecord } from "./volume-files.ts";
import type { VolumeOwner } from "./volume-owner.ts";
import { archivesIn, type FoundFile, foundIn, type VolumeState } from "./volume-state.ts";

/** The calls that name archives. Names are part of their metadata. */
export interface VolumeNames {
  setName(key: SnapshotKey, named: { sha256: string; name: string }, signal: AbortSignal): Promise<NameOutcome>;
  /** @returns whether an archive had the name */
  dropName(key: SnapshotKey, named: { name: string }, signal: AbortSignal): Promise<boolean>;
}

export function createVolumeNames(options: {
  state: Pick<VolumeState, "read">;
  owner: Pick<VolumeOwner, "check">;
  changeIn: ChangeIn;
}): VolumeNames {
  const { state, owner, changeIn } = options;

  async function archivesOf(key: SnapshotKey): Promise<FoundFile[]> {
    return archivesIn(await state.read(key)).flatMap(foundIn);
  }

  return {
    setName: (key, named, signal) =>
      changeIn<NameOutcome>(key, {
        signal,
        async locked() {
          const found = await archivesOf(key);
          const metadata = found.map((one) => one.metadata);
          const outcome = nameOutcome(metadata, named);
          const archive = found.find((one) => one.metadata.sha256 === named.sha256);
          const isNew = archiveNamed(metadata, named.name) === undefined;
          if (outcome !== "named" || archive === undefined || !isNew) return outcome;
          await rewriteRecord(archive, withName(archive.metadata, named.name), owner);
          return outcome;
        },
        missing: () => "gone",
      }),

    dropName: (key, { name }, signal) =>
      changeIn<boolean>(key, {
        signal,
        async locked() {
          const found = (await archivesOf(key)).filter(({ metadata }) => metadata.names?.includes(name));
          for (const archive of found) await rewriteRecord(archive, withoutName(archive.metadata, name), owner);
          return found.length > 0;
        },
        missing: () => false,
      }),
  };
}
