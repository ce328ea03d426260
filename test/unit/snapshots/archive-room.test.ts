import { randomFillSync } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { archiveLimits } from "../../../crds/archive/archive-limits.ts";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import type { ArchiveRoom } from "../../../operator/snapshots/archive-room.ts";
import { type ArchiveStore, createArchiveStore } from "../../../operator/snapshots/archive-store.ts";
import { saveOverlay } from "../../../operator/snapshots/save-overlay.ts";
import { localExec } from "./local-exec.ts";
import { staticBusybox } from "./static-busybox.ts";

const MiB = 1024 * 1024;
const where = { namespace: "here", pod: "this", container: "machine", busybox: staticBusybox };
const call = { signal: new AbortController().signal, timeoutMs: 60_000 };
const [large, small] = ["large", "small"].map((tenantId) => ({ tenantId, workloadRef: "shell" }));

interface Context {
  folder: string;
  store: ArchiveStore;
  /** Saves a file of random bytes, which no compression makes smaller. */
  save(key: typeof large, bytes: number, room: ArchiveRoom, free?: () => number): Promise<unknown>;
}
const test = suite<Context>("createRoomCheck");

test.before.each((context) => {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-room-"));
  const store = createArchiveStore({ exec: localExec, folder: { ...where, root: join(folder, "volume") } });
  for (const name of ["data", "volume"]) mkdirSync(join(folder, name));
  Object.assign(context, {
    ...{ folder, store },
    save(key = large, bytes, room, free) {
      if (key === undefined) throw new Error("whose?");
      writeFileSync(join(folder, "data/file"), randomFillSync(Buffer.alloc(bytes)));
      const space = async () => ({ freeBytes: free?.() ?? 0, totalBytes: 10_000 * MiB });
      return saveOverlay({
        ...{ exec: localExec, key, room, overlayDirs: ["/data"], limits: archiveLimits({ diskGb: 1 }), ...call },
        store: free === undefined ? store : { ...store, space },
        pod: { ...where, root: folder },
      }).catch(String);
    },
  } satisfies Context);
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true, maxRetries: 20 }));

test("an archive over the limit is refused and leaves the one before, and others fit", async ({ store, save }) => {
  const room = { maxArchiveBytes: 4 * MiB, volumeBytes: 1000 * MiB };
  const before = await save(large, MiB, room);
  const refused = await save(large, 6 * MiB, room);
  assert.is(
    refused,
    "ArchiveError: it takes more than 4 MiB of the snapshots volume, the limit of one archive (TENANCY_SNAPSHOT_LIMIT)",
  );
  assert.equal(await store.stat(large as SnapshotKey, call), before);
  assert.type(await save(small, MiB, room), "object");
});

test("the limit is of compressed bytes", async ({ folder, store }) => {
  writeFileSync(join(folder, "data/zeros"), Buffer.alloc(16 * MiB));
  const saved = await saveOverlay({
    ...{ exec: localExec, store, key: { tenantId: "zeros", workloadRef: "shell" }, overlayDirs: ["/data"] },
    ...{ limits: archiveLimits({ diskGb: 1 }), pod: { ...where, root: folder }, ...call },
    room: { maxArchiveBytes: MiB, volumeBytes: 1000 * MiB },
  });
  assert.ok(saved.contentBytes > 16 * MiB);
});

test("on a volume that is nearly full a large archive fails, and a small one fits", async ({ save }) => {
  const room = { maxArchiveBytes: 250 * MiB, volumeBytes: 1000 * MiB };
  const refused = await save(large, 20 * MiB, room, () => 49 * MiB);
  assert.match(String(refused), /ArchiveError: the snapshots volume has 49 MiB left, of which 50 MiB are for archives/);
  assert.type(await save(small, 8 * MiB, room, () => 49 * MiB), "object");
  assert.type(await save(large, 20 * MiB, room, () => 51 * MiB), "object");
});

test("a large archive is stopped when the volume fills up under it", async ({ save }) => {
  const room = { maxArchiveBytes: 250 * MiB, volumeBytes: 1000 * MiB };
  let left = 100 * MiB;
  const refused = await save(large, 50 * MiB, room, () => {
    left -= 40 * MiB;
    return left;
  });
  assert.match(String(refused), /ArchiveError: the snapshots volume has 20 MiB left/);
});

test("the store knows what its volume has", async ({ folder, store }) => {
  const { freeBytes, totalBytes } = await store.space(call);
  const { blocks, bsize } = statfsSync(folder);
  assert.is(totalBytes, blocks * bsize);
  assert.ok(freeBytes > 0 && freeBytes <= totalBytes);
});

test.run();
