// @own-cluster
import type { Page } from "playwright-core";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { systemClock } from "../../crds/client/clock.ts";
import { createDeferred } from "../../crds/waits.ts";
import { openPage } from "./browser.ts";
import { type FakeStage, startFakeStage } from "./fake-stage.ts";

const test = suite("browser/layout");
let stage: FakeStage;

test.before(async () => {
  stage = await startFakeStage({ clock: systemClock });
  const { cluster } = stage.edge;
  cluster.addWorkload("hello");
  // Made without the API, which the note of its first step says.
  const timeline = (["Seen", "Bound", "Scheduled", "Started", "Ready", "Active"] as const).map((step, at) => ({
    ...{ step, at: `2026-01-01T00:00:0${at + 1}.000Z` },
  }));
  const endpoint = { host: "10.0.0.1", port: 8080 };
  const status = { phase: "Active", instanceId: "inst-alice", endpoint, source: "cold", timeline } as const;
  cluster.addClaim({ tenantId: "alice", workloadRef: "hello", status });
  cluster.addClaim({ tenantId: "bob", workloadRef: "hello", status: { phase: "Pending" } });
});
test.after(() => stage?.stop());

/** Three lines of text with the cell's padding. */
const MOST_PX = 70;

test("the notes of a time line have room for words", async () => {
  const { page, expect, close } = await openPage(stage.browser);
  expect(/status of 503/);
  for (const width of [390, 1024, 1440, 1920]) {
    await page.setViewportSize({ width, height: 900 });
    for (const [tenant, note] of [
      ["alice", "created without the API: creation time known to the second"],
      ["bob", "start time known to the second"],
    ] as const) {
      await page.goto(`${stage.url}/dashboard/claims/${tenant}/hello`);
      const cell = page.getByRole("table", { name: "Timeline of the claim" }).getByText(note);
      await cell.waitFor();
      const { height } = (await cell.boundingBox()) ?? { height: 0 };
      assert.ok(height > 0 && height <= MOST_PX, `${tenant} at ${width} px: ${height} px high`);
      assert.is(await page.evaluate("document.documentElement.scrollWidth"), width);
    }
  }
  await close();
});

/** The contrast of the primary button's text, https://www.w3.org/TR/WCAG22/#dfn-contrast-ratio. */
async function contrast(page: Page): Promise<number> {
  const style = "getComputedStyle(document.querySelector('button.primary'))";
  const colors = (await page.evaluate(`[${style}.color, ${style}.backgroundColor]`)) as string[];
  const [low = 0, high = 0] = colors.map(luminance).sort((x, y) => x - y);
  return (high + 0.05) / (low + 0.05);
}

function luminance(color: string): number {
  const [r = 0, g = 0, b = 0] = (color.match(/[\d.]+/g) ?? []).map((part) => {
    const share = Number(part) / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

for (const colorScheme of ["light", "dark"] as const) {
  test(`a primary button that does nothing yet can be read, ${colorScheme}`, async () => {
    const { page, close } = await openPage(stage.browser, { colorScheme });
    await page.goto(`${stage.url}/dashboard/create/claim`);
    const button = page.getByRole("button", { name: "Claim", exact: true });
    await button.waitFor();
    assert.is(await button.getAttribute("aria-disabled"), "true");
    const ratio = await contrast(page);
    assert.ok(ratio >= 4.5, `${ratio.toFixed(2)} : 1`);
    await page.getByLabel("Tenant").fill("carol");
    await page.getByLabel("Workload").selectOption("hello");
    assert.is(await button.getAttribute("aria-disabled"), null);
    const enabled = await contrast(page);
    assert.ok(enabled >= 4.5, `${enabled.toFixed(2)} : 1 enabled`);
    await close();
  });
}

test("a form shows what is needed first, folds the rest, and keeps its button in reach", async () => {
  const { page, expect, assertAccessible, close } = await openPage(stage.browser);
  // The API checks what is typed.
  expect(/status of 400/);
  for (const [width, height] of [
    [1280, 800],
    [390, 844],
  ] as const) {
    await page.setViewportSize({ width, height });
    await page.goto(`${stage.url}/dashboard/create/workload`);
    await page.getByLabel("Image", { exact: true }).waitFor();
    const button = page.getByRole("button", { name: "Create", exact: true });
    const box = (await button.boundingBox()) ?? { y: height, height: 0 };
    assert.ok(box.y + box.height <= height, `${width}: the button is at ${box.y} px`);
    assert.ok(Number(await page.evaluate("document.documentElement.scrollHeight")) < 2 * height);
    assert.is(await page.getByLabel("diskGb", { exact: true }).filter({ visible: true }).count(), 0);
    await assertAccessible();
    // A wrong value in a field that was folded again is unfolded: by an answer that comes after that.
    const folded = createDeferred<void>();
    await page.route(/dryRun=true/, async (route) => {
      await folded.promise;
      await route.continue();
    });
    const group = page.locator("details.group", { hasText: "vcpus" });
    const disk = page.getByLabel("diskGb", { exact: true });
    await group.locator("summary").click();
    await disk.fill("-1");
    await group.locator("summary").click();
    await disk.waitFor({ state: "hidden" });
    folded.resolve();
    await group.getByText("body.spec.resources.diskGb").waitFor();
    await page.unroute(/dryRun=true/);
    // The names of Kubernetes' fields are longer than a phone is wide.
    await page.locator("details.group", { hasText: "nodeSelector" }).locator("summary").click();
    await page.getByLabel("nodeSelector", { exact: true }).waitFor();
    assert.is(await page.evaluate("document.documentElement.scrollWidth"), width);
    await assertAccessible();
    await page.getByRole("button", { name: "Cancel" }).click();
    await page.getByRole("heading", { level: 1, name: "Workloads" }).waitFor();
  }
  await close();
});

test("in a browser that is zoomed no link of the navigation is cut off", async () => {
  const { page, close } = await openPage(stage.browser);
  for (const width of [660, 720, 960]) {
    await page.setViewportSize({ width, height: 600 });
    await page.goto(`${stage.url}/dashboard/claims`);
    await page.getByRole("row", { name: /alice/ }).waitFor();
    const nav = page.getByRole("navigation", { name: "Pages" });
    for (const name of ["Overview", "Snapshots"]) {
      const box = await nav.getByRole("link", { name, exact: true }).boundingBox();
      assert.ok(box !== null && box.x >= 0 && box.x + box.width <= width, `${name} at ${width} px`);
      // What lies over it would take the press.
      await nav.getByRole("link", { name, exact: true }).click({ trial: true });
    }
    assert.is(await nav.evaluate((element) => element.scrollWidth <= element.clientWidth), true, `at ${width} px`);
    assert.is(await page.evaluate("document.documentElement.scrollWidth"), width);
  }
  await close();
});

test.run();
