// @own-cluster
import { execFile } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Page, Request } from "playwright-core";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { claimName } from "../../crds/names.ts";
import { eventually } from "../eventually.ts";
import { openPage, type TestPage } from "./browser.ts";
import { type InsideStage, startInsideStage } from "./inside-stage.ts";

const test = suite("browser/inside-files");
const run = promisify(execFile);
let stage: InsideStage;
let folder: string;

test.before(async () => {
  stage = await startInsideStage();
});
test.before.each(() => {
  folder = join(stage.folder, "files");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
});
test.after(() => stage?.stop());

async function openFolder(options: Parameters<typeof openPage>[1] = {}): Promise<TestPage> {
  const opened = await openPage(stage.browser, options);
  // A new file is looked for before it is written.
  opened.expect(/status of 404/);
  await opened.page.goto(stage.at(`/files?folder=${folder.slice(1)}`));
  await opened.page.getByRole("button", { name: "New folder" }).waitFor();
  return opened;
}

const row = (page: Page, name: string) => page.getByRole("row").filter({ hasText: name });
const said = (page: Page, words: string) => page.getByRole("status").getByText(words).waitFor();
const focused = (page: Page) => page.evaluate("document.activeElement.textContent") as Promise<string>;

test("files are uploaded by the button and by a drop, replaced when asked, and cancelled", async () => {
  const { page, assertAccessible, close } = await openFolder();
  const content = Buffer.alloc(3_000_000, "content ");
  await page.getByLabel("Files to upload").setInputFiles([
    { name: "large.bin", mimeType: "application/octet-stream", buffer: content },
    { name: "50% <b>.txt", mimeType: "text/html", buffer: Buffer.from("second") },
  ]);
  await said(page, "2 of 2 files uploaded");
  await row(page, "large.bin").getByText("3.0 MB").waitFor();
  assert.ok(readFileSync(join(folder, "large.bin")).equals(content));
  assert.is(readFileSync(join(folder, "50% <b>.txt"), "utf8"), "second");
  await assertAccessible();
  await page.getByRole("button", { name: "Clear" }).click();

  const drop = (text: string) =>
    page.evaluate(`{
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File([${JSON.stringify(text)}], "dropped"));
      document.querySelector(".drop").dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
    }`);
  await drop("first");
  await row(page, "dropped").getByText("5 B").waitFor();
  for (const [verb, kept] of [
    ["Cancel", "first"],
    ["Replace", "other"],
  ] as const) {
    await drop("other");
    await page.getByRole("dialog", { name: "Replace dropped?" }).getByRole("button", { name: verb }).click();
    await page.getByText(verb === "Cancel" ? "cancelled" : "2 of 3 files uploaded").waitFor();
    assert.is(readFileSync(join(folder, "dropped"), "utf8"), kept);
  }
  await close();
});

test("an upload that is cancelled leaves no file, and is asked about before the page is left", async () => {
  const { page, expect, close } = await openFolder();
  expect(/ERR_|status of/);
  const session = await page.context().newCDPSession(page);
  const slow = { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: 100_000 };
  await session.send("Network.emulateNetworkConditions", slow);
  const buffer = Buffer.alloc(10_000_000);
  await page.getByLabel("Files to upload").setInputFiles({ name: "endless", mimeType: "text/plain", buffer });
  await page.getByRole("progressbar", { name: "Upload of endless" }).waitFor();
  await page.getByRole("link", { name: "Processes" }).click();
  await page.getByRole("dialog", { name: "Leave during the upload?" }).getByRole("button", { name: "Cancel" }).click();
  await page.getByRole("button", { name: "Cancel endless" }).click();
  await said(page, "0 of 1 file uploaded");
  await eventually(() => readdirSync(folder).length === 0);
  await close();
});

test("a text is edited and saved; another's change is not lost unasked, nor what is typed", async () => {
  const file = join(folder, "notes.txt");
  writeFileSync(file, "one\r\ntwo\r\n");
  chmodSync(file, 0o640);
  const { page, assertAccessible, close } = await openFolder();
  await page.getByRole("link", { name: "notes.txt", exact: true }).click();
  const text = page.getByRole("textbox");
  await text.waitFor();
  assert.is(await text.inputValue(), "one\ntwo\n");
  await text.fill("one\nthree\n");
  await page.keyboard.press("Control+s");
  await said(page, "notes.txt is saved.");
  assert.is(readFileSync(file, "utf8"), "one\r\nthree\r\n");
  assert.is(statSync(file).mode & 0o777, 0o640);
  await assertAccessible();

  writeFileSync(file, "theirs");
  await text.fill("mine");
  await page.getByRole("button", { name: "Save" }).click();
  const question = page.getByRole("dialog", { name: "Overwrite notes.txt?" });
  await question.getByRole("button", { name: "Cancel" }).click();
  assert.is(readFileSync(file, "utf8"), "theirs");
  await page.getByRole("link", { name: "files", exact: true }).click();
  await page
    .getByRole("dialog", { name: "Leave notes.txt without saving?" })
    .getByRole("button", { name: "Cancel" })
    .click();
  assert.is(await text.inputValue(), "mine");
  await page.getByRole("button", { name: "Save" }).click();
  await question.getByRole("button", { name: "Overwrite" }).click();
  await said(page, "notes.txt is saved.");
  assert.is(readFileSync(file, "utf8"), "mine");
  await page.getByRole("link", { name: "files", exact: true }).click();
  await row(page, "notes.txt").waitFor();
  await close();
});

test("what a text field would change is not edited", async () => {
  const { page, close } = await openFolder();
  for (const [name, content, why] of [
    ["mixed", "a\nb\r\nc", "Its lines end in different ways"],
    ["binary", Buffer.of(0x61, 0xff), "It is not UTF-8 text"],
    ["large", "x".repeat(256 * 1024 + 1), "It has more than 256 KiB"],
  ] as const) {
    writeFileSync(join(folder, name), content);
    await page.goto(stage.at(`/files?file=${folder.slice(1)}/${name}`));
    await page.getByRole("alert").getByText(why).waitFor();
    assert.is(await page.getByRole("textbox").count(), 0);
    await page.getByRole("link", { name: "Download" }).waitFor();
  }
  await close();
});

test("a link leads to what it names: a folder, or a file", async () => {
  mkdirSync(join(folder, "docs"));
  writeFileSync(join(folder, "docs/page"), "content");
  symlinkSync("docs", join(folder, "current"));
  symlinkSync("docs/page", join(folder, "index"));
  const { page, expect, close } = await openFolder();
  expect(/status of 409/);
  await page.getByRole("link", { name: "current", exact: true }).click();
  await row(page, "page").waitFor();
  await page.goBack();
  await page.getByRole("link", { name: "index", exact: true }).click();
  await page.getByRole("link", { name: "Open it as a file" }).click();
  assert.is(await page.getByRole("textbox").inputValue(), "content");
  await close();
});

test("names that are hostile are text, and files of any name are opened, downloaded, renamed and deleted", async () => {
  const names = [
    ["<img src=x onerror=window.pwned=1>", "<img src=x onerror=window.pwned=1>"],
    ["two\nlines\u202egpj", "two\\nlines\\u{202e}gpj"],
    ["100%41", "100%41"],
    [Buffer.from([0x6e, 0xe4, 0xff]), "n\\xE4\\xFF"],
    ["#?&;+ü", "#?&;+ü"],
  ] as const;
  for (const [name] of names) writeFileSync(Buffer.concat([Buffer.from(`${folder}/`), Buffer.from(name)]), "content");
  symlinkSync("gone", join(folder, "link"));
  const { page, assertAccessible, close } = await openFolder();
  await row(page, "link to gone").waitFor();
  await assertAccessible();
  for (const [name, shown] of names) {
    await page.getByRole("link", { name: shown, exact: true }).click();
    await page.getByRole("textbox").waitFor();
    assert.is(await page.getByRole("textbox").inputValue(), "content");
    const begun = page.waitForEvent("download");
    await page.getByRole("link", { name: "Download" }).click();
    assert.is(readFileSync(await (await begun).path(), "utf8"), "content");
    await page.goBack();
    await page.getByRole("button", { name: `Rename ${shown}`, exact: true }).click();
    await page.getByRole("dialog").getByRole("textbox").fill("50%20 new");
    await page.getByRole("dialog").getByRole("button", { name: "Rename" }).click();
    await said(page, `${shown} is now 50%20 new.`);
    assert.ok(existsSync(join(folder, "50%20 new")) && !readdirSync(folder, "latin1").includes(String(name)));
    await page.getByRole("button", { name: "Delete 50%20 new" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await said(page, "50%20 new was deleted.");
    assert.not.ok(existsSync(join(folder, "50%20 new")));
  }
  assert.is(await page.evaluate("window.pwned"), undefined);
  assert.is(await page.locator("main img").count(), 0);
  await close();
});

test("without a mouse: a folder is made, opened, moved and deleted, and errors stay in their dialog", async () => {
  writeFileSync(join(folder, "file"), "");
  const { page, expect, close } = await openFolder();
  expect(/status of 409/);
  await page.getByRole("button", { name: "New folder" }).focus();
  await page.keyboard.press("Enter");
  await page.keyboard.type("file");
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").getByRole("alert").waitFor();
  await page.keyboard.type("2/../x");
  await page.keyboard.press("Enter");
  await page.getByText('A name cannot be empty, "." or "..".').waitFor();
  await page.keyboard.press("Escape");
  assert.is(await focused(page), "New folder");
  await page.keyboard.press("Enter");
  await page.keyboard.type("one/two");
  await page.keyboard.press("Enter");
  await said(page, "The folder two was created.");
  assert.is(await focused(page), "New folder");
  mkdirSync(join(folder, "later"));
  await page.keyboard.press("r");
  await row(page, "later/").waitFor();
  await page.getByRole("link", { name: "one/" }).focus();
  await page.keyboard.press("Enter");
  await row(page, "two/").waitFor();
  assert.match(await focused(page), /one$/);
  await page.getByRole("button", { name: "Rename two" }).focus();
  await page.keyboard.press("Enter");
  await page.keyboard.type(`${folder}/moved`);
  await page.keyboard.press("Enter");
  await page.getByText("The folder is empty.").waitFor();
  await eventually(async () => /one$/.test(await focused(page)));
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Delete moved" }).focus();
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await said(page, "moved was deleted.");
  assert.equal(readdirSync(folder), ["file", "later", "one"]);
  await close();
});

test("a folder of a thousand entries is shown in pages, and fits a phone", async () => {
  for (let at = 0; at < 1001; at += 1) writeFileSync(join(folder, `file-${at}`), "");
  const { page, assertAccessible, close } = await openFolder({
    ...{ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, colorScheme: "dark" },
  });
  const rows = () => page.locator("tbody tr").count();
  await eventually(async () => (await rows()) === 500);
  assert.is(await page.evaluate("document.documentElement.scrollWidth"), 390);
  await page.getByRole("button", { name: "Show more" }).click();
  await eventually(async () => (await rows()) === 1000);
  await page.getByRole("button", { name: "Show more" }).click();
  await eventually(async () => (await rows()) === 1001);
  await page.goto(stage.at(`/files?folder=${stage.folder.slice(1)}`));
  await row(page, "files/").waitFor();
  await assertAccessible();
  await close();
});

/** Waits for words in the list of uploads. */
const uploads = (page: Page, words: string) => page.locator(".uploads li").filter({ hasText: words }).waitFor();

/** Drops files and folders of this machine on the page. */
async function drop(page: Page, paths: readonly string[]): Promise<void> {
  const session = await page.context().newCDPSession(page);
  const { x, y } = (await page.evaluate(`document.querySelector(".drop").getBoundingClientRect().toJSON()`)) as {
    x: number;
    y: number;
  };
  const data = { items: [], files: [...paths], dragOperationsMask: 1 };
  for (const type of ["dragEnter", "dragOver", "drop"] as const)
    await session.send("Input.dispatchDragEvent", { type, x: x + 5, y: y + 5, data });
}

test("a folder is uploaded with its names and its empty folders, and into one that is there only when asked", async () => {
  const source = join(stage.folder, "dropped");
  rmSync(source, { recursive: true, force: true });
  const names = ["100%41 ü", "a/b/c/deep", "empty/below", "#?&;+.txt"] as const;
  mkdirSync(join(source, "a/b/c"), { recursive: true });
  mkdirSync(join(source, "empty/below"), { recursive: true });
  for (const name of names) if (!name.startsWith("empty")) writeFileSync(join(source, name), `content of ${name}`);
  const single = join(stage.folder, "single");
  writeFileSync(single, "alone");
  const { page, expect, assertAccessible, close } = await openFolder();
  await drop(page, [source, single]);
  await said(page, "5 of 5 files uploaded");
  await row(page, "dropped/").waitFor();
  assert.is(readFileSync(join(folder, "single"), "utf8"), "alone");
  const uploaded = join(folder, "dropped");
  for (const name of names) {
    if (name.startsWith("empty")) assert.equal(readdirSync(join(uploaded, name)), []);
    else assert.is(readFileSync(join(uploaded, name), "utf8"), `content of ${name}`);
  }
  await assertAccessible();
  await page.getByRole("button", { name: "Clear" }).click();

  writeFileSync(join(uploaded, "a/b/c/deep"), "theirs");
  for (const verb of ["Cancel", "Upload"] as const) {
    await drop(page, [source]);
    const question = page.getByRole("dialog", { name: "Upload into dropped?" });
    await question.getByRole("button", { name: verb }).click();
    await uploads(page, verb === "Cancel" ? "cancelled" : "uploaded");
    const deep = verb === "Cancel" ? "theirs" : "content of a/b/c/deep";
    assert.is(readFileSync(join(uploaded, "a/b/c/deep"), "utf8"), deep);
    await page.getByRole("button", { name: "Clear" }).click();
  }

  expect(/status of 409/);
  rmSync(join(uploaded, "a"), { recursive: true });
  writeFileSync(join(uploaded, "a"), "a file");
  await drop(page, [source]);
  await page.getByRole("dialog").getByRole("button", { name: "Upload" }).click();
  await page.getByText("a/b/c/deep: ").waitFor();
  for (let at = 0; at < 1001; at += 1) writeFileSync(join(source, `file-${at}`), "");
  await drop(page, [source]);
  await page.getByText('Upload it with "Unpack an archive" instead').waitFor();
  assert.not.ok(existsSync(join(uploaded, "file-0")));
  await close();
});

test("the upload of a folder is cancelled as a whole", async () => {
  const source = join(stage.folder, "large");
  mkdirSync(source, { recursive: true });
  for (let at = 0; at < 4; at += 1) writeFileSync(join(source, `file-${at}`), Buffer.alloc(10_000_000));
  const { page, expect, close } = await openFolder();
  expect(/ERR_|status of/);
  const session = await page.context().newCDPSession(page);
  const slow = { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: 100_000 };
  await session.send("Network.emulateNetworkConditions", slow);
  await drop(page, [source]);
  await page.getByRole("progressbar", { name: "Upload of large/" }).waitFor();
  await page.getByRole("button", { name: "Cancel large/" }).click();
  await said(page, "0 of 4 files uploaded");
  await eventually(() => !existsSync(join(folder, "large")) || readdirSync(join(folder, "large")).length === 0);
  await close();
});

test("an archive is unpacked, into what is not empty only when asked, and its errors are the API's", async () => {
  const source = join(stage.folder, "packed");
  mkdirSync(source, { recursive: true });
  writeFileSync(join(source, "kept"), "from the archive");
  const archive = join(stage.folder, "archive.tgz");
  await run("tar", ["-czf", archive, "-C", source, "kept"]);
  const { page, expect, assertAccessible, close } = await openFolder();
  expect(/status of 400/);
  await page.getByLabel("Files to upload").setInputFiles(archive);
  await row(page, "archive.tgz").waitFor();
  assert.ok(readFileSync(join(folder, "archive.tgz")).equals(readFileSync(archive)));
  rmSync(join(folder, "archive.tgz"));
  await page.getByRole("button", { name: "Clear" }).click();

  const picker = page.getByLabel("Archive to unpack");
  await picker.setInputFiles(archive);
  await said(page, "1 of 1 file uploaded");
  await row(page, "kept").waitFor();
  assert.is(readFileSync(join(folder, "kept"), "utf8"), "from the archive");
  await assertAccessible();
  await page.getByRole("button", { name: "Clear" }).click();

  writeFileSync(join(folder, "kept"), "theirs");
  for (const verb of ["Cancel", "Unpack"] as const) {
    await picker.setInputFiles(archive);
    const question = page.getByRole("dialog", { name: "Unpack into files?" });
    await question.getByRole("button", { name: verb }).click();
    await uploads(page, verb === "Cancel" ? "cancelled" : "uploaded");
    assert.is(readFileSync(join(folder, "kept"), "utf8"), verb === "Cancel" ? "theirs" : "from the archive");
    await page.getByRole("button", { name: "Clear" }).click();
  }
  await picker.setInputFiles({ name: "none.tar", mimeType: "", buffer: Buffer.from("no archive") });
  await page.getByRole("dialog").getByRole("button", { name: "Unpack" }).click();
  await page.getByText("must be a tar or tar.gz").waitFor();
  // The pod ends its own work after the answer.
  await eventually(() => !readdirSync(folder).some((name) => name.startsWith(".tenancy-part-")));
  assert.equal(readdirSync(folder), ["kept"]);
  await page.goto(stage.at("/files"));
  await page.getByRole("button", { name: "New folder" }).waitFor();
  assert.is(await page.getByRole("button", { name: "Unpack an archive" }).count(), 0);
  await close();
});

test("a folder is downloaded as an archive that has its name, from its row and when it is shown", async () => {
  mkdirSync(join(folder, "50% ü"));
  writeFileSync(join(folder, "50% ü/inside"), "content");
  const { page, close } = await openFolder();
  for (const label of ["Download 50% ü", "Download the folder"]) {
    const begun = page.waitForEvent("download");
    await page.getByRole("link", { name: label, exact: true }).click();
    const download = await begun;
    assert.is(download.suggestedFilename(), "50% ü.tar.gz");
    const { stdout } = await run("tar", ["-xzOf", await download.path(), "inside"]);
    assert.is(stdout, "content");
    if (label === "Download the folder") break;
    await page.getByRole("link", { name: "50% ü/" }).click();
    await row(page, "inside").waitFor();
  }
  await close();
});

test("the mode of a file is changed once it is one, and is not offered for links", async () => {
  writeFileSync(join(folder, "script"), "", { mode: 0o644 });
  symlinkSync("script", join(folder, "link"));
  const { page, assertAccessible, close } = await openFolder();
  await row(page, "link to script").waitFor();
  assert.is(await page.getByRole("button", { name: /^Mode .* of link$/ }).count(), 0);
  await page.getByRole("button", { name: "Mode 0644 of script" }).focus();
  await page.keyboard.press("Enter");
  const question = page.getByRole("dialog", { name: "Mode of script" });
  for (const wrong of ["888", "07 55", "75", "00755"]) {
    await question.getByRole("textbox").fill(wrong);
    await page.keyboard.press("Enter");
    await question.getByRole("alert").getByText("three or four digits").waitFor();
  }
  assert.is(statSync(join(folder, "script")).mode & 0o7777, 0o644);
  await assertAccessible();
  await question.getByRole("textbox").fill("755");
  await page.keyboard.press("Enter");
  await said(page, "The mode of script is now 0755.");
  assert.is(statSync(join(folder, "script")).mode & 0o7777, 0o755);
  await page.getByRole("button", { name: "Mode 0755 of script" }).waitFor();
  await close();
});

/** The requests of a page for the list of its folder, and for a watch of it, with how many watches are open. */
function requestsOf(page: Page) {
  const seen = { lists: 0, watches: 0, open: 0 };
  const isWatch = (url: string) => url.includes("watch=true");
  page.on("request", (request) => {
    if (!request.url().includes("/files?folder=")) return;
    seen[isWatch(request.url()) ? "watches" : "lists"] += 1;
    if (isWatch(request.url())) seen.open += 1;
  });
  const onEnd = (request: Request) => {
    if (isWatch(request.url())) seen.open -= 1;
  };
  page.on("requestfailed", onEnd);
  page.on("requestfinished", onEnd);
  return seen;
}

const live = (page: Page) => page.locator(".watched .is-live").waitFor();

test("a folder follows changes, and what has the focus, the scroll, a dialog and further pages stay", async () => {
  for (let at = 0; at < 600; at += 1) writeFileSync(join(folder, `file-${at}`), "");
  const { page, close } = await openFolder();
  await live(page);
  await page.getByRole("button", { name: "Show more" }).click();
  const rows = () => page.locator("tbody tr").count();
  await eventually(async () => (await rows()) === 600);
  const button = page.getByRole("button", { name: "Rename file-300" });
  await button.focus();
  const top = async () => Math.round((await button.boundingBox())?.y ?? 0);
  const before = await top();
  writeFileSync(join(folder, "early"), "");
  await row(page, "early").waitFor();
  assert.is(await rows(), 601);
  await eventually(async () => Math.abs((await top()) - before) <= 1);
  assert.is(await page.evaluate("document.activeElement.ariaLabel"), "Rename file-300");

  await page.keyboard.press("Enter");
  await page.keyboard.type("half a na");
  rmSync(join(folder, "early"));
  await row(page, "early").waitFor({ state: "detached" });
  await page.keyboard.type("me");
  await page.keyboard.press("Enter");
  await said(page, "file-300 is now half a name.");
  await page.getByRole("button", { name: "Delete half a name" }).focus();
  rmSync(join(folder, "half a name"));
  await row(page, "half a name").waitFor({ state: "detached" });
  await eventually(async () => /files$/.test(await focused(page)));
  await close();
});

test("changes that follow each other are read together, and the last one is not lost", async () => {
  const { page, close } = await openFolder();
  await live(page);
  writeFileSync(join(folder, "first"), "");
  await row(page, "first").waitFor();
  const session = await page.context().newCDPSession(page);
  await session.send("Network.enable");
  let pieces = 0;
  session.on("Network.dataReceived", () => {
    pieces += 1;
  });
  const seen = requestsOf(page);
  // The page's time stands still, so none of what comes can be read.
  await page.clock.install();
  await page.clock.pauseAt(Date.now() + 60_000);
  await page.reload();
  await page.clock.runFor(5000);
  await row(page, "first").waitFor();
  await live(page);
  await page.clock.runFor(5000);
  const { lists } = seen;
  for (let at = 0; at < 5; at += 1) {
    const before = pieces;
    writeFileSync(join(folder, `next-${at}`), "");
    await eventually(() => pieces > before);
  }
  assert.is(seen.lists, lists);
  await page.clock.runFor(1000);
  await row(page, "next-0").waitFor();
  assert.is(seen.lists, lists + 1);
  await page.clock.resume();
  await row(page, "next-4").waitFor();
  await close();
});

test("a page watches one folder, the one it shows, and none while it is hidden", async () => {
  mkdirSync(join(folder, "below"));
  writeFileSync(join(folder, "text"), "");
  const { page, close } = await openFolder();
  await live(page);
  const seen = requestsOf(page);
  // The one that was opened before.
  seen.open = 1;
  await page.getByRole("link", { name: "below/" }).click();
  await page.getByText("The folder is empty.").waitFor();
  await live(page);
  await eventually(() => seen.open === 1);
  const show = (isHidden: boolean) =>
    page.evaluate(`{
      Object.defineProperty(document, "hidden", { configurable: true, value: ${isHidden} });
      document.dispatchEvent(new Event("visibilitychange"));
    }`);
  await show(true);
  await eventually(() => seen.open === 0);
  writeFileSync(join(folder, "below/new"), "");
  await show(false);
  await row(page, "new").waitFor();
  assert.equal([seen.open, seen.watches], [1, 2]);
  await page.goBack();
  await page.getByRole("link", { name: "text", exact: true }).click();
  await page.getByRole("textbox").waitFor();
  await eventually(() => seen.open === 0);
  await close();
});

test("a lost watch is shown and begins again; one that is refused says why, and is asked for no more", async () => {
  const { page, expect, assertAccessible, close } = await openFolder();
  expect(/ERR_FAILED|status of (409|404)/);
  await live(page);
  const button = page.getByRole("button", { name: "Refresh" });
  const before = await button.boundingBox();
  await page.route(/watch=true/, (route) => route.abort());
  await page.reload();
  await said(page, "Disconnected. Reconnecting…");
  assert.equal(await button.boundingBox(), before);
  writeFileSync(join(folder, "missed"), "");
  await page.unroute(/watch=true/);
  await row(page, "missed").waitFor();
  await live(page);

  const others = new AbortController();
  const url = `${stage.url}/api/v1/instances/inst-a/files?folder=${folder.slice(1)}&watch=true`;
  await page.goto("about:blank");
  await eventually(async () => {
    const { status } = await fetch(url, { signal: others.signal });
    return status === 409;
  });
  const seen = requestsOf(page);
  await page.goto(stage.at(`/files?folder=${folder.slice(1)}`));
  await page.getByText("This list does not refresh itself.").click();
  await said(page, "folders are watched already");
  await assertAccessible();
  others.abort();
  const { watches } = seen;
  await eventually(async () => {
    await button.click();
    return (await page.locator(".watched .is-live").count()) === 1;
  });
  assert.is(watches, 1);
  rmSync(folder, { recursive: true });
  await said(page, "This list does not refresh itself.");
  await page.getByRole("alert").getByText("files: ").waitFor();
  await close();
});

test("an instance whose claim is not Active is named as the reason once, and is not asked again", async () => {
  const name = "inst-released";
  const { cluster } = stage.edge;
  cluster.addInstance(name);
  cluster.setStatus(claimName({ tenantId: name, workloadRef: "app" }), { phase: "Releasing", instanceId: name });
  const { page, expect, close } = await openPage(stage.browser);
  expect(/status of 409/);
  await page.clock.install();
  const asked: string[] = [];
  const answers: number[] = [];
  page.on("request", (request) => {
    if (request.url().includes(`${name}/files?`)) asked.push(request.url());
  });
  page.on("response", (response) => {
    if (response.url().includes(`${name}/files?`)) answers.push(response.status());
  });
  await page.goto(`${stage.url}/dashboard/instances/${name}/files`);
  await page.getByRole("alert").waitFor();
  await eventually(() => answers.length === 2);
  await page.clock.fastForward("01:00:00");
  assert.is(await page.getByText(/Releasing/).count(), 1);
  assert.equal([answers, asked.length], [[409, 409], 2]);
  await close();
});

test.run();
