// @limit 120
import { chmodSync, linkSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parseSnapshotList } from "../../../crds/snapshots/parse-snapshot-list.ts";
import { storeCommand } from "../../../crds/snapshots/store-folder.ts";
import { storeScripts } from "../../../crds/snapshots/store-scripts.ts";
import { collectOutput } from "../../../operator/snapshots/exec-output.ts";
import { localExec } from "./local-exec.ts";
import { staticBusybox } from "./static-busybox.ts";

const test = suite<{ folder: string; root: string }>("the list of archives");
const { signal } = new AbortController();

test.before.each((context) => {
  context.folder = mkdtempSync(join(tmpdir(), "tenancy-list-"));
  context.root = join(context.folder, "volume");
  mkdirSync(context.root);
});
test.after.each(({ folder }) => rmSync(folder, { recursive: true }));

function save(root: string, tenantId: string, content = "an archive", digest = "ab".repeat(32)): void {
  mkdirSync(join(root, tenantId), { recursive: true });
  writeFileSync(metadataOf(root, tenantId, digest), recordOf(tenantId, "app", content.length, digest));
  writeFileSync(archiveOf(root, tenantId), content);
}

function recordOf(tenantId: string, workloadRef: string, sizeBytes: number, sha256 = "ab".repeat(32)): string {
  const metadata = {
    ...{ sha256, sizeBytes, tenantId, workloadRef, uid: 1, gid: 1 },
    ...{ createdAt: "2026-11-21T12:00:00.000Z", entries: 1, contentBytes: 10, overlayDirs: ["/dätä"] },
  };
  return `${JSON.stringify(metadata)}\n`;
}

const archiveOf = (root: string, tenantId: string): string => join(root, tenantId, "app.tar.gz");
const metadataOf = (root: string, tenantId: string, digest = "ab".repeat(32)): string =>
  `${archiveOf(root, tenantId)}.${digest.slice(0, 16)}.json`;

function run(root: string, busybox = staticBusybox) {
  const folder = { namespace: "n", pod: "p", container: "c", root, busybox };
  const target = storeCommand(folder, { script: storeScripts.list, words: [".", "2"], limitMs: 60_000 });
  return collectOutput(localExec, { target, signal, timeoutMs: 60_000 });
}

async function list(root: string, busybox?: string) {
  const { exitCode, stdout, stderr } = await run(root, busybox);
  assert.is(exitCode, 0, stderr);
  const found = parseSnapshotList(stdout);
  assert.ok(found, stdout);
  return found;
}

/** A busybox that runs a script of this machine before its first, second or third look at the volume. */
function busyboxThat(folder: string, look: 1 | 2 | 3, script: string): string {
  const path = join(folder, "busybox");
  writeFileSync(
    path,
    `#!${staticBusybox} sh
case "$1" in
  find) echo x >> '${folder}/looks'; [ "$(${staticBusybox} wc -l < '${folder}/looks')" != ${look} ] || { ${script}; } ;;
esac
exec ${staticBusybox} "$@"
`,
  );
  chmodSync(path, 0o755);
  return path;
}

test("is whole, and every shorter one is noticed", async ({ root }) => {
  for (const tenant of ["a", "b", "c"]) save(root, tenant);
  const { stdout } = await run(root);
  assert.is(parseSnapshotList(stdout)?.snapshots.length, 3);
  for (let length = 0; length < stdout.length; length += 1) {
    assert.is(parseSnapshotList(stdout.slice(0, length)), undefined, `cut at ${length}`);
  }
  const lines = stdout.split("\n");
  for (let index = 0; index < lines.length - 1; index += 1) {
    assert.is(parseSnapshotList(lines.toSpliced(index, 1).join("\n")), undefined, `without line ${index}`);
  }
});

test("of an empty volume is empty, and of one that is not there fails", async ({ root }) => {
  assert.equal(await list(root), { snapshots: [], unrecorded: [] });
  assert.is((await run(join(root, "nowhere"))).exitCode, 1);
});

test("has each archive once while it is replaced or deleted, before any look", async ({ folder, root }) => {
  const [old, young] = ["11".repeat(32), "22".repeat(32)];
  for (const look of [1, 2, 3] as const) {
    rmSync(join(folder, "looks"), { force: true });
    save(root, "a", "the old one", old);
    save(root, "b");
    save(join(folder, "next"), "a", "the new and longer one", young);
    const next = join(folder, "next", "a");
    const replace = `mv ${next}/*.json ${next}/app.tar.gz ${root}/a/; rm -f ${metadataOf(root, "a", old)}`;
    const { snapshots, unrecorded } = await list(root, busyboxThat(folder, look, replace));
    assert.equal(unrecorded, []);
    assert.equal(snapshots.map(({ tenantId }) => tenantId).sort(), ["a", "b"]);
    const { sha256, sizeBytes } = snapshots.find(({ tenantId }) => tenantId === "a") ?? {};
    assert.is(sizeBytes, (sha256 === old ? "the old one" : "the new and longer one").length);

    rmSync(join(folder, "looks"));
    const erase = `rm ${archiveOf(root, "a")} ${root}/a/*.json; rmdir ${root}/a`;
    const after = await list(root, busyboxThat(folder, look, erase));
    assert.equal(after.unrecorded, []);
    assert.ok(after.snapshots.some(({ tenantId }) => tenantId === "b"));

    rmSync(join(folder, "looks"));
    save(join(folder, "next"), "c");
    const first = await list(root, busyboxThat(folder, look, `mv ${join(folder, "next", "c")} ${root}/c`));
    assert.equal(first.unrecorded, []);
    rmSync(join(root, "c"), { recursive: true });
  }
});

test("passes over what is deleted between the listing of a folder and the look at a file", async ({ folder, root }) => {
  for (const tenant of ["a", "b", "c"]) save(root, tenant);
  const path = join(folder, "vanishing");
  writeFileSync(
    path,
    `#!${staticBusybox} sh
case "$1" in stat | sed) rm -rf ${root}/b ;; esac
exec ${staticBusybox} "$@"
`,
  );
  chmodSync(path, 0o755);
  const { snapshots, unrecorded } = await list(root, path);
  assert.equal(snapshots.map(({ tenantId }) => tenantId).sort(), ["a", "c"]);
  assert.equal(unrecorded, []);
});

test("fails when a file cannot be read, or what reads it is ended", async ({ folder, root }) => {
  save(root, "a");
  const path = join(folder, "failing");
  for (const [program, failure, said] of [
    ["stat", "echo \"stat: can't stat './a/app.tar.gz': Input/output error\" >&2; exit 1", /Input\/output error/],
    ["sed", 'echo "sed: read error: Input/output error" >&2; exit 1', /Input\/output error/],
    ["sed", "kill -9 $$", /records was ended/],
    ["find", "exit 1", /archives was ended/],
    ["awk", "exit 1", /^/],
  ] as const) {
    writeFileSync(
      path,
      `#!${staticBusybox} sh\n[ "$1" != ${program} ] || { ${failure}; }\nexec ${staticBusybox} "$@"\n`,
    );
    chmodSync(path, 0o755);
    const { exitCode, stdout, stderr } = await run(root, path);
    assert.is(exitCode, 1, `${program} ${failure}`);
    assert.match(stderr, said);
    assert.is(parseSnapshotList(stdout), undefined);
  }
});

test("tells archives without what was recorded of them, and leaves out what is no archive", async ({ root }) => {
  save(root, "a");
  save(root, "lost");
  rmSync(metadataOf(root, "lost"));
  save(root, "grown");
  writeFileSync(archiveOf(root, "grown"), "another size altogether");
  save(root, "unparsable");
  writeFileSync(metadataOf(root, "unparsable"), "{}\n{not JSON");
  save(root, "lost+found");
  save(root, "-not-a-tenant");
  writeFileSync(join(root, "top.tar.gz"), "no tenant's");
  mkdirSync(join(root, "a", "deep"));
  writeFileSync(join(root, "a", "deep", "x.tar.gz"), "too deep");
  writeFileSync(join(root, "a", "new\nline.tar.gz"), "no name of a workload");
  const { snapshots, unrecorded } = await list(root);
  assert.equal(
    snapshots.map(({ tenantId }) => tenantId),
    ["a"],
  );
  assert.equal(unrecorded.map(({ tenantId, sizeBytes }) => `${tenantId} ${sizeBytes}`).sort(), [
    "grown 23",
    "lost 10",
    "unparsable 10",
  ]);
});

test("of ten thousand archives comes in one go", async ({ folder, root }) => {
  // One file under many names, since making so many would be most of the work.
  const archive = join(folder, "archive");
  writeFileSync(archive, "an archive");
  for (let tenant = 0; tenant < 100; tenant += 1) {
    mkdirSync(join(root, `t${tenant}`));
    for (let workload = 0; workload < 100; workload += 1) {
      const path = join(root, `t${tenant}`, `app${workload}.tar.gz`);
      writeFileSync(`${path}.${"ab".repeat(8)}.json`, recordOf(`t${tenant}`, `app${workload}`, "an archive".length));
      linkSync(archive, path);
    }
  }
  const started = performance.now();
  const { stdout } = await run(root);
  const found = parseSnapshotList(stdout);
  const ms = (performance.now() - started).toFixed(0);
  console.log(`note: 10000 archives listed in ${ms} ms, ${(stdout.length / 1024 ** 2).toFixed(1)} MiB`);
  assert.is(found?.snapshots.length, 10_000);
});

test.run();
