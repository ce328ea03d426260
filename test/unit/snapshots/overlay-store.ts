import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import type { SnapshotStore } from "../../../crds/snapshots/snapshot-store.ts";
import type { RestoreOverlayOptions } from "../../../operator/snapshots/pods/restore-overlay.ts";
import type { SaveOverlayOptions } from "../../../operator/snapshots/pods/save-overlay.ts";

/** Where overlay directories are saved to and restored from: the newest archive of a key. */
export function overlayStore(
  store: SnapshotStore,
  key: SnapshotKey,
): Pick<SaveOverlayOptions, "write" | "space"> & Pick<RestoreOverlayOptions, "open"> {
  return {
    space: store.space,
    async write(archive, { describe, onto: _, ...call }) {
      const { revision: replaces } = await store.look(key, call);
      const most = { history: 0, replaced: 0 };
      return (await store.put(key, archive, { ...call, replaces, most, describe })).metadata;
    },
    async open(call) {
      const { newest } = await store.look(key, call);
      return newest && (await store.open(key, newest.sha256, call));
    },
  };
}
