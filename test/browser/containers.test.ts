// @long real containers; browser/hostile, snapshots and claims prove the pages, e2e/rest and e2e/snapshots/rest the routes
// Its cluster comes and goes with a bridge, at which Chromium ends the requests of every page: ERR_NETWORK_CHANGED.
// @alone
// @own-cluster
// @limit 900
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import type { Browser, Page } from "playwright-core";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { type Stack, startStack } from "../e2e/claims/stack.ts";
import { rawTar } from "../unit/archive/raw-tar.ts";
import { launchBrowser, openPage } from "./browser.ts";
import { searchLog } from "./search-log.ts";

const test = suite("browser/containers");
let stack: Stack;
let browser: Browser;

const image = { ref: "localhost/tenancy-hello:1" };
const resources = { memoryMb: 64 };
// Prints a line a second, after one that names its run.
const talks = `echo "started <b>here</b>"; n=0; while true; do n=$((n+1)); echo "line $n"; sleep 1; done`;

test.before(async () => {
  [stack, browser] = await Promise.all([startStack("browser-containers"), launchBrowser()]);
  for (const [name, spec] of [
    ["web", { image, resources }],
    [
      "talker",
      {
        ...{ image, resources, filesystem: { overlayDirs: ["/data"] } },
        entrypoint: { cmd: "/bin/sh", args: ["-c", talks] },
      },
    ],
  ] as const) {
    const { status, body } = await stack.call("POST", "/workloads", { name, spec });
    assert.is(status, 201, JSON.stringify(body));
  }
});
test.after(async () => {
  await browser?.close();
  await stack?.interrupt();
});

test("a log is followed and searched, and a command runs and tells its exit code", async () => {
  const instance = await claim("ann");
  const { page, assertAccessible, close } = await openPage(browser);
  await page.goto(`${stack.url}/dashboard/claims/ann/talker`);
  await page.getByRole("link", { name: instance }).click();
  await searchLog(page, instance);

  const containers = page.getByRole("table", { name: "Containers" });
  await containers.getByRole("row", { name: /running, ready.*memory 64M/ }).waitFor();
  assert.is(await run(page, "echo kept > /data/file; echo out; echo err >&2; exit 3"), 3);
  assert.is(await page.getByRole("textbox", { name: "Output" }).inputValue(), "out\n");
  assert.is(await page.getByRole("textbox", { name: "Errors" }).inputValue(), "err\n");
  await assertAccessible();
  await close();
});

test("a release says what it saves; the version is listed and claimed with", async () => {
  const { page, expect, close } = await openPage(browser);
  await page.goto(`${stack.url}/dashboard/claims/ann/talker`);
  await page.getByRole("button", { name: "Release" }).click();
  const release = page.getByRole("dialog", { name: "Release talker of ann?" });
  await release.getByText("/data of ann is saved as a new version, then the pod is deleted.").waitFor();
  await release.getByText("Nothing has been saved before.").waitFor();
  await release.getByRole("button", { name: "Release" }).click();
  await page.getByText("ann has no claim on talker").waitFor();

  await page.goto(`${stack.url}/dashboard/snapshots/ann/talker`);
  await page.getByRole("button", { name: /^Claim with [0-9a-f]{8}$/ }).click();
  await page.getByRole("status").getByText("ann has an instance of talker").waitFor();
  await page.getByRole("link", { name: "The claim" }).click();
  await page.getByText(/Restored from version [0-9a-f]{16}\./).waitFor();
  await page.getByRole("link", { name: /^inst-/ }).click();
  assert.is(await run(page, "cat /data/file"), 0);
  assert.is(await page.getByRole("textbox", { name: "Output" }).inputValue(), "kept\n");
  // The claim may be gone when the page reads its last change.
  expect(/404/);
  await close();
});

test("files are given to another tenant, downloaded, replaced by an upload, and gone back to", async () => {
  const { page, expect, close } = await openPage(browser);
  await page.goto(`${stack.url}/dashboard/snapshots/ann/talker`);
  await page.getByLabel("To tenant").fill("cy");
  await page.getByRole("button", { name: "Copy to tenant" }).click();
  const copy = page.getByRole("dialog", { name: "Give cy the files of ann in talker?" });
  await copy.getByRole("textbox").fill("ann");
  await copy.getByRole("button", { name: "Copy" }).click();
  await page.getByText(/^cy now has the files of ann in talker, version/).waitFor();

  await page.goto(`${stack.url}/dashboard/snapshots/cy/talker`);
  const begun = page.waitForEvent("download");
  await page.getByRole("link", { name: /^Download [0-9a-f]{8}$/ }).click();
  assert.match(gunzipSync(readFileSync(await (await begun).path())).toString("latin1"), "kept\n");

  const directory = { name: "data/", type: "5", mode: 0o755 };
  // Of the larger one the most is still to be sent when it is refused.
  for (const content of [Buffer.from("root"), randomBytes(32 * 1024 * 1024)]) {
    await upload(page, rawTar([directory, { name: "data/../etc/passwd", content }]));
    await page.getByRole("alert").getByText("body: must be an archive of /data").waitFor();
  }
  expect(/400/);
  await upload(page, rawTar([directory, { name: "data/file", content: Buffer.from("uploaded\n") }]));
  const stored = await page.getByText(/^The archive is now the newest version of cy in talker/).innerText();
  const [, digits] = /: ([0-9a-f]{8})/.exec(stored) ?? [];
  await page.getByRole("button", { name: `Claim with ${digits}` }).click();
  await page.getByRole("status").getByText("cy has an instance of talker").waitFor();
  assert.is(await fileOf(page, "cy"), "uploaded\n");

  await page.goto(`${stack.url}/dashboard/snapshots/cy/talker`);
  await page.getByText("Release it before you roll back or upload.").waitFor();
  assert.is((await stack.release("cy", "talker")).status, 200);
  await page.goto(`${stack.url}/dashboard/snapshots/cy/talker`);
  await page.getByRole("button", { name: /^Roll back to [0-9a-f]{8}$/ }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Roll back" }).click();
  await page
    .getByRole("status")
    .getByText(/^talker of cy is rolled back to/)
    .waitFor();
  assert.is((await stack.claim("cy", { workload: "talker", resume: true })).status, 201);
  assert.is(await fileOf(page, "cy"), "kept\n");
  await close();
});

test("what was saved is deleted once the tenant's name is typed", async () => {
  const { page, close } = await openPage(browser);
  await page.goto(`${stack.url}/dashboard/snapshots/ann/talker`);
  await page.getByRole("button", { name: "Delete" }).click();
  const erase = page.getByRole("dialog", { name: "Delete all saved versions of ann in talker?" });
  await erase.getByText("The only version of the files is deleted").waitFor();
  await erase.getByRole("textbox").fill("ann");
  await erase.getByRole("button", { name: "Delete" }).click();
  await page.getByText("No saved versions.").waitFor();
  await close();
});

test("a trigger is tried with an event, which is listed with what became of it", async () => {
  const { page, close } = await openPage(browser);
  const spec = { type: "webhook", workloadRef: "web", tenant: { static: "eve" }, config: { path: "/hooks/web" } };
  assert.is((await stack.call("POST", "/triggers", { name: "hook", spec })).status, 201);
  await page.goto(`${stack.url}/dashboard/triggers/hook`);
  await page.getByText("● Active").waitFor();
  await page.getByRole("button", { name: "Send" }).click();
  const dialog = page.getByRole("dialog", { name: "Send a test event to hook?" });
  await dialog.getByText("it claims a pod of web for tenant eve").waitFor();
  await dialog.getByRole("button", { name: "Send" }).click();
  await page.getByText(/^answered, status 200/).waitFor();
  await page
    .getByRole("table", { name: "Deliveries" })
    .getByRole("row", { name: /answered \(test\) eve 200/ })
    .waitFor();
  await close();
});

async function claim(tenant: string): Promise<string> {
  const { status, body } = await stack.claim(tenant, { workload: "talker" });
  assert.is(status, 201, JSON.stringify(body));
  return String(body.instanceId);
}

/** What a tenant's pod has in its file, as its page tells. */
async function fileOf(page: Page, tenant: string): Promise<string> {
  await page.goto(`${stack.url}/dashboard/claims/${tenant}/talker`);
  await page.getByRole("link", { name: /^inst-/ }).click();
  assert.is(await run(page, "cat /data/file"), 0);
  return page.getByRole("textbox", { name: "Output" }).inputValue();
}

async function upload(page: Page, buffer: Buffer): Promise<void> {
  await page
    .getByLabel("Archive", { exact: true })
    .setInputFiles({ name: "mine.tar", mimeType: "application/x-tar", buffer });
  await page.getByRole("button", { name: "Upload" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Upload" }).click();
}

/** Runs a command on the page of an instance, and returns its exit code. */
async function run(page: Page, command: string): Promise<number> {
  await page.getByLabel("Command", { exact: true }).fill(command);
  await page.getByRole("button", { name: "Run", exact: true }).click();
  const ended = page.getByText(/exited with code \d+$/);
  return Number((await ended.innerText()).split(" ").at(-1));
}

test.run();
