// @own-cluster
import { randomBytes } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import type { Page } from "playwright-core";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { askedCheckpoint } from "../../crds/claims/asked-checkpoint.ts";
import { systemClock } from "../../crds/client/clock.ts";
import { claims } from "../../crds/kinds.ts";
import type { SnapshotKey } from "../../crds/snapshots/snapshot-key.ts";
import type { SnapshotStore } from "../../crds/snapshots/snapshot-store.ts";
import { createDeferred } from "../../crds/waits.ts";
import { eventually } from "../eventually.ts";
import { fileOf, type Item, pack } from "../unit/archive/packed-archives.ts";
import { rawTar } from "../unit/archive/raw-tar.ts";
import { answerCheckpoint } from "../unit/edge/claim-calls.ts";
import { type SnapshotsFolder, snapshotsFolder } from "../unit/edge/snapshots-folder.ts";
import { checkpoint } from "../unit/snapshots/checkpoint-contract.ts";
import { call, load, save } from "../unit/snapshots/store-contract.ts";
import { type ServedStore, serveStore } from "../unit/snapshots/store-server.ts";
import { saveTabled } from "../unit/snapshots/tabled-saves.ts";
import { openPage } from "./browser.ts";
import { type FakeStage, startFakeStage } from "./fake-stage.ts";

const test = suite("browser/snapshots");
const folder = mkdtempSync(join(tmpdir(), "tenancy-upload-"));
let volume: SnapshotsFolder;
let served: ServedStore;
let stage: FakeStage;
/** What is stored waits for it, so that an upload is not read any further. */
let held: Promise<void> | undefined;
/** Whether all that was to be stored was stored or refused. */
let puts: Promise<unknown> = Promise.resolve();

const most = { history: 3, replaced: 3, tenantBytes: 10_000_000_000, workloadBytes: 20_000_000_000 };
const key = (tenantId: string): SnapshotKey => ({ tenantId, workloadRef: "notes" });
const addressOf = (tenantId: string): string => `${stage.url}/dashboard/snapshots/${tenantId}/notes`;

test.before(async () => {
  volume = snapshotsFolder();
  served = await serveStore(volume.path);
  const store: SnapshotStore = {
    ...served.store,
    async put(...given) {
      const put = Promise.resolve(held).then(() => served.store.put(...given));
      puts = Promise.allSettled([puts, put]);
      return await put;
    },
  };
  stage = await startFakeStage({ store, most, snapshotLimitBytes: 2 ** 30, clock: systemClock });
  const { cluster } = stage.edge;
  cluster.addSnapshots();
  cluster.addWorkload("notes", { filesystem: { overlayDirs: ["/data"] } });
});
test.after(async () => {
  await stage?.stop();
  await served?.close();
  volume?.remove();
  rmSync(folder, { recursive: true });
});

/** Saves three versions of a tenant's files, and returns the digits that name them. */
async function saveThree(tenantId: string): Promise<string[]> {
  const { store } = served;
  const to = key(tenantId);
  const saved = [
    await save(store, "first", to, { createdAt: "2026-11-21T01:00:00.000Z" }),
    await save(store, "second", to, { createdAt: "2026-11-21T02:00:00.000Z", keep: "history", most }),
    await save(store, "third", to, { createdAt: "2026-11-21T03:00:00.000Z", keep: "replaced", most }),
  ];
  return saved.map(({ metadata }) => metadata.sha256.slice(0, 16));
}

test("the list says what each takes, its tenant and its workload, and what they may", async () => {
  const { page, assertAccessible, close } = await openPage(stage.browser);
  await saveThree("ann");
  await save(served.store, "elsewhere", { tenantId: "ann", workloadRef: "other" });
  await save(served.store, "of bob", key("bob"));
  await page.goto(`${stage.url}/dashboard/snapshots?sort=-takes`);
  const grid = page.getByRole("grid", { name: "Snapshots" });
  const cells = ["ann", "notes", "5 B", "16 B in 3", "25 B of 10.0 GB", "22 B of 20.0 GB", "can be restored"];
  const row = grid.getByRole("row", { name: /ann notes/ });
  await row.waitFor();
  for (const words of cells) await row.getByRole("gridcell", { name: words, exact: true }).waitFor();
  assert.match(await grid.getByRole("row").nth(1).innerText(), /ann[\s\S]*notes/, "sorted by what all versions take");
  await grid.getByRole("row", { name: /bob notes 6 B .* 6 B 6 B of 10\.0 GB 22 B of 20\.0 GB/ }).waitFor();
  await assertAccessible();
  await close();
});

test("all versions are listed with why they are kept, and one is gone back to once the claim has gone", async () => {
  const [first = "", second = "", third = ""] = await saveThree("cat");
  const { page, expect, assertAccessible, close } = await openPage(stage.browser);
  await page.goto(addressOf("cat"));
  const versions = page.getByRole("table", { name: "Versions" });
  const row = (digits: string) => versions.getByRole("row", { name: digits });
  await row(third).getByText("newest: restored by a claim with files").waitFor();
  await row(second).getByText("Replaced by a fresh session").waitFor();
  await row(first).getByText("A later session started from it").waitFor();
  assert.is(
    await row(third)
      .getByRole("button", { name: /^Roll back/ })
      .count(),
    0,
  );
  await assertAccessible();
  await page.setViewportSize({ width: 360, height: 740 });
  assert.is(await page.evaluate("document.documentElement.scrollWidth"), 360);
  await assertAccessible();
  await page.setViewportSize({ width: 1280, height: 800 });

  // What the API refuses while there is a claim is not offered.
  stage.edge.cluster.addClaim({ ...key("cat"), status: { phase: "Active" } });
  await page.reload();
  await page.getByText("Release it before you roll back or upload.").waitFor();
  assert.is(await page.getByRole("button", { name: /^(Roll back|Upload)/ }).count(), 0);
  stage.edge.cluster.remove(claims, "claim-cat-notes");
  await page.reload();
  await page.getByRole("banner").getByText("live").waitFor();

  const rollBack = async (): Promise<void> => {
    await row(first)
      .getByRole("button", { name: `Roll back to ${first.slice(0, 8)}` })
      .click();
    const dialog = page.getByRole("dialog", { name: `Roll notes of cat back to ${first}?` });
    await dialog.getByText("stays as an older version").waitFor();
    await assertAccessible();
    await dialog.getByRole("button", { name: "Roll back" }).click();
  };
  stage.edge.cluster.addClaim({ ...key("cat"), status: { phase: "Active" } });
  await rollBack();
  await page.getByRole("alert").getByText('tenant "cat" has a claim on workload "notes": release it').waitFor();
  assert.is(await load(served.store, key("cat")), "third");
  expect(/409/);

  stage.edge.cluster.removeClaim("claim-cat-notes");
  await rollBack();
  await page.getByRole("status").getByText(`notes of cat is rolled back to ${first}.`).waitFor();
  await row(first).first().getByText("newest").waitFor();
  assert.is(await page.getByRole("button", { name: `Roll back to ${first.slice(0, 8)}` }).count(), 0);
  await row(third).getByText("Replaced by").waitFor();
  assert.is(await load(served.store, key("cat")), "first");
  await close();
});

test("files are given to another tenant once the name of their owner is typed; what that one had stays", async () => {
  const [, second = ""] = await saveThree("dan");
  await save(served.store, "of eve", key("eve"));
  const { page, expect, assertAccessible, close } = await openPage(stage.browser);
  await page.goto(addressOf("dan"));
  await page.getByLabel("Version", { exact: true }).selectOption({ label: `${second}, 6 B` });
  const to = page.getByLabel("To tenant");
  await to.fill("no tenant");
  await to.press("Enter");
  await page.getByRole("alert").getByText("tenant").waitFor();
  expect(/400/);

  await to.fill("eve");
  await page.getByRole("button", { name: "Copy to tenant" }).click();
  const dialog = page.getByRole("dialog", { name: "Give eve the files of dan in notes?" });
  await dialog.getByText("This gives one tenant's files to another").waitFor();
  await dialog.getByText(/^The newest version of eve, from .* stays as an older version/).waitFor();
  await assertAccessible();
  const copy = dialog.getByRole("button", { name: "Copy" });
  await dialog.getByRole("textbox").fill("eve");
  assert.ok(await copy.isDisabled());
  await dialog.getByRole("textbox").fill("dan");
  await copy.click();
  await page.getByText(`eve now has the files of dan in notes, version ${second}.`).waitFor();
  assert.equal([await load(served.store, key("eve")), await load(served.store, key("dan"))], ["second", "third"]);
  const { versions } = await served.store.look(key("eve"), call);
  assert.equal(
    versions.map(({ kept }) => kept),
    ["replaced"],
  );
  assert.is(stage.edge.recorded.at(-1)?.reason, "SnapshotCopied");
  await close();
});

test("a version is claimed with, and the claim says which it was given", async () => {
  const [, second = ""] = await saveThree("ian");
  const { versions } = await served.store.look(key("ian"), call);
  const resumedFrom = versions.find(({ sha256 }) => sha256.startsWith(second))?.sha256 ?? "";
  const { page, expect, close } = await openPage(stage.browser);
  await page.goto(addressOf("ian"));
  await page.getByRole("button", { name: `Claim with ${second.slice(0, 8)}` }).click();
  const { cluster } = stage.edge;
  const name = "claim-ian-notes";
  await eventually(() => cluster.has(claims, name));
  assert.match(cluster.claim(name).spec.resumeVersion ?? "", new RegExp(`^${second}`));
  // The operator's part.
  const at = { instanceId: "inst-ian", endpoint: { host: "10.0.0.1", port: 8080 } };
  cluster.setStatus(name, { phase: "Active", source: "cold+data", resumedFrom, ...at });
  await page.getByRole("status").getByText("ian has an instance of notes").waitFor();
  await page.goto(`${stage.url}/dashboard/claims/ian/notes`);
  await page.getByText(/Restored from version [0-9a-f]{16}\./).waitFor();
  expect(/404/);
  await close();
});

test("what was saved is deleted once the tenant's name is typed", async () => {
  await save(served.store, "of ida", key("ida"));
  const { page, close } = await openPage(stage.browser);
  await page.goto(addressOf("ida"));
  await page.getByRole("button", { name: "Delete" }).click();
  const erase = page.getByRole("dialog", { name: "Delete all saved versions of ida in notes?" });
  await erase.getByText("The only version of the files is deleted").waitFor();
  await erase.getByRole("textbox").fill("ida");
  await erase.getByRole("button", { name: "Delete" }).click();
  await page.getByText("No saved versions.").waitFor();
  assert.is((await served.store.look(key("ida"), call)).newest, undefined);
  await close();
});

test("a version is downloaded as a file", async () => {
  const [, second = ""] = await saveThree("fay");
  const { page, close } = await openPage(stage.browser);
  await page.goto(addressOf("fay"));
  const begun = page.waitForEvent("download");
  await page.getByRole("link", { name: `Download ${second.slice(0, 8)}` }).click();
  const download = await begun;
  assert.is(download.suggestedFilename(), "fay-notes.tar.gz");
  assert.is(readFileSync(await download.path(), "utf8"), "second");
  await close();
});

/** Saves files with a list of them, and returns the digits that name the version. */
async function saveFiles(tenantId: string, files: readonly Item[]): Promise<string> {
  const { metadata } = await saveTabled(served.store, { archive: await pack(files), to: key(tenantId) });
  return metadata.sha256.slice(0, 16);
}

test("a checkpoint is named as one, and a version without a list of files says so", async () => {
  await save(served.store, "saved", key("jan"));
  const createdAt = "2026-11-21T13:00:00.000Z";
  const { metadata } = await checkpoint(served.store, "while it ran", { session: "s", to: key("jan"), createdAt });
  const digits = metadata.sha256.slice(0, 16);
  const { page, expect, assertAccessible, close } = await openPage(stage.browser);
  await page.goto(addressOf("jan"));
  const row = page.getByRole("table", { name: "Versions" }).getByRole("row", { name: digits });
  await row.getByText("Checkpoint of a running session, or of one that ended without a save").waitFor();
  for (const name of [`Files of ${digits.slice(0, 8)}`, `Compare ${digits.slice(0, 8)}`]) {
    await row.getByRole("link", { name }).click();
    await page.getByRole("alert").getByText("has no list of its files").waitFor();
    await assertAccessible();
    await page.goBack();
  }
  expect(/409/);
  await close();
});

test("a checkpoint of a running instance is made under a name", async () => {
  const { edge } = stage;
  edge.cluster.addClaim({ ...key("runs"), status: { phase: "Active" } });
  const { page, assertAccessible, close } = await openPage(stage.browser);
  await page.goto(addressOf("runs"));
  await page.getByLabel("Name").fill("before-upgrade");
  await assertAccessible();
  await page.getByRole("button", { name: "Save a checkpoint" }).click();
  await eventually(() => askedCheckpoint(edge.cluster.claim("claim-runs-notes"))?.name === "before-upgrade");
  const { metadata } = await checkpoint(served.store, "while it runs", { session: "s", to: key("runs") });
  await served.store.setName(key("runs"), { sha256: metadata.sha256, name: "before-upgrade" }, call);
  await answerCheckpoint(edge, "claim-runs-notes", { sha256: metadata.sha256 });
  await page.getByText("The files are saved as before-upgrade, version").waitFor();
  await page.getByText("Named before-upgrade").waitFor();
  edge.cluster.remove(claims, "claim-runs-notes");
  await close();
});

test("a name of a version is shown, and removed after a question", async () => {
  const { metadata } = await checkpoint(served.store, "while it ran", { session: "s", to: key("named") });
  await served.store.setName(key("named"), { sha256: metadata.sha256, name: "before-upgrade" }, call);
  const { page, assertAccessible, close } = await openPage(stage.browser);
  await page.goto(addressOf("named"));
  const row = page.getByRole("table", { name: "Versions" }).getByRole("row").nth(1);
  await row.getByText("Named before-upgrade").waitFor();
  await assertAccessible();
  await row.getByRole("button", { name: "Remove the name before-upgrade" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove the name" }).click();
  await page.getByText("The version no longer has the name before-upgrade.").waitFor();
  await row.getByText("Checkpoint of a running session").waitFor();
  await close();
});

test("versions are compared: what was added, changed and removed, with sizes", async () => {
  const stays = fileOf("data/stays", Buffer.from("the same"));
  const changed = (bytes: number): Item => fileOf("data/changed", Buffer.alloc(bytes, "x"));
  const oldest = await saveFiles("kim", [stays, fileOf("data/removed", Buffer.alloc(30))]);
  const before = await saveFiles("kim", [stays, changed(1000), fileOf("data/removed", Buffer.alloc(30))]);
  const mode = { ...stays, entry: { ...stays.entry, mode: 0o755 } };
  const after = await saveFiles("kim", [mode, changed(2500), fileOf("data/<b>added</b>", Buffer.alloc(7))]);
  const { page, expect, assertAccessible, close } = await openPage(stage.browser);
  await page.goto(addressOf("kim"));
  await page.getByRole("link", { name: `Compare ${after.slice(0, 8)}` }).click();
  const rows = page.getByRole("table", { name: "Changes" }).getByRole("row");
  await rows.first().waitFor();
  assert.equal(await rows.evaluateAll((all) => all.slice(1).map((one) => one.innerText.trim().split(/\t/))), [
    ["data/<b>added</b>", "added", "", "7 B"],
    ["data/changed", "changed: content", "1.0 kB", "2.5 kB"],
    ["data/removed", "removed", "30 B"],
    ["data/stays", "changed: mode 0644 → 0755", "8 B", "8 B"],
  ]);
  const sum = page.getByRole("status");
  await sum.getByText("1 added, 2 changed, 1 removed.").waitFor();
  await sum.getByText("The added and changed files have 2.5 kB, the removed ones had 30 B.").waitFor();
  await assertAccessible();

  await page.getByLabel("since").selectOption(oldest);
  await sum.getByText("2 added, 1 changed, 1 removed.").waitFor();
  await page.setViewportSize({ width: 360, height: 740 });
  assert.is(await page.evaluate("document.documentElement.scrollWidth"), 360);
  await assertAccessible();
  await page.reload();
  await sum.getByText("2 added, 1 changed, 1 removed.").waitFor();
  await page.goto(`${addressOf("kim")}?compare=${oldest}`);
  await page.getByRole("alert").getByText(`there is no version before ${oldest}`).waitFor();
  expect(/404/);
  await page.goto(`${addressOf("kim")}?compare=${before}&from=${before}`);
  await page.getByText("Nothing differs but times.").waitFor();
  await close();
});

test("the folders of a version are browsed, a long one in parts, and one file is downloaded as it was", async () => {
  const content = randomBytes(3000);
  const many = Array.from({ length: 501 }, (_, at) => fileOf(`data/many/${String(at).padStart(3, "0")}`, content));
  // As a text the name would be another one, and the browser would read "../" as a folder above.
  const odd = fileOf("data/sub/50%2F\xff <b>\u00c3\u00bc", content);
  const digits = await saveFiles("lea", [...many, odd]);
  const { page, assertAccessible, close } = await openPage(stage.browser);
  await page.goto(addressOf("lea"));
  await page.getByRole("link", { name: `Files of ${digits.slice(0, 8)}` }).click();
  const files = page.getByRole("table", { name: "Files" });
  await files.getByRole("link", { name: "data/" }).click();
  await files.getByRole("link", { name: "sub/" }).click();
  const row = files.getByRole("row", { name: "50%2F\ufffd <b>ü" });
  await row.getByText("3.0 kB").waitFor();
  assert.is(await page.evaluate("document.activeElement.innerText"), "All folders / data / sub");
  await assertAccessible();
  await page.setViewportSize({ width: 360, height: 740 });
  assert.is(await page.evaluate("document.documentElement.scrollWidth"), 360);
  const begun = page.waitForEvent("download");
  await row.getByRole("link", { name: "Download" }).click();
  assert.ok(readFileSync(await (await begun).path()).equals(content));

  await page.goBack();
  await files.getByRole("link", { name: "many/" }).click();
  await files.getByText("499", { exact: true }).waitFor();
  assert.is(await files.getByText("500", { exact: true }).count(), 0);
  await page.getByRole("button", { name: "Show more" }).click();
  await files.getByText("500", { exact: true }).waitFor();
  assert.is(await page.getByRole("button", { name: "Show more" }).count(), 0);
  assert.is(await files.getByRole("link", { name: /^Download / }).count(), 501);
  await close();
});

const archive = (content: Buffer, name = "data/file"): Buffer =>
  rawTar([
    { name: "data/", type: "5" },
    { name, content },
  ]);

async function choose(page: Page, content: Buffer): Promise<void> {
  // As a file of this machine, since what is handed over in memory the browser holds several times; as one of its own,
  // since the browser reads no file on that has changed.
  const path = join(mkdtempSync(join(folder, "one-")), "mine.tar.gz");
  writeFileSync(path, content);
  await page.getByLabel("Archive", { exact: true }).setInputFiles(path);
  await page.getByRole("button", { name: "Upload" }).click();
  await page
    .getByRole("dialog", { name: /^Upload an archive for / })
    .getByRole("button", { name: "Upload" })
    .click();
}

test("an archive takes the place of what was saved, and a hostile one is refused in the API's words", async () => {
  const { page, expect, assertAccessible, close } = await openPage(stage.browser);
  await page.goto(addressOf("gil"));
  await page.getByText("No saved versions.").waitFor();
  await choose(page, gzipSync(archive(Buffer.from("hello"))));
  await page.getByText(/^The archive is now the newest version of gil in notes: [0-9a-f]{16}, /).waitFor();
  await page.getByRole("table", { name: "Versions" }).getByText("newest").waitFor();
  const before = await served.store.look(key("gil"), call);

  // The second has arrived at its end long after it was refused.
  for (const content of [Buffer.from("root"), randomBytes(32 * 1024 * 1024)]) {
    await choose(page, archive(content, "data/../etc/passwd"));
    await page.getByRole("alert").getByText("body: must be an archive of /data").waitFor();
    await assertAccessible();
    await page.getByLabel("Archive", { exact: true }).setInputFiles([]);
  }
  assert.equal(await served.store.look(key("gil"), call), before);
  expect(/400/);

  await page
    .getByLabel("Archive", { exact: true })
    .setInputFiles({ name: "x.tar", mimeType: "", buffer: archive(Buffer.from("second")) });
  await page.getByRole("button", { name: "Upload" }).click();
  const dialog = page.getByRole("dialog", { name: "Upload an archive for gil in notes?" });
  await dialog.getByText(/^The newest version of gil, from .* stays as an older version/).waitFor();
  await assertAccessible();
  await dialog.getByRole("button", { name: "Upload" }).click();
  await page.getByRole("table", { name: "Versions" }).getByText("Replaced by").waitFor();
  await close();
});

test("a large upload says how much is sent, is stopped, and is not left without a question", async () => {
  const { page, assertAccessible, close } = await openPage(stage.browser);
  await page.goto(addressOf("hal"));
  await page.getByText("No saved versions.").waitFor();
  const hold = (): (() => void) => {
    const holding = createDeferred<void>();
    held = holding.promise;
    return () => holding.resolve();
  };
  let goOn = hold();
  const large = archive(randomBytes(32_000_000));
  await choose(page, large);
  const progress = page.getByRole("progressbar", { name: "Upload progress" });
  await eventually(async () => Number(await progress.getAttribute("value")) > 0);
  await page.getByText(/[\d.]+ [kM]?B of 32\.0 MB sent$/).waitFor();
  await assertAccessible();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("alert").getByText("Upload cancelled.").waitFor();
  await progress.waitFor({ state: "detached" });
  goOn();
  await puts;

  goOn = hold();
  await choose(page, large);
  await progress.waitFor();
  await page.getByRole("navigation").getByRole("link", { name: "Claims" }).click();
  const leave = page.getByRole("dialog", { name: "Leave during the upload?" });
  await leave.waitFor();
  await page.keyboard.press("Escape");
  assert.is((await served.store.look(key("hal"), call)).newest, undefined);
  goOn();
  await page.getByText(/^The archive is now the newest version of hal/).waitFor();
  const sent = await served.store.look(key("hal"), call);
  assert.is(sent.newest?.contentBytes, large.length);
  await close();
});

test.run();
