// @own-cluster
// @limit 2700
import type { BrowserContext, Page } from "playwright-core";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { type ExampleStage, startExample } from "./example-stage.ts";

const WORKLOAD = "jupyterlab";
const LIMIT_MS = 60_000;
const NOTEBOOK_AS_TEXT = "Untitled.ipynb?type=file&format=text";
const test = suite("JupyterLab as a workload");
let stage: ExampleStage;
/** The cookie of Ann's link. */
let visitor: Awaited<ReturnType<BrowserContext["storageState"]>>;

test.before(async () => {
  stage = await startExample(WORKLOAD);
});
test.after(() => stage?.stop());

test("a notebook is made, run and saved in a browser that was given a link, and a terminal works", async () => {
  const opened = await stage.open();
  const { page } = opened;
  await page.goto(await stage.createLink());
  await page.locator(".jp-LauncherCard[data-category=Notebook]").click();
  await kernelIsIdle(page);
  await page.locator(".jp-Notebook .cm-content").click();
  await page.keyboard.type("1+1");
  await page.keyboard.press("Control+Enter");
  await outputOf(page, "2").waitFor();
  await page.keyboard.press("Control+s");
  await page.getByRole("button", { name: "Rename and Save" }).click();
  // As text: Jupyter refuses to read as a notebook a file that it has just begun to write.
  await waitUntil(async () => String((await contents("ann", NOTEBOOK_AS_TEXT))?.content).includes('"1+1"'), {
    ...{ what: "the notebook with its cell", limitMs: LIMIT_MS, intervalMs: 100 },
  });

  await page.getByRole("button", { name: "New Launcher" }).first().click();
  const prompt = async () => {
    const socket = await page.waitForEvent("websocket", (made) => made.url().includes("/terminals/websocket/"));
    await socket.waitForEvent("framereceived");
  };
  await Promise.all([prompt(), page.locator(".jp-LauncherCard", { hasText: "Terminal" }).click()]);
  await page.locator(".jp-Terminal").click();
  await page.keyboard.type("echo $((40 + 2)) $(id -u) > note.txt\n");
  await waitUntil(async () => (await contents("ann", "note.txt"))?.content === "42 1000\n", {
    ...{ what: "the file that the terminal wrote", limitMs: LIMIT_MS, intervalMs: 100 },
  });
  visitor = await page.context().storageState();
  await opened.close();
});

test("a request wakes a tenant who sleeps: the notebook is there with its cell and output, and runs", async () => {
  const released = await stage.stack.release("ann", WORKLOAD);
  assert.is(released.body.files, "saved", JSON.stringify(released.body));
  const opened = await stage.open({ storageState: visitor });
  // The front door's page for those who wait has this status.
  opened.expect(/status of 503/);
  const { page } = opened;
  const { port } = new URL(stage.frontDoor);
  await page.goto(`http://${WORKLOAD}--ann.localhost:${port}/lab/tree/Untitled.ipynb`);
  await outputOf(page, "2").waitFor();
  assert.is(await page.locator(".jp-Notebook .cm-content").innerText(), "1+1");
  await kernelIsIdle(page);
  await page.locator(".jp-Notebook .cm-content").click();
  await page.keyboard.press("End");
  await page.keyboard.type("+1");
  await page.keyboard.press("Control+Enter");
  await outputOf(page, "3").waitFor();
  await opened.close();
});

test("another tenant has none of the files, and no page without the server's XSRF token changes one", async () => {
  assert.equal((await contents("bob", ""))?.content, []);
  assert.is(await contents("bob", "Untitled.ipynb"), undefined);
  const posted = await fetch(apiOf("bob", ""), { method: "POST", body: '{"type":"notebook"}' });
  assert.equal([posted.status, /_xsrf/.test(await posted.text())], [403, true]);
});

async function kernelIsIdle(page: Page): Promise<void> {
  await page.getByText("Python 3 (ipykernel) | Idle").waitFor();
}

function outputOf(page: Page, text: string) {
  return page.locator(".jp-OutputArea-output").getByText(text, { exact: true });
}

/** What Jupyter's API shows of a path below a tenant's home, as a program reads it; undefined if it has none. */
async function contents(tenant: string, path: string): Promise<{ content: unknown } | undefined> {
  const response = await fetch(apiOf(tenant, path));
  if (response.status === 404) return undefined;
  assert.is(response.status, 200, await response.clone().text());
  return (await response.json()) as { content: unknown };
}

function apiOf(tenant: string, path: string): string {
  return `${stage.frontDoor}/t/${tenant}/${WORKLOAD}/api/contents/${path}`;
}

test.run();
