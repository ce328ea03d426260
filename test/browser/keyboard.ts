import type { Page } from "playwright-core";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { eventually } from "../eventually.ts";
import { openPage } from "./browser.ts";
import { filledStage, openVisit, takeComplaints, type Visit } from "./fill-stage.ts";
import { type Stage, sharedStage } from "./stage.ts";

const test = suite("browser/keyboard");
let stage: Stage;
let visits: Visit[];

test.before(async () => {
  stage = await sharedStage("browser-pages");
  visits = await filledStage(stage);
});
test.after(() => stage?.stop());

/** What has the focus: its tag or role, and its name or text. */
function focused(page: Page): Promise<string> {
  return page.evaluate(`(({ role, tagName, ariaLabel, innerText }) =>
    tagName === "BODY" ? tagName : (role ?? tagName) + " " + (ariaLabel ?? innerText).split("\\n")[0]
  )(document.activeElement)`) as Promise<string>;
}

test("the whole way without a mouse: pages, filter, rows, an object, its dialog, and back", async () => {
  const { page, close } = await openPage(stage.browser);
  const press = async (...keys: string[]) => {
    for (const key of keys) await page.keyboard.press(key);
  };
  const until = (what: string) => eventually(async () => (await focused(page)) === what);
  await page.goto(stage.edge.url);
  await page.getByRole("heading", { level: 1, name: /problem/ }).waitFor();
  await press("Tab");
  await until("A Skip to content");
  await press("Enter");
  assert.is(await page.evaluate("document.activeElement.id"), "main");

  for (const [letter, name] of ["iInstances", "wWorkloads", "pPools", "tTriggers", "sSnapshots", "cClaims"].map(
    (word) => [word.charAt(0), word.slice(1)] as const,
  )) {
    await press("g", letter);
    await until(`H1 ${name}`);
  }
  await press("/");
  await until("INPUT Filter claims");
  // Letters are text while a field has the focus.
  await page.keyboard.type("hello");
  await page.getByRole("row", { name: /bob/ }).waitFor({ state: "detached" });
  await press("Escape");
  await until("BODY");
  await press("/");
  assert.is(await page.getByRole("searchbox").inputValue(), "hello");
  await press("Enter");
  await until("grid Claims");
  const active = page.locator(".row.active");
  await eventually(async () => /alice/.test(await active.innerText()));
  await press("j", "ArrowDown", "k", "PageDown", "Home");
  await eventually(async () => /alice/.test(await active.innerText()));
  const id = await page.getByRole("grid", { name: "Claims" }).getAttribute("aria-activedescendant");
  assert.is(await active.getAttribute("id"), id);

  await press("Enter");
  await until("H1 hello claimed by alice");
  await page.getByRole("table", { name: "Timeline of the claim" }).waitFor();
  await press("r");
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  await until("BUTTON Cancel");
  await press("Shift+Tab", "Tab", "Tab", "Tab", "Tab");
  assert.is(
    await page.evaluate(
      "document.activeElement === document.body || document.activeElement.closest('dialog') !== null",
    ),
    true,
  );
  await press("Escape");
  await dialog.waitFor({ state: "detached" });
  await until("H1 hello claimed by alice");
  await page.getByText("Active").first().waitFor();

  await press("Escape");
  await until("H1 Claims");
  assert.is(await page.getByRole("searchbox").inputValue(), "hello");
  await press("Control+k");
  await page.getByRole("dialog", { name: "Go to" }).waitFor();
  await page.keyboard.type("pools");
  await press("Enter");
  await until("H1 Pools");
  await press("?");
  await page.getByRole("dialog", { name: "Keys" }).getByText("Next row").waitFor();
  await press("Escape");
  await until("H1 Pools");
  await close();
});

test("a column is ordered by its head, and a choice is made, with Tab and Enter alone", async () => {
  const { page, close } = await openPage(stage.browser);
  await page.goto(`${stage.edge.url}/dashboard/claims`);
  await page.getByRole("row", { name: /alice/ }).waitFor();
  const head = page.getByRole("columnheader", { name: "Tenant" });
  await head.getByRole("button").focus();
  await page.keyboard.press("Enter");
  await eventually(async () => (await head.getAttribute("aria-sort")) === "ascending");
  await page.keyboard.press("Enter");
  await eventually(async () => (await head.getAttribute("aria-sort")) === "descending");
  await page.getByLabel("State", { exact: true }).focus();
  await page.keyboard.press("F");
  await page.getByRole("row", { name: /eve nothing Failed/ }).waitFor();
  assert.is(new URL(page.url()).searchParams.get("state"), "Failed");
  await close();
});

/** What scrolls by itself, or is for readers of the screen. */
const SCROLLS = "pre, textarea, .grid, .log, .unseen, .skip";
/** What is wider than the page, and in none of `but`. */
const tooWide = (but: string) => `[...document.querySelectorAll("body *")]
  .filter((one) => one.checkVisibility() && one.getBoundingClientRect().right > innerWidth + 1)
  .filter((one) => !one.closest("${but}"))
  .map((one) => one.outerHTML.slice(0, 80))`;
/** What is touched and less than 40 px high, but for links within text. */
const TOO_SMALL = `[...document.querySelectorAll("nav a, button, select, input, summary, a.button")]
  .filter((one) => one.checkVisibility() && !one.closest(".unseen") && !["checkbox", "radio"].includes(one.type))
  .map((one) => [one.outerHTML.slice(0, 80), one.getBoundingClientRect().height])
  .filter(([, height]) => height < 40)`;

test("on a phone of 360 by 740 no page is wider, and what is touched is 40 px high", async () => {
  const opened = await openPage(stage.browser, { viewport: { width: 360, height: 740 }, hasTouch: true });
  const { page, assertAccessible, close } = opened;
  for (const visit of visits) {
    await openVisit(opened, { edge: stage.edge, visit });
    assert.is(await page.evaluate("document.documentElement.scrollWidth"), 360, visit.at);
    assert.equal(await page.evaluate(tooWide(SCROLLS)), [], visit.at);
    assert.equal(await page.evaluate(TOO_SMALL), [], visit.at);
    await assertAccessible();
    assert.equal(takeComplaints(opened, visit), [], visit.at);
  }
  await close();
});

test("with text twice as large no page is wider, and rows are as much higher", async () => {
  const opened = await openPage(stage.browser);
  const { page, assertAccessible, close } = opened;
  // As the browser's settings do it, 16 and 13 px before.
  const session = await page.context().newCDPSession(page);
  await session.send("Page.setFontSizes", { fontSizes: { standard: 32, fixed: 26 } });
  for (const visit of visits) {
    await openVisit(opened, { edge: stage.edge, visit });
    assert.is(await page.evaluate("document.documentElement.scrollWidth"), 1280, visit.at);
    assert.equal(await page.evaluate(tooWide(`nav, ${SCROLLS}`)), [], visit.at);
    await assertAccessible();
    assert.equal(takeComplaints(opened, visit), [], visit.at);
  }
  await page.goto(`${stage.edge.url}/dashboard/claims`);
  assert.is((await page.getByRole("row", { name: /alice/ }).boundingBox())?.height, 128);
  await close();
});

test("with forced colors the focus and the active row can be seen", async () => {
  const { page, close } = await openPage(stage.browser, { forcedColors: "active" });
  await page.goto(`${stage.edge.url}/dashboard/claims`);
  await page.getByRole("row", { name: /alice/ }).waitFor();
  await page.keyboard.press("j");
  await page.locator(".row.active").waitFor();
  const outline = (of: string) => page.evaluate(`getComputedStyle(document.querySelector("${of}")).outlineStyle`);
  assert.is(await outline(".row.active"), "solid");
  assert.is(await outline(".grid"), "solid");
  await close();
});

test.run();
