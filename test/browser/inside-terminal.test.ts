// @own-cluster
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { eventually } from "../eventually.ts";
import { openPage, UNAUTHORIZED } from "./browser.ts";
import {
  type InsideStage,
  linesOf,
  openTerminal,
  startInsideStage,
  typeLine,
  untilLine,
  untilOpen,
  untilPrompt,
} from "./inside-stage.ts";
import { picture } from "./picture.ts";
import { KEY } from "./stage.ts";

const test = suite("browser/inside-terminal");
let stage: InsideStage;
let keyed: InsideStage | undefined;

test.before(async () => {
  stage = await startInsideStage();
});
test.after(async () => {
  // Each waits for the commands of both.
  await Promise.all([stage?.stop(), keyed?.stop()]);
});

test("a shell answers in colours, follows the size of the page, and says its exit code", async () => {
  const project = join(stage.folder, "project");
  mkdirSync(join(project, "src"), { recursive: true });
  for (const name of ["README.md", "package.json", "src/main.ts"]) writeFileSync(join(project, name), "");
  const { page, assertAccessible, close } = await openTerminal(stage);
  await typeLine(page, "printf '\\033[38;2;255;0;0m%s\\033[0m\\n' tr''ue; stty size");
  await untilLine(page, "true");
  const size = async () => (await linesOf(page)).findLast((line) => /^\d+ \d+$/.test(line));
  await eventually(async () => (await size()) !== undefined);
  const before = await size();
  const style = await page.locator(".xterm-rows span", { hasText: /^true$/ }).getAttribute("style");
  assert.match(style ?? "", /^color: rgb/);
  await assertAccessible();
  await typeLine(page, `cd ${project}; PS1='app$ '; clear; ls -l --color`);
  await untilLine(page, "app$");
  await picture(page, "terminal");
  await page.setViewportSize({ width: 900, height: 600 });
  await eventually(async () => {
    await typeLine(page, "clear; stty size");
    return (await size()) !== undefined && (await size()) !== before;
  });
  await typeLine(page, "exit 7");
  await page.getByRole("status").getByText("The process exited with code 7.").waitFor();
  assert.is(await page.evaluate("document.activeElement.textContent"), "New shell");
  await page.keyboard.press("Enter");
  await untilOpen(page);
  await typeLine(page, "echo an''other");
  await untilLine(page, "another");
  await close();
});

test("a cut connection and a reload lead to the same shell with its history", async () => {
  const { page, expect, close } = await openTerminal(stage);
  expect(/WebSocket connection to/);
  await typeLine(page, "mine=kept; echo be''fore");
  await untilLine(page, "before");
  // It connects again after a quarter of a second.
  await page.evaluate(`window.words = new Set();
    new MutationObserver(() => words.add(document.querySelector(".shell [role=status]").textContent))
      .observe(document.querySelector(".shell .acts"), { subtree: true, childList: true, characterData: true })`);
  stage.edge.attachments.close();
  await eventually(async () =>
    ((await page.evaluate("[...words]")) as string[]).includes("Connection lost. Reconnecting …"),
  );
  await untilOpen(page);
  await untilLine(page, "before");
  await typeLine(page, "echo $mine-1");
  await untilLine(page, "kept-1");
  await page.reload();
  await untilOpen(page);
  await untilLine(page, "kept-1");
  await page.locator(".screen").click();
  // Answers to queries in the history would be typed here.
  await typeLine(page, "echo $mine-2");
  await untilLine(page, "kept-2");
  await close();
});

test("a pasted megabyte arrives whole", async () => {
  const { page, close } = await openTerminal(stage);
  const file = join(stage.folder, "pasted");
  const text = Array.from({ length: 2 ** 14 }, (_, at) => `${String(at).padStart(63, "x")}\n`).join("");
  assert.is(text.length, 2 ** 20);
  await typeLine(page, `stty -echo; echo rea''dy; head -c ${text.length} > ${file}; stty sane; echo who''le`);
  await untilLine(page, "ready");
  await page.evaluate(`{
    const clipboardData = new DataTransfer();
    clipboardData.setData("text/plain", ${JSON.stringify(text)});
    document.activeElement.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true }));
  }`);
  await untilLine(page, "whole");
  assert.is(readFileSync(file, "utf8"), text);
  await close();
});

test("output changes nothing but the screen, and cannot stop the page", async () => {
  const { page, close } = await openTerminal(stage);
  const context = page.context();
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  await page.evaluate("navigator.clipboard.writeText('mine')");
  const title = await page.title();
  const sequences = [
    ...["\\033]0;pwned\\a", "\\033]2;pwned\\a", "\\033]52;c;cHduZWQ=\\a", "\\033]9;pwned\\a", "\\033[21t"],
    ...["\\033]8;;https://example.com/\\alinked\\033]8;;\\a\\n", "https://example.com/plain\\n"],
    ...["b\\033[2147483647b", "\\033[2147483647S\\033[2147483647T\\033[2147483647L\\033[2147483647M\\033[2147483647I"],
  ];
  await typeLine(page, `clear; printf '${sequences.join("")}'; echo; echo aft''er`);
  await untilLine(page, "after");
  for (const words of ["linked", "https://example.com/plain"]) {
    await page.locator(".xterm-rows > div", { hasText: words }).click({ force: true, position: { x: 20, y: 5 } });
    await page.locator(".xterm-rows > div", { hasText: words }).click({
      ...{ force: true, position: { x: 20, y: 5 }, modifiers: ["Control"] },
    });
  }
  assert.is(context.pages().length, 1);
  assert.is(await page.title(), title);
  assert.is(await page.evaluate("navigator.clipboard.readText()"), "mine");

  // Also what comes without an end, and what piles up in one place.
  for (const [flood, shown] of [
    ["yes", "y"],
    ["yes \"$(printf '\\314\\201%.0s' $(seq 1000))\" | tr -d '\\n'", "\u0301"],
  ] as const) {
    await typeLine(page, flood);
    await eventually(async () => (await linesOf(page)).some((line) => line.includes(shown)));
    await page.keyboard.press("Control+c");
    await untilPrompt(page);
    await typeLine(page, "clear; echo cal''m");
    await untilLine(page, "calm");
  }
  await close();
});

test("without a mouse: into the terminal, where letters are text, and out of it", async () => {
  const { page, expect, close } = await openPage(stage.browser);
  // There is no log.
  expect(/status of 503/);
  await page.goto(stage.at(""));
  await page.getByRole("link", { name: "Terminal", disabled: false }).waitFor();
  await page.keyboard.press("t");
  await untilOpen(page);
  const focused = () => page.evaluate("document.activeElement.textContent || document.activeElement.ariaLabel");
  await eventually(async () => (await focused()) === "Terminal of inst-a");
  // Of use only once it is known whose instance this is.
  await page.getByRole("link", { name: "Saved versions", disabled: false }).waitFor();
  const pages = ["Session", "Terminal", "Files", "Processes", "Pod and log", "Saved versions"];
  for (const name of [...pages, "New shell", "Terminal input"]) {
    await page.keyboard.press("Tab");
    assert.is(await focused(), name);
  }
  for (const key of ["g", "c", "?", "Control+k", "Escape", "Tab"]) await page.keyboard.press(key);
  assert.is(await focused(), "Terminal input");
  assert.is(await page.getByRole("dialog").count(), 0);
  await eventually(async () => (await linesOf(page)).some((line) => /[#$] gc\?$/.test(line)));
  await page.keyboard.press("Control+c");
  await untilPrompt(page);
  await typeLine(page, "echo still-''here");
  await untilLine(page, "still-here");
  await page.keyboard.press("Shift+F6");
  assert.is(await focused(), "Terminal of inst-a");
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keys" }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("f");
  await page.getByRole("button", { name: "New folder" }).waitFor();
  await page.keyboard.press("t");
  await untilOpen(page);
  await untilLine(page, "still-here");
  await close();
});

test("on a phone it fits, and has the keys that a phone lacks", async () => {
  const { page, assertAccessible, close } = await openTerminal(stage, {
    ...{ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, colorScheme: "dark" },
  });
  assert.is(await page.evaluate("document.documentElement.scrollWidth"), 390);
  await typeLine(page, "echo fir''st");
  await untilLine(page, "first");
  await page.getByRole("button", { name: "Up" }).tap();
  await page.keyboard.press("Enter");
  await eventually(async () => (await linesOf(page)).filter((line) => line === "first").length === 2);
  await typeLine(page, "echo rea''ding; cat");
  await untilLine(page, "reading");
  await page.getByRole("button", { name: "Ctrl" }).tap();
  await page.keyboard.type("c");
  await untilPrompt(page);
  await typeLine(page, "echo $?");
  await untilLine(page, "130");
  await assertAccessible();
  await close();
});

test("a terminal that waits for the login opens after it, with the session's cookie", async () => {
  keyed = await startInsideStage({ apiKey: KEY });
  const { page, expect, close } = await openPage(keyed.browser);
  expect(UNAUTHORIZED);
  expect(/WebSocket connection to/);
  await page.goto(keyed.at("/terminal"));
  await page.getByLabel("API key").fill(KEY);
  await page.keyboard.press("Enter");
  await untilOpen(page);
  await close();
});

test("what cannot be opened says why, once", async () => {
  const { page, expect, assertAccessible, close } = await openPage(stage.browser);
  expect(/status of 4|WebSocket connection to/);
  await page.goto(stage.at("/terminal?pid=4000000"));
  await page.getByRole("status").getByText("no process 4000000 was started here").waitFor();
  await page.goto(`${stage.url}/dashboard/instances/none/terminal`);
  await page.getByRole("status").getByText('instance "none" does not exist').waitFor();
  await assertAccessible();
  await close();
});

test.run();
