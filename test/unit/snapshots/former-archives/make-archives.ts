// Makes what is in this folder anew, with the programs of an older checkout that kept archives by shell commands in the
// helper pod (such as f1fd1bd8), on folders of this machine in the place of pods:
//
//   node --import tsx test/unit/snapshots/former-archives/make-archives.ts CHECKOUT
import { cpSync, mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { archiveLimits } from "../../../../crds/archive/archive-limits.ts";
import type { SnapshotKey } from "../../../../crds/snapshots/snapshot-key.ts";
import type { SnapshotMetadata } from "../../../../crds/snapshots/snapshot-metadata.ts";
import { localExec } from "../local-exec.ts";
import { staticBusybox } from "../static-busybox.ts";
import { makeTree, treeLines } from "../tree.ts";

/** The slice of the former store that is used here. */
interface FormerStore {
  write(
    key: SnapshotKey,
    archive: AsyncIterable<Uint8Array>,
    options: { describe(): object },
  ): Promise<SnapshotMetadata>;
}

const checkout = resolve(process.argv[2] ?? "");
const { createArchiveStore } = (await import(join(checkout, "operator/snapshots/archive-store.ts"))) as {
  createArchiveStore(options: object): FormerStore;
};
const { saveOverlay } = (await import(join(checkout, "operator/snapshots/pods/save-overlay.ts"))) as {
  saveOverlay(options: object): Promise<SnapshotMetadata>;
};

const POD_UID = "0e5f4c1e-7c1d-4f6e-9a53-6a1c9a0f2b11";
const key = { tenantId: "Tenant_1", workloadRef: "keeps" };
const folder = mkdtempSync(join(tmpdir(), "tenancy-former-"));
const place = { namespace: "here", pod: "this", container: "machine", busybox: staticBusybox };
const volume = join(folder, "volume");
const store = createArchiveStore({ exec: localExec, folder: { ...place, root: volume } });

/** Saves what is in a folder, as a session that did not go on from the archive before. */
async function save(root: string, replaces?: string): Promise<SnapshotMetadata> {
  const over = replaces === undefined ? {} : { replaces, keeps: true };
  const write: FormerStore["write"] = (to, archive, options) => {
    const describe = (): object => ({ ...options.describe(), podUid: POD_UID });
    return store.write(to, archive, { ...options, ...over, describe });
  };
  return await saveOverlay({
    ...{ exec: localExec, store: { ...store, write }, key, pod: { ...place, root }, overlayDirs: ["/data"] },
    ...{ limits: archiveLimits({ diskGb: 1 }), signal: new AbortController().signal, timeoutMs: 60_000 },
  });
}

for (const name of ["volume", "before/data", "pod/data"]) mkdirSync(join(folder, name), { recursive: true });
writeFileSync(join(folder, "before/data/file"), "of the session before\n", { mode: 0o644 });
const { sha256 } = await save(join(folder, "before"));
const data = join(folder, "pod/data");
makeTree(data);
// What is in the repository is small.
truncateSync(join(data, "sparse"), 300_000);
await save(join(folder, "pod"), sha256);
rmSync(join(import.meta.dirname, "volume"), { recursive: true, force: true });
cpSync(volume, join(import.meta.dirname, "volume"), { recursive: true });
writeFileSync(join(import.meta.dirname, "lines.json"), `${JSON.stringify(treeLines(data), undefined, 2)}\n`);
rmSync(folder, { recursive: true });
