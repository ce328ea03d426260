import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { archiveLimits } from "../../../crds/archive/archive-limits.ts";
import { copyStore } from "../../../crds/snapshots/copy-store.ts";
import type { SnapshotStore } from "../../../crds/snapshots/snapshot-store.ts";
import { createStoreClient } from "../../../crds/snapshots/store-client.ts";
import { createStoreConnection } from "../../../crds/snapshots/store-connection.ts";
import { restoreOverlay } from "../../../operator/snapshots/pods/restore-overlay.ts";
import { localExec } from "./local-exec.ts";
import { staticBusybox } from "./static-busybox.ts";
import { call, listAll, save } from "./store-contract.ts";
import { isOverVolume, type ServedStore, serveStore } from "./store-server.ts";
import { treeLines } from "./tree.ts";

/** A volume as the version before the snapshots server left it, and what was in the pod: `make-archives.ts`. */
const former = join(import.meta.dirname, "former-archives");
const key = { tenantId: "Tenant_1", workloadRef: "keeps" };
const lines: string[] = JSON.parse(readFileSync(join(former, "lines.json"), "utf8"));

interface Context {
  folder: string;
  /** The tenant's folder on the volume. */
  archives: string;
  served: ServedStore;
}

const test = suite<Context>("archives of the version before");

test.before.each(async (context) => {
  context.folder = mkdtempSync(join(tmpdir(), "tenancy-former-"));
  const volume = join(context.folder, "volume");
  context.archives = join(volume, key.tenantId);
  cpSync(join(former, "volume"), volume, { recursive: true });
  context.served = await serveStore(volume);
});
test.after.each(async ({ folder, served }) => {
  await served.close();
  rmSync(folder, { recursive: true });
});

/** What comes into a pod of the archive of that SHA-256. */
async function restored(store: SnapshotStore, { folder }: Context, sha256: string): Promise<string[]> {
  const root = mkdtempSync(join(folder, "pod-"));
  mkdirSync(join(root, "data"));
  const pod = { namespace: "here", pod: "this", container: "machine", busybox: staticBusybox, root };
  const metadata = await restoreOverlay({
    ...{ exec: localExec, pod, overlayDirs: ["/data"], limits: archiveLimits({ diskGb: 1 }), opensGate: false },
    ...{ open: (asked) => store.open(key, sha256, asked), ...call },
  });
  assert.is(metadata?.sha256, sha256);
  return treeLines(join(root, "data"));
}

/** Changes each record as an older version would have written it. */
function rewriteRecords(folder: string, change: (record: Record<string, unknown>) => void): void {
  for (const name of readdirSync(folder, { recursive: true }).map(String)) {
    if (!name.endsWith(".json")) continue;
    const record = JSON.parse(readFileSync(join(folder, name), "utf8"));
    change(record);
    writeFileSync(join(folder, name), `${JSON.stringify(record)}\n`);
  }
}

const variants: [what: string, change: (context: Context) => void][] = [
  ["as they were left", () => undefined],
  ["without the mark, which older versions did not write", ({ archives }) => rmSync(join(archives, "../.marked"))],
  [
    "without the pod in their records, which older versions did not write",
    ({ archives }) => rewriteRecords(archives, (record) => delete record.podUid),
  ],
  [
    "with more in their records than this version knows",
    ({ archives }) => rewriteRecords(archives, (record) => Object.assign(record, { later: { field: 1 } })),
  ],
];

for (const [what, change] of variants) {
  const where = isOverVolume ? "" : ", moved to object storage";
  test(`${what}${where}: they are listed, restored, and kept by the next save`, async (context) => {
    const { store, endpoint } = context.served;
    change(context);
    if (!isOverVolume) {
      const from = createStoreClient({ connection: createStoreConnection({ endpoint: async () => endpoint }) });
      await copyStore({ from, to: store }, { ...call, deletes: false, onKey: () => undefined });
    }
    const { state, newest, versions } = await store.look(key, call);
    assert.equal([state, versions.map(({ kept }) => kept)], ["kept", ["replaced"]]);
    const [last = "", before = ""] = [newest, ...versions].map((one) => one?.sha256);
    const listed = await listAll(store, { versions: true });
    assert.equal(listed.map(({ metadata }) => metadata?.sha256).sort(), [last, before].sort());
    assert.equal(await restored(store, context, last), lines);
    assert.match((await restored(store, context, before)).join(), /^\/file 644 \d+ 22 \w{16} $/);

    await save(store, "of this version", key, { keep: "replaced" });
    assert.equal(
      (await store.look(key, call)).versions.map(({ sha256 }) => sha256),
      [last, before],
    );
    assert.equal(await restored(store, context, last), lines);
    if (isOverVolume) assert.ok(existsSync(join(context.archives, "../.marked")));
  });
}

test.run();
