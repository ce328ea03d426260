import { randomFillSync } from "node:crypto";
import { mkdirSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { archiveLimits } from "../../../crds/archive/archive-limits.ts";
import type { SnapshotKey } from "../../../crds/snapshots/snapshot-key.ts";
import { saveOverlay } from "../../../operator/snapshots/pods/save-overlay.ts";
import type { ArchiveRoom } from "../../../operator/snapshots/streams/archive-room.ts";
import { localExec } from "./local-exec.ts";
import { overlayStore } from "./overlay-store.ts";
import { staticBusybox } from "./static-busybox.ts";
import { type ServedStore, serveStore } from "./store-server.ts";

const MiB = 1024 * 1024;
const where = { namespace: "here", pod: "this", container: "machine", busybox: staticBusybox };
const call = { signal: new AbortController().signal, timeoutMs: 60_000 };
const [large, small] = ["large", "small"].map((tenantId) => ({ tenantId, workloadRef: "shell" }));

interface Context {
  folder: string;
  served: ServedStore;
  /** Saves a file of random bytes, which no compression makes smaller. */
  save(key: typeof large, bytes: number, room: ArchiveRoom, free?: () => number): Promise<unknown>;
}
const test = suite<Context>("createRoomCheck");

test.before.each(async (context) => {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-room-"));
  for (const name of ["data", "volume"]) mkdirSync(join(folder, name));
  const served = await serveStore(join(folder, "volume"));
  Object.assign(context, {
    ...{ folder, served },
    save(key = large, bytes, room, free) {
      if (key === undefined) throw new Error("whose?");
      writeFileSync(join(folder, "data/file"), randomFillSync(Buffer.alloc(bytes)));
      const space = async () => ({ freeBytes: free?.() ?? 0, totalBytes: 10_000 * MiB });
      return saveOverlay({
        ...{ exec: localExec, room, overlayDirs: ["/data"], limits: archiveLimits({ diskGb: 1 }), ...call },
        ...overlayStore(served.store, key),
        ...(free !== undefined && { space }),
        pod: { ...where, root: folder },
      }).catch(String);
    },
  } satisfies Context);
});
test.after.each(async ({ folder, served }) => {
  await served.close();
  rmSync(folder, { recursive: true, maxRetries: 20 });
});

test("an archive over the limit is refused and leaves the one before, and others fit", async ({ served, save }) => {
  const room = { maxArchiveBytes: 4 * MiB, volumeBytes: 1000 * MiB };
  const before = await save(large, MiB, room);
  const refused = await save(large, 6 * MiB, room);
  assert.is(refused, "ArchiveError: it takes more than 4 MiB, the limit of one archive (TENANCY_SNAPSHOT_LIMIT)");
  assert.equal((await served.store.look(large as SnapshotKey, call)).newest, before);
  assert.type(await save(small, MiB, room), "object");
});

test("the limit is of compressed bytes", async ({ folder, served }) => {
  writeFileSync(join(folder, "data/zeros"), Buffer.alloc(16 * MiB));
  const saved = await saveOverlay({
    ...overlayStore(served.store, { tenantId: "zeros", workloadRef: "shell" }),
    ...{ exec: localExec, overlayDirs: ["/data"] },
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

test("the store knows what its volume has", async ({ folder, served }) => {
  const { freeBytes = 0, totalBytes = 0 } = (await served.store.space(call)) ?? {};
  const { blocks, bsize } = statfsSync(folder);
  assert.is(totalBytes, blocks * bsize);
  assert.ok(freeBytes > 0 && freeBytes <= totalBytes);
});

test.run();
