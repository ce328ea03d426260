// @own-cluster
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { ClaimStatus } from "../../crds/claim.ts";
import { systemClock } from "../../crds/client/clock.ts";
import { dashboardRoutes, loadDashboard } from "../../edge/api/dashboard.ts";
import { publishClaim } from "../../edge/api/events/publish-change.ts";
import { createHandler, pathOf } from "../../edge/http/handler.ts";
import { serveNode } from "../../edge/serve/node.ts";
import type { Server } from "../../edge/serve/serve.ts";
import { startTcpProxy } from "../../scripts/cluster/process/tcp-proxy.ts";
import { type TestEdge, testEdge } from "../unit/edge/test-edge.ts";
import { silentLog } from "../unit/silent-log.ts";
import { CUT, launchBrowser, openPage } from "./browser.ts";

const test = suite("browser/many");
const COUNT = 10_000;
/** A change of the tables' length would show as many more rows in the document. */
const MOST_IN_DOCUMENT = 100;
/** The list of claims, or its first page. */
const LIST = /\/api\/v1\/claims\?(?!.*after=)/;
let edge: TestEdge;
let server: Server;
let browser: Awaited<ReturnType<typeof launchBrowser>>;

const nameOf = (number: number) => `tenant-${String(number).padStart(5, "0")}`;
const claimOf = (number: number) => `claim-${nameOf(number)}-hello`;
const statusOf = (number: number, isFailed: boolean): ClaimStatus =>
  isFailed
    ? { phase: "Error", reason: "ImagePullFailed" }
    : { phase: "Active", source: "pool", instanceId: `inst-${number}`, endpoint: { host: "10.1.0.1", port: 8080 } };

test.before(async () => {
  edge = testEdge({ clock: systemClock });
  const assets = await loadDashboard(silentLog);
  if (assets === undefined) throw new Error("npm run dashboard has to make the page first");
  // Through an API server these would take two minutes.
  for (let number = 0; number < COUNT; number += 1) {
    edge.cluster.addClaim({ tenantId: nameOf(number), workloadRef: "hello", status: statusOf(number, false) });
  }
  const routes = dashboardRoutes(assets, { checkPage: () => undefined });
  const pages = createHandler({ routes, log: silentLog, instance: "pages" });
  server = await serveNode({
    handler: (request, context) =>
      /^\/($|dashboard|assets\/)/.test(pathOf(request.url)) ? pages(request, context) : edge.handler(request, context),
    listen: { hostname: "127.0.0.1", port: 0 },
    log: silentLog,
  });
  browser = await launchBrowser();
});
test.after(async () => {
  await browser?.close();
  edge?.events.close();
  await server?.stop({ graceMs: 0 });
});

/** Changes a claim in the cluster, and tells of it. */
function change(number: number, isFailed: boolean): void {
  const previous = edge.cluster.claim(claimOf(number));
  edge.cluster.setStatus(claimOf(number), statusOf(number, isFailed));
  publishClaim({ type: "modified", object: edge.cluster.claim(claimOf(number)), previous }, edge.events);
}

test("ten thousand rows: few in the document, all in reach, and right after a storm of changes under a scroll", async () => {
  const { page, close } = await openPage(browser);
  await page.addInitScript(`window.longest = 0;
    new PerformanceObserver((list) => { for (const { duration } of list.getEntries()) longest = Math.max(longest, duration); })
      .observe({ type: "longtask", buffered: true });`);
  const began = performance.now();
  await page.goto(`${server.url}/dashboard/claims?sort=tenant`);
  const grid = page.getByRole("grid", { name: "Claims" });
  await grid.getByRole("row", { name: nameOf(0) }).waitFor();
  const shownMs = performance.now() - began;
  assert.is(await grid.getAttribute("aria-rowcount"), String(COUNT + 1));
  const inDocument = () => grid.getByRole("row").count();
  assert.ok((await inDocument()) < MOST_IN_DOCUMENT);
  await page.evaluate("longest = 0");

  const failed = new Set<number>();
  let next = 1;
  const storm = setInterval(() => {
    for (let count = 0; count < 20; count += 1) {
      next = (next * 48_271) % 2_147_483_647;
      const number = next % COUNT;
      if (failed.has(number)) failed.delete(number);
      else failed.add(number);
      change(number, failed.has(number));
    }
  }, 100);
  await grid.hover();
  for (let step = 0; step < 60; step += 1) await page.mouse.wheel(0, 1200);
  clearInterval(storm);
  assert.ok((await inDocument()) < MOST_IN_DOCUMENT);
  const longestMs = Number(await page.evaluate("longest"));
  console.log(`note: ${COUNT} rows after ${shownMs.toFixed(0)} ms; longest task under the storm ${longestMs} ms`);

  await grid.focus();
  await page.keyboard.press("End");
  await grid.getByRole("row", { name: nameOf(COUNT - 1) }).waitFor();
  await page.keyboard.press("Home");
  await grid.getByRole("row", { name: nameOf(0) }).waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type(nameOf(4242));
  await grid.getByRole("row", { name: nameOf(4242) }).waitFor();
  await page.locator(`[role=grid][aria-rowcount="2"]`).waitFor();
  // Every change has arrived, each in its row.
  assert.ok(failed.size > 0);
  await page.goto(`${server.url}/dashboard/claims?phase=Error`);
  await page.locator(`[role=grid][aria-rowcount="${failed.size + 1}"]`).waitFor();
  for (const number of failed) change(number, false);
  await page.locator(`[role=grid][aria-rowcount="1"]`).waitFor();
  await close();
});

test("a page that missed more than the edge keeps reads the list anew, once, and shows what is there now", async () => {
  const proxy = await startTcpProxy({ port: Number(new URL(server.url).port) });
  const { page, expect, close } = await openPage(browser);
  const lists: string[] = [];
  page.on("requestfinished", (request) => {
    if (LIST.test(request.url())) lists.push(request.url());
  });
  await page.goto(`http://127.0.0.1:${proxy.port}/dashboard/claims?phase=Error`);
  await page.getByText("live").waitFor();
  await page.locator(`[role=grid][aria-rowcount="1"]`).waitFor();
  await page.evaluate("window.isSame = true");
  assert.is(lists.length, 1);
  proxy.block();
  await page.getByText("Disconnected.").waitFor();
  for (let count = 0; count < 5000; count += 1) change(count % 100, count < 4950);
  proxy.admit();
  // Of a hundred that failed and failed again, the last round mended fifty.
  await page.locator(`[role=grid][aria-rowcount="51"]`).waitFor();
  await page.getByText("Disconnected.").waitFor({ state: "detached" });
  assert.is(lists.length, 2);
  assert.is(await page.evaluate("window.isSame"), true);
  expect(CUT);
  await close();
  await proxy.close();
});

test.run();
