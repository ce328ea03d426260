import { createHash, randomBytes, randomInt } from "node:crypto";
import * as fs from "node:fs";
import { basename, dirname, join } from "node:path";
import { Writable } from "node:stream";
import * as assert from "uvu/assert";
import { ArchiveError } from "../../../crds/archive/archive-error.ts";
import { NetworkError } from "../../../crds/client/api-error.ts";
import type { Exec } from "../../../crds/client/exec/exec.ts";
import { StoreError, StoreFullError } from "../../../crds/snapshots/snapshot-store.ts";
import { isRecordOf, recordPath } from "../../../operator/snapshots/helper/store/volume-files.ts";
import { errorOf } from "../../error-of.ts";
import { createRandom } from "../../random.ts";
import {
  type Context,
  changeSomething,
  createFor,
  differences,
  increments,
  led,
  podOf,
  restore,
  saved,
  saveFirst,
} from "./increments.ts";
import { call, key } from "./store-contract.ts";
import { isOverVolume } from "./store-server.ts";
import { makeTree } from "./tree.ts";

/** How many saves of changed files are compared. */
const SEQUENCES = Number(process.env.TENANCY_MODEL_SEQUENCES ?? 20);
/** Of a tree, each after some changes. */
const SAVES = 20;

const test = increments("increments");
const { signal } = call;

/** Of a store that composes, what is sent has only the changes. */
const MOST_SENT = isOverVolume ? 40_000 : Number.POSITIVE_INFINITY;

for (const into of ["waiting", "held"] as const) {
  test(`of many files a few changed ones are read, and the archive has all (${into})`, async (context) => {
    await saveFirst(context);
    for (let round = 0; round < 3; round += 1) {
      const { pod, data } = await restore(context, `pod ${round}`, into);
      fs.writeFileSync(join(data, "dir 3/file 7"), `changed in ${round}`);
      fs.writeFileSync(join(data, `dir 4/new 'quoted' \n ${round}`), "new");
      fs.rmSync(join(data, `dir 5/file ${round}`));
      fs.renameSync(join(data, `dir 6/file ${round}`), join(data, `dir 7/moved ${round}`));
      fs.linkSync(join(data, "dir 8/file 1"), join(data, `dir 8/link ${round}`));
      context.read.bytes = 0;
      const [sent, ...more] = await saved(context, { pod, data });
      assert.ok(context.read.bytes < 300_000, `${context.read.bytes} bytes came from the pod`);
      assert.ok(
        sent && more.length === 0 && sent.onto === isOverVolume && sent.bytes < MOST_SENT,
        JSON.stringify(sent),
      );
      const back = await restore(context, `back ${round}`, into);
      assert.equal(differences(back.data, data), []);
      assert.is((await context.snapshots.save(key, back.pod, led)).isUnchanged, true);
    }
  });
}

test("all names, types and modes are read as parts too", async (context) => {
  await saveFirst(context);
  const { pod, data } = await restore(context, "pod");
  fs.mkdirSync(join(data, "all"));
  makeTree(join(data, "all"));
  fs.rmSync(join(data, "all/pipe"));
  context.read.parts = 0;
  const [sent] = await saved(context, { pod, data });
  assert.equal([context.read.parts, sent?.onto], [1, isOverVolume]);
});

test("the limits and quotas are those of the whole archive", async (context) => {
  await saveFirst(context);
  const before = await context.served.store.look(key, call);
  const most = 6 * 1024 * 1024;
  for (const [limits, refusal, attempts] of [
    [{ room: { maxArchiveBytes: most, volumeBytes: 2 ** 50 } }, /TENANCY_SNAPSHOT_LIMIT/, [isOverVolume, false]],
    [{ most: { tenantBytes: most } }, /TENANCY_SNAPSHOT_TENANT_LIMIT/, [isOverVolume]],
  ] as const) {
    context.snapshots = createFor(context, limits);
    const { pod, data } = await restore(context, String(refusal).slice(1, -1));
    fs.writeFileSync(join(data, "more"), randomBytes(2 * 1024 * 1024));
    context.sent.length = 0;
    assert.match(String(await errorOf(context.snapshots.save(key, pod, led))), refusal);
    assert.equal(
      context.sent.map(({ onto }) => onto),
      attempts,
    );
    assert.equal(await context.served.store.look(key, call), before);
  }
});

test("what is deleted on a volume that is almost full makes room", async (context) => {
  await saveFirst(context);
  const [MiB, large] = [1024 * 1024, join(context.folder, "from/data/larger")];
  fs.writeFileSync(large, randomBytes(30 * MiB));
  await context.snapshots.save(key, podOf("from"), led);
  context.archives.space = async () => ({ freeBytes: 70 * MiB, totalBytes: 1000 * MiB });
  context.snapshots = createFor(context, { room: { maxArchiveBytes: 2 ** 40, volumeBytes: 1000 * MiB } });
  const { pod, data } = await restore(context, "pod");
  for (const name of ["large", "larger"]) fs.rmSync(join(data, name));
  const sent = await saved(context, { pod, data });
  assert.equal(
    sent.map(({ onto }) => onto),
    [isOverVolume],
  );
});

test("no name of a folder is taken for an answer of the restore, and each is known", async (context) => {
  await saveFirst(context);
  const names = [
    "exit-status 0",
    "exit-status 1",
    "answer of folders ",
    "answer at 2100-01-01 00:00:00.000000001 +0000 1.0 1.0 1.0",
  ];
  for (const name of names) fs.mkdirSync(join(context.folder, `from/data/a\n${name}\nb`));
  await context.snapshots.save(key, podOf("from"), led);
  const { pod, data } = await restore(context, "pod");
  for (const name of names) fs.writeFileSync(join(data, `a\n${name}\nb/file`), "new");
  context.read.parts = 0;
  await saved(context, { pod, data });
  assert.is(context.read.parts, 1);
});

test("a file that is written to during the save costs no second try, also beside symlinks", async (context) => {
  fs.mkdirSync(join(context.folder, "from/data"), { recursive: true });
  fs.symlinkSync("nowhere", join(context.folder, "from/data/link"));
  fs.lutimesSync(join(context.folder, "from/data/link"), 1_000_000_000, 1_000_000_000);
  await saveFirst(context);
  const { pod, data } = await restore(context, "pod");
  fs.writeFileSync(join(data, "log"), "begun\n");
  const { put } = context.archives;
  context.archives.put = async (to, archive, asked) => {
    // The list before is complete by then.
    fs.appendFileSync(join(data, "log"), "more\n");
    return await put(to, archive, asked);
  };
  context.read.parts = 0;
  await context.snapshots.save(key, pod, led);
  assert.equal([context.read.parts, context.sent.at(-1)?.onto], [1, isOverVolume]);
});

/** As when the connection ends after so many bytes of output. */
function cutAfter(bytes: number, exec: Exec): Exec {
  return async ({ stdout, ...asked }) => {
    const stop = new AbortController();
    let left = bytes;
    const some = new Writable({
      write(chunk: Buffer, _encoding, callback) {
        stdout?.write(chunk.subarray(0, left));
        left -= chunk.length;
        if (left < 0) stop.abort(new NetworkError("the connection was cut", { requestWasSent: true }));
        callback();
      },
    });
    return await exec({ ...asked, stdout: some, signal: AbortSignal.any([stop.signal, asked.signal ?? signal]) });
  };
}

test("a save of a part that is cut anywhere leaves the archive before, and nothing else", async (context) => {
  await saveFirst(context);
  const { pod, data } = await restore(context, "pod");
  for (let file = 0; file < 3; file += 1) fs.writeFileSync(join(data, `dir ${file}/new`), randomBytes(20_000));
  const { exec } = context;
  const before = await context.served.store.look(key, call);
  context.read.parts = 0;
  const CUTS = 25;
  // The list has about 60 KB, and what has changed 70 KB.
  for (let cut = 0; cut <= CUTS; cut += 1) {
    context.exec = cutAfter(Math.round((cut / CUTS) * 128_000), exec);
    const error = await errorOf(context.snapshots.save(key, pod, led));
    assert.match(String(error), /the connection was cut/, String(cut));
    assert.equal(await context.served.store.look(key, call), before);
  }
  assert.ok(context.read.parts > CUTS / 4, `${context.read.parts} were cut after the list`);
  context.exec = exec;
  await saved(context, { pod, data });
});

test("all files are sent where only those of the archive would be known to be unchanged", async (context) => {
  await saveFirst(context);
  const asksForAll = async (name: string, into: "waiting" | "held", change: (data: string) => void) => {
    const { pod, data } = await restore(context, name, into);
    change(data);
    const [sent] = await saved(context, { pod, data });
    assert.ok(sent && !sent.onto, name);
  };
  await asksForAll("many names", "waiting", (data) => {
    fs.mkdirSync(join(data, "many"));
    for (let file = 0; file < 1300; file += 1) fs.writeFileSync(join(data, "many", `${"x".repeat(220)}${file}`), "");
  });
  // Their folder is renamed, which none of the files shows.
  await asksForAll("a folder of many", "waiting", (data) => fs.renameSync(join(data, "many"), join(data, "moved")));
  fs.rmSync(join(context.folder, "from/data/large"));
  await context.snapshots.save(key, podOf("from"), led);
  await asksForAll("a small archive in a pod that runs", "held", (data) => fs.writeFileSync(join(data, "new"), ""));
});

/** Lets one byte of the newest archive be another. */
function damage({ folder, archives }: Context): void {
  if (isOverVolume) {
    const path = join(folder, "volume", key.tenantId, `${key.workloadRef}.tar.gz`);
    const bytes = fs.readFileSync(path);
    // The metadata of an earlier archive stays for ten minutes. If it has the same size, only the SHA-256 shows whose
    // metadata is whose, and then a damaged archive counts as unknown.
    const own = recordPath(path, createHash("sha256").update(bytes).digest("hex"));
    for (const name of fs.readdirSync(dirname(path))) {
      if (isRecordOf(basename(path), name) && name !== basename(own)) fs.rmSync(join(dirname(path), name));
    }
    bytes.writeUInt8(bytes.readUInt8(100_000) ^ 1, 100_000);
    fs.writeFileSync(path, bytes);
    return;
  }
  // As an object that was damaged: its digest is checked at its end.
  const { open } = archives;
  archives.open = async (...asked) => {
    const opened = await open(...asked);
    if (opened === undefined || asked[2].range !== undefined) return opened;
    async function* content(): AsyncGenerator<Uint8Array> {
      yield* opened?.content ?? [];
      throw new ArchiveError("Corrupt", "its SHA-256 is not the one that was recorded");
    }
    return { ...opened, content: content() };
  };
}

test("all files are sent where the store cannot compose, or the archive is damaged or of another table", async (context) => {
  const { archives } = context;
  await saveFirst(context);
  const savedAfter = async (name: string, prepare: () => void) => {
    const { pod, data } = await restore(context, name);
    fs.writeFileSync(join(data, "dir 3/file 7"), name);
    const { look, open, put } = archives;
    prepare();
    const sent = await saved(context, { pod, data });
    Object.assign(archives, { look, open, put });
    return sent.map(({ onto }) => onto);
  };
  const { put, look, open } = archives;
  const refusing = (error: StoreError) => () => {
    archives.put = async (to, archive, asked) => {
      if (asked.onto === undefined) return await put(to, archive, asked);
      context.sent.push({ bytes: 0, onto: true });
      for await (const _ of archive);
      throw error;
    };
  };
  for (const [what, error] of [
    ["an earlier store", new StoreError("Cannot POST /v1/uploads: there is no such call", { isTransient: false })],
    ["a disk that cannot be read", new StoreError("EIO: i/o error, read", { isTransient: true })],
    ["a full disk", new StoreFullError("the snapshots volume is full")],
  ] as const) {
    assert.equal(await savedAfter(what, refusing(error)), isOverVolume ? [true, false] : [false]);
  }
  assert.equal(await savedAfter("a damaged archive", () => damage(context)), [isOverVolume, false]);
  const withOtherTable = () => {
    archives.look = async (...asked) => {
      const { newest, ...kept } = await look(...asked);
      const table = newest?.table && { ...newest.table, sha256: "0".repeat(64) };
      return { ...kept, newest: newest && { ...newest, table } };
    };
  };
  assert.equal(await savedAfter("the table of another archive", withOtherTable), [false]);
  const withoutRanges = () => {
    archives.open = async (of, sha256, asked) => {
      if (asked.range !== undefined) throw new StoreError("it sends all of it", { isTransient: false });
      return await open(of, sha256, asked);
    };
  };
  assert.equal(await savedAfter("a store without ranges", withoutRanges), [false]);
});

test("after any changes the archive has what the pod has", async (context) => {
  const seed = Number(process.env.TENANCY_MODEL_SEED ?? randomInt(2 ** 31));
  const trees = Math.ceil(SEQUENCES / SAVES);
  let increments = 0;
  for (let tree = 0; tree < trees; tree += 1) {
    const random = createRandom(seed + tree);
    const from = join(context.folder, `from ${tree}/data`);
    for (const name of ["a/b/c", "d", "e/f"]) fs.mkdirSync(join(from, name), { recursive: true });
    for (let file = 0; file < 40; file += 1) {
      const folder = ["", "a", "a/b", "a/b/c", "d", "e/f"][random(6)] ?? "";
      fs.writeFileSync(join(from, folder, `file ${file}`), Buffer.alloc(random(90_000), `${file} `));
    }
    await context.snapshots.save(key, podOf(`from ${tree}`), led);
    for (let save = 0; save < SAVES; save += 1) {
      const { pod, data } = await restore(context, `pod ${tree} ${save}`);
      for (let changes = random(6); changes >= 0; changes -= 1) changeSomething(data, random);
      context.read.parts = 0;
      try {
        await saved(context, { pod, data });
      } catch (error) {
        throw new Error(`TENANCY_MODEL_SEED=${seed + tree}, save ${save}: ${error}`, { cause: error });
      }
      increments += context.read.parts;
      context.snapshots.forgetPod(pod);
      fs.rmSync(join(data, ".."), { recursive: true });
    }
  }
  assert.ok(increments > (trees * SAVES) / 2, `${increments} of ${trees * SAVES} saves read only what had changed`);
});

test.run();
