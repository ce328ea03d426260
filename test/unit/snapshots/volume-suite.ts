import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite, type Test } from "uvu";
import type { SnapshotStore } from "../../../crds/snapshots/snapshot-store.ts";
import { type ServedStore, serveStore } from "./store-server.ts";

export interface OnVolume {
  readonly folder: string;
  /** The folder of the volume, in `folder`. */
  readonly root: string;
  served: ServedStore;
  readonly store: SnapshotStore;
  /** Whether the mark of the volume was seen before. */
  isMarked: boolean;
}

/** A suite whose tests have an empty volume each, with a snapshots server. */
export function volumeSuite<More = object>(name: string): Test<OnVolume & More> {
  const test = suite<OnVolume & More>(name);
  test.before.each(async (context) => {
    const folder = mkdtempSync(join(tmpdir(), "tenancy-volume-"));
    const root = join(folder, "volume");
    mkdirSync(root);
    const served = await serveStore(root, { isMarked: () => context.isMarked });
    Object.assign(context, { folder, root, served, store: served.store, isMarked: false } satisfies OnVolume);
  });
  test.after.each(async ({ folder, served }) => {
    await served.close();
    rmSync(folder, { recursive: true, maxRetries: 20 });
  });
  return test;
}
