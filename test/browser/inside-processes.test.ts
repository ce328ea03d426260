// @own-cluster
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { openPage } from "./browser.ts";
import {
  INSTANCE,
  type InsideStage,
  startInsideStage,
  typeLine,
  untilLine,
  untilOpen,
  untilPrompt,
} from "./inside-stage.ts";

const test = suite("browser/inside-processes");
let stage: InsideStage;

test.before(async () => {
  stage = await startInsideStage();
});
test.after(() => stage?.stop());

/** Starts one by the API. */
async function start(body: object): Promise<string> {
  const { json, error } = await stage.edge.call(`POST /api/v1/instances/${INSTANCE}/processes`, {
    body: { background: true, ...body },
  });
  assert.is(error, undefined);
  return String((json as { pid: number }).pid);
}

test("without a mouse: a process is started, its output is followed to its end, and says how it ended", async () => {
  const { page, assertAccessible, close } = await openPage(stage.browser);
  await page.goto(stage.at("/processes"));
  await page.getByText("None. The workload's own program is not listed.").waitFor();
  await page.getByLabel("by sh -c").focus();
  await page.keyboard.press("Space");
  await page.keyboard.press("Shift+Tab");
  await page.keyboard.type("/bin/sh -c 'echo fir''st; echo \"<b onclick=x>\" >&2; sleep 0.5; printf la''st; exit 3'");
  await page.keyboard.press("Enter");
  await page
    .getByRole("status")
    .getByText(/^Process \d+ was started: /)
    .waitFor();
  const output = page.getByRole("log", { name: /^Output of process \d+$/ });
  for (const line of ["first", "<b onclick=x>", "last"]) await output.getByText(line, { exact: true }).waitFor();
  await page.getByRole("row").getByText("exited with code 3").waitFor();
  assert.match(await page.evaluate("document.activeElement.textContent"), /^Output of process \d+/);
  assert.is(await page.locator("main b[onclick]").count(), 0);
  await assertAccessible();
  await page.reload();
  await output.getByText("last", { exact: true }).waitFor();
  await close();
});

test("a process gets signals only after a question", async () => {
  const pid = await start({ command: ["/bin/sh", "-c", "trap 'echo asked' TERM; while :; do sleep 0.05; done"] });
  const { page, assertAccessible, close } = await openPage(stage.browser, {
    ...{ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, colorScheme: "dark" },
  });
  await page.goto(stage.at(`/processes?pid=${pid}`));
  const question = page.getByRole("dialog", { name: `Send SIGTERM to process ${pid}?` });
  await page.getByRole("button", { name: `Terminate ${pid}` }).tap();
  await question.getByRole("button", { name: "Cancel" }).tap();
  await page.getByRole("button", { name: `Terminate ${pid}` }).tap();
  await assertAccessible();
  await question.getByRole("button", { name: "Terminate" }).tap();
  await page.getByRole("log").getByText("asked", { exact: true }).waitFor();
  assert.is(await page.getByRole("log").getByText("asked", { exact: true }).count(), 1);
  await page.getByRole("button", { name: `Kill ${pid}` }).tap();
  await page.getByRole("dialog").getByRole("button", { name: "Kill" }).tap();
  await page.getByRole("cell", { name: "ended by SIGKILL" }).waitFor();
  assert.is(await page.getByRole("button", { name: `Kill ${pid}` }).count(), 0);
  assert.is(await page.evaluate("document.documentElement.scrollWidth"), 390);
  await assertAccessible();
  await close();
});

test("a process with a terminal is attached to, with what it has printed", async () => {
  const hostile = '<img src=x onerror="window.pwned=1">\u202e\n';
  const pid = await start({
    command: ["/bin/sh", "-c", "echo be''fore; exec /bin/sh -i", hostile],
    tty: { cols: 80, rows: 24 },
  });
  const { page, close } = await openPage(stage.browser);
  await page.goto(stage.at("/processes"));
  await page.getByText("\\u{202e}\\n").waitFor();
  await page.getByRole("link", { name: `Attach to ${pid}` }).click();
  await untilOpen(page);
  await untilLine(page, "before");
  await page.locator(".screen").click();
  await untilPrompt(page);
  await typeLine(page, "exit 4");
  await page.getByRole("status").getByText("The process exited with code 4.").waitFor();
  await page.goBack();
  await page.getByRole("row", { name: pid }).getByText("exited with code 4").waitFor();
  assert.is(await page.evaluate("window.pwned"), undefined);
  await close();
});

test("a pod without the tools says so once on each page", async () => {
  const { page, expect, close } = await openPage(stage.browser);
  // There is no log.
  expect(/status of (409|503)|WebSocket connection to/);
  stage.edge.cluster.addPod("inst-warm", "Running", { labels: {} });
  for (const part of ["terminal", "files", "processes"]) {
    await page.goto(`${stage.url}/dashboard/instances/inst-warm/${part}`);
    await page.getByText(/^instance "inst-warm" /).waitFor();
    assert.is(await page.getByText(/^instance "inst-warm" /).count(), 1);
  }
  await page.goto(`${stage.url}/dashboard/instances/inst-warm`);
  await page.getByRole("button", { name: "Destroy" }).waitFor();
  await page.getByRole("link", { name: "Terminal", disabled: true }).waitFor();
  await close();
});

test.run();
