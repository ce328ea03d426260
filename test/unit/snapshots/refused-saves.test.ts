import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { chmod } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Exec } from "../../../crds/client/exec/exec.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation } from "../../../crds/labels.ts";
import { QuotaError, type SnapshotStore } from "../../../crds/snapshots/snapshot-store.ts";
import { SAY_FILE_SYSTEM, SAY_POD_TIME } from "../../../operator/snapshots/pods/pod-time.ts";
import { TOOLS_BUSYBOX } from "../../../operator/snapshots/pods/pod-tools.ts";
import { createSnapshots, type Snapshots } from "../../../operator/snapshots/snapshots.ts";
import { errorOf } from "../../error-of.ts";
import { localExec } from "./local-exec.ts";
import { staticBusybox } from "./static-busybox.ts";
import { call, key, load, MOST, save } from "./store-contract.ts";
import { type ServedStore, serveStore } from "./store-server.ts";

interface Context {
  folder: string;
  served: ServedStore;
  store: SnapshotStore;
  /** What was sent to the store so far. */
  uploads: number;
  /** By how much the pod's clock is ahead of its files. */
  aheadMs: number;
  fileSystem: string;
  snapshots(tenantBytes: number): Snapshots;
  pod: Pod;
}

const test = suite<Context>("saves that a quota refuses");
const { signal } = call;
const other = { ...key, workloadRef: "other" };
const LATER_MS = 600_000;

test.before.each(async (context) => {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-refused-"));
  for (const name of ["volume", "pod", "pod/data"]) mkdirSync(join(folder, name));
  await chmod(folder, 0o755);
  const served = await serveStore(join(folder, "volume"));
  Object.assign(context, { folder, served, uploads: 0, aheadMs: LATER_MS, fileSystem: "ef53" });
  const exec: Exec = ({ command, ...asked }) => {
    const aheadAt = Date.now() + context.aheadMs;
    const now = new Date(aheadAt).toISOString().replace("T", " ").slice(0, 23);
    const there = (word: string): string =>
      ({ [TOOLS_BUSYBOX]: staticBusybox, "/": join(folder, asked.pod) })[word] ??
      word
        .replace(SAY_FILE_SYSTEM, `echo file system ${context.fileSystem}`)
        .replace(SAY_POD_TIME, `echo "answer at ${now}000000 +0000 ${(aheadAt / 1000).toFixed(6)} 99999.99 99999.99"`);
    return localExec({ ...asked, command: command.map(there) });
  };
  context.store = served.store;
  const archives: SnapshotStore = {
    ...served.store,
    put(to, archive, options) {
      context.uploads += 1;
      return served.store.put(to, archive, options);
    },
  };
  const mark = { advice: "", wasSeen: async () => false, remember: async () => undefined };
  context.snapshots = (tenantBytes) =>
    createSnapshots({ exec, archives, mark, most: { ...MOST, tenantBytes }, namespace: "n", timeoutMs: 20_000 });
  context.pod = {
    metadata: { name: "pod", uid: "uid of the pod", annotations: { [annotation.overlayDirs]: '["/data"]' } },
    spec: { containers: [] },
  };
});
test.after.each(async ({ folder, served }) => {
  await served.close();
  rmSync(folder, { recursive: true, maxRetries: 20 });
});

function write({ folder }: Context, name: string, bytes: number): void {
  const path = join(folder, "pod/data", name);
  writeFileSync(
    path,
    Buffer.from(Array.from({ length: bytes }, (_, index) => (index * index * 31 + (index >> 3)) % 251)),
  );
  // As a program that hides what it has done.
  utimesSync(path, 1_700_000_000, 1_700_000_000);
}

async function refusal(snapshots: Snapshots, pod: Pod): Promise<string> {
  const error = await snapshots.save(key, pod, { signal, isFenced: () => false }).then(
    () => new Error("it was saved"),
    (failure: unknown) => failure as Error,
  );
  assert.instance(error, QuotaError, String(error));
  return error.message;
}

test("nothing is sent where the tenant has no byte left, and all is once it has", async (context) => {
  const { store, pod } = context;
  write(context, "file", 1000);
  await save(store, "x".repeat(2000), other);
  for (const tenantBytes of [1500, 2000]) {
    const said = await refusal(context.snapshots(tenantBytes), pod);
    assert.match(
      said,
      /\(TENANCY_SNAPSHOT_TENANT_LIMIT, or snapshotMb of its quota\) for tenant "a\.b": delete snapshots of other workloads/,
    );
  }
  const byQuota = await errorOf(
    context.snapshots(10_000).save(key, pod, { signal, isFenced: () => false, limits: { snapshotMb: 0 } }),
  );
  assert.instance(byQuota, QuotaError, String(byQuota));
  assert.is(context.uploads, 0);
  await context.snapshots(10_000).save(key, pod, { signal, isFenced: () => false });
  assert.is(context.uploads, 1);
  // What takes no more than it did is taken, however low the limit is by now.
  write(context, "file", 10);
  await context.snapshots(1).save(key, pod, { signal, isFenced: () => false });
  assert.is(context.uploads, 2);
});

test("what was refused is not sent again while it is the same, and at once where it fits", async (context) => {
  const { store, pod } = context;
  write(context, "file", 100_000);
  await save(store, "x".repeat(2000), other);
  const snapshots = context.snapshots(3000);
  const first = await refusal(snapshots, pod);
  // Only the second knows what the files were before.
  assert.is(await refusal(snapshots, pod), first);
  assert.is(context.uploads, 2);
  for (let tries = 0; tries < 3; tries += 1) assert.is(await refusal(snapshots, pod), first);
  assert.is(context.uploads, 2);
  // Others' room counts as it is at each try.
  await store.delete(other, call);
  await save(store, "x".repeat(1000), other);
  await refusal(snapshots, pod);
  assert.is(context.uploads, 2);
  await save(store, "x", other);
  const sizes = async () => (await store.look(key, call)).newest?.sizeBytes ?? 0;
  const roomy = context.snapshots(1_000_000);
  await roomy.save(key, pod, { signal, isFenced: () => false });
  const needed = (await sizes()) + 1;
  await store.delete(key, call);
  const exact = context.snapshots(needed);
  await save(store, "xx", other);
  for (let tries = 0; tries < 4; tries += 1) await refusal(exact, pod);
  assert.is(context.uploads, 5);
  await save(store, "x", other);
  await exact.save(key, pod, { signal, isFenced: () => false });
  assert.equal([context.uploads, await sizes()], [6, needed - 1]);
  assert.ok(await load(store));
});

const changes: [string, (context: Context) => void][] = [
  ["a file that became smaller, with the times of before", (context) => write(context, "file", 10)],
  ["a file of the same size", (context) => write(context, "file", 100_000)],
  ["a file that is gone", ({ folder }) => rmSync(join(folder, "pod/data/file"))],
  ["files that were changed a minute ago", (context) => Object.assign(context, { aheadMs: 60_000 })],
  ["a file system whose times do not tell", (context) => Object.assign(context, { fileSystem: "1021994" })],
];
for (const [what, change] of changes) {
  test(`is sent again: ${what}`, async (context) => {
    const { store, pod } = context;
    write(context, "file", 100_000);
    await save(store, "x".repeat(2000), other);
    const snapshots = context.snapshots(2900);
    for (let tries = 0; tries < 3; tries += 1) await refusal(snapshots, pod);
    assert.is(context.uploads, 2);
    change(context);
    await snapshots.save(key, pod, { signal, isFenced: () => false }).catch((error: unknown) => {
      assert.instance(error, QuotaError);
    });
    assert.is(context.uploads, 3);
  });
}

test.run();
