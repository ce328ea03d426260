import { mkdirSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import * as assert from "uvu/assert";
import { ArchiveError } from "../../../crds/archive/archive-error.ts";
import type { StoreMark } from "../../../crds/snapshots/store-mark.ts";
import { createArchiveLooks } from "../../../operator/snapshots/archive-looks.ts";
import { call, key, save } from "./store-contract.ts";
import { volumeSuite } from "./volume-suite.ts";

const test = volumeSuite("createArchiveLooks");

const nowhere: StoreMark = { advice: "", wasSeen: async () => false, remember: async () => undefined };
const newcomer = { tenantId: "new", workloadRef: "w" };

async function errorOf(attempt: Promise<unknown>): Promise<string> {
  return await attempt.then(() => "no error", String);
}

test("find: the newest archive, or a version by its digits", async ({ store: archives }) => {
  const looks = createArchiveLooks({ archives, mark: nowhere });
  assert.is(await looks.find(key, call), undefined);
  const { metadata: first } = await save(archives, "the first");
  const { metadata: second } = await save(archives, "the second one", key, { keep: "replaced" });
  assert.equal(await looks.find(key, call), second);
  for (const version of [first.sha256, first.sha256.slice(0, 16)]) {
    assert.equal({ ...(await looks.find(key, { ...call, version })) }, { ...first, kept: "replaced" });
  }
  assert.equal(await looks.find(key, { ...call, version: second.sha256.slice(0, 16) }), second);
  const unknown = await looks.find(key, { ...call, version: "0123456789abcdef" }).catch((error: unknown) => error);
  assert.ok(unknown instanceof ArchiveError && unknown.reason === "NoVersion");
  assert.is(
    unknown.message,
    `there is no version 0123456789abcdef of it: there are ${second.sha256.slice(0, 16)} of ${second.createdAt} (the newest), ${first.sha256.slice(0, 16)} of ${first.createdAt}`,
  );
  assert.match(await errorOf(looks.find(newcomer, { ...call, version: "0123456789abcdef" })), "there is none");
});

test("find: an archive that nothing recorded fits is not taken for none", async ({ root, store: archives }) => {
  await save(archives, "good");
  writeFileSync(join(root, "a.b/c.tar.gz.tar.gz"), "evil");
  const looks = createArchiveLooks({ archives, mark: nowhere });
  const { sha256 } = (await looks.find(key, call)) ?? {};
  assert.ok(sha256 !== undefined, "of one size: its reader finds out");
  writeFileSync(join(root, "a.b/c.tar.gz.tar.gz"), "evil and longer");
  assert.match(await errorOf(looks.find(key, call)), "ArchiveError: the archive has changed: it does not match");
  for (const name of readdirSync(join(root, "a.b"))) if (name.endsWith(".json")) rmSync(join(root, "a.b", name));
  assert.match(await errorOf(looks.find(key, call)), "ArchiveError: the archive has changed: it does not match");
});

test("once the mark of a volume was seen, an empty folder in its place is not believed", async ({
  root,
  store: archives,
}) => {
  const looks = createArchiveLooks({ archives, mark: nowhere });
  assert.is(await looks.find(newcomer, call), undefined, "a new volume has no mark");
  const { metadata } = await save(archives, "kept");
  assert.is(await looks.find(newcomer, call), undefined);
  renameSync(root, `${root}-away`);
  assert.match(await errorOf(looks.find(newcomer, call)), /ENOENT|no such file/);
  mkdirSync(root);
  assert.match(await errorOf(looks.find(newcomer, call)), "mark that was in the store is gone");
  assert.match(await errorOf(looks.look(key, call)), "mark that was in the store is gone");
  rmSync(root, { recursive: true });
  renameSync(`${root}-away`, root);
  assert.equal(await looks.find(key, call), metadata);

  rmSync(root, { recursive: true });
  mkdirSync(root);
  looks.forgetMark();
  assert.is(await looks.find(newcomer, call), undefined, "it was made anew");
});

test("what a save has marked is not believed without its mark, though nobody has looked since", async ({
  root,
  store: archives,
}) => {
  const looks = createArchiveLooks({ archives, mark: nowhere });
  await save(archives, "kept");
  looks.noteMark();
  rmSync(root, { recursive: true });
  mkdirSync(root);
  assert.match(await errorOf(looks.find(newcomer, call)), "mark that was in the store is gone");
});

test("what another operator has seen is asked before a volume without its mark is believed, and what this one sees is told once", async ({
  root,
  store: archives,
}) => {
  await save(archives, "kept");
  let told = 0;
  let wasSeen = async (): Promise<boolean> => true;
  const mark: StoreMark = {
    advice: "",
    wasSeen: () => wasSeen(),
    async remember() {
      told += 1;
      if (told === 1) throw new Error("no connection");
    },
  };
  const right = createArchiveLooks({ archives, mark });
  for (let looks = 0; looks < 3; looks += 1) assert.is(await right.find(newcomer, call), undefined);
  assert.is(told, 2, "once more after it failed");

  rmSync(root, { recursive: true });
  mkdirSync(root);
  const next = () => createArchiveLooks({ archives, mark });
  for (const looks of [next(), next()]) {
    assert.match(await errorOf(looks.find(newcomer, call)), "mark that was in the store is gone");
  }
  wasSeen = () => Promise.reject(new Error("no answer"));
  assert.match(await errorOf(next().find(newcomer, call)), "no answer");
  wasSeen = async () => false;
  assert.is(await next().find(newcomer, call), undefined, "nobody has seen one");
});

test("a volume with archives from before there were marks is as it was", async ({ root, store: archives }) => {
  const { metadata } = await save(archives, "kept");
  rmSync(join(root, ".marked"));
  const looks = createArchiveLooks({ archives, mark: nowhere });
  assert.equal(await looks.find(key, call), metadata);
  assert.is(await looks.find(newcomer, call), undefined);
});

test.run();
