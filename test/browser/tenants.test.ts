// @own-cluster
import type { Locator, Page } from "playwright-core";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { systemClock } from "../../crds/client/clock.ts";
import { loadClusterConfig } from "../../crds/client/config/load-cluster-config.ts";
import { triggers } from "../../crds/kinds.ts";
import { type OpenedStore, openStore } from "../../crds/snapshots/open-store.ts";
import { partsOfId, type UsageRecord } from "../../crds/usage/usage-record.ts";
import { loadConfig } from "../../edge/config.ts";
import { NAMESPACE } from "../cluster/tenancy.ts";
import { startBucket } from "../cluster/usage/bucket.ts";
import { eventually } from "../eventually.ts";
import { call, save } from "../unit/snapshots/store-contract.ts";
import { type UsedBy, usageLines } from "../unit/usage/usage-lines.ts";
import { COUNT_SHIFTS, openPage } from "./browser.ts";
import { picture } from "./picture.ts";
import { type Stage, startStage } from "./stage.ts";

const test = suite("browser/tenants");
let bucket: Awaited<ReturnType<typeof startBucket>>;
let stage: Stage;
let store: OpenedStore;

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const now = systemClock.now();
const ago = (ms: number): string => new Date(now - ms).toISOString();
/** Tenants that have saved files only: more than a page. */
const MANY = Array.from({ length: 60 }, (_, at) => `user-${1001 + at * 7}`);

test.before(async () => {
  bucket = await startBucket("tenants");
  stage = await startStage("browser-tenants", { env: bucket.env });
  const { tenancy } = stage;
  store = openStore(loadConfig(bucket.env).store, {
    client: tenancy.client,
    cluster: await loadClusterConfig({ kubeconfigPath: tenancy.cluster.kubeconfigPath }),
    ...{ namespace: NAMESPACE, env: bucket.env },
  });
  await tenancy.createWorkload("hello");
  for (const tenant of ["alice", "bob"]) await tenancy.createClaim(tenant, "hello");
  for (const tenant of ["alice", "bob"]) await tenancy.untilClaim(`claim-${tenant}-hello`, { phase: "Active" });
  const lost = await tenancy.createClaim("eve", "nothing");
  await tenancy.untilClaim(lost.metadata.name, { phase: "Error" });
  await tenancy.client.create(triggers, {
    metadata: { name: "github", namespace: NAMESPACE },
    spec: { type: "webhook", workloadRef: "hello", tenant: { from: "owner" }, config: { path: "/hooks/github" } },
  });
  const { archives } = store;
  const diary = { tenantId: "alice", workloadRef: "diary" };
  await save(archives, "of last week", diary, { createdAt: ago(7 * DAY_MS) });
  await save(archives, "of yesterday", diary, { createdAt: ago(DAY_MS), keep: "replaced" });
  const notes = { tenantId: "carol", workloadRef: "notes" };
  await save(archives, "of yesterday", notes, { createdAt: ago(DAY_MS) });
  await save(archives, "of today, with a mistake", notes, { createdAt: ago(HOUR_MS), keep: "replaced" });
  for (const tenantId of MANY) await save(archives, tenantId, { tenantId, workloadRef: "notes" });
  await record([
    { tenantId: "alice", from: monthStart(0), seconds: 5400 },
    { tenantId: "bob", from: monthStart(0), seconds: 36_000 },
    { tenantId: "carol", from: monthStart(0), seconds: 60 },
    { tenantId: "gone", from: monthStart(0), seconds: 120 },
    { tenantId: "alice", from: monthStart(-1), seconds: 72_000 },
  ]);
});
test.after(async () => {
  store?.close();
  await stage?.stop();
  await bucket?.stop();
});

function monthStart(months: number): string {
  const date = new Date(now);
  return new Date(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + months)).toISOString();
}

async function record(sessions: readonly UsedBy[]): Promise<void> {
  let batches = 0;
  for (const line of usageLines(sessions).flatMap((lines) => lines.trimEnd().split("\n"))) {
    const { hour } = partsOfId(JSON.parse(line) as UsageRecord);
    await store.usage.append({ hour, name: `a-${++batches}`, lines: `${line}\n` }, call);
  }
}

/** A page that counts the clicks, and how much its layout shifts without one. */
async function openCounting(options: Parameters<typeof openPage>[1] = {}) {
  const opened = await openPage(stage.browser, options);
  await opened.page.addInitScript(`
    window.clicks = 0;
    addEventListener("click", (event) => { if (event.isTrusted) window.clicks += 1; }, true);
  `);
  await opened.page.addInitScript(COUNT_SHIFTS);
  return opened;
}

const rowsOf = (page: Page) => page.getByRole("table", { name: "Tenants" }).locator("tbody tr");
const idsOf = (page: Page) => rowsOf(page).locator("th").allInnerTexts();
const words = async (page: Page, tenant: string): Promise<string> =>
  (await page.getByRole("row", { name: new RegExp(`^${tenant} `) }).innerText()).replace(/\s+/g, " ").trim();

test("who uses most? Two clicks from the first page", async () => {
  const { page, close } = await openCounting();
  await page.goto(stage.edge.url);
  await page.getByRole("navigation").getByRole("link", { name: "Tenants" }).click();
  await page.getByRole("columnheader", { name: "vCPU-hours" }).getByRole("button").click();
  await page.getByRole("columnheader", { name: "vCPU-hours" }).and(page.locator("[aria-sort=descending]")).waitFor();
  await eventually(async () => (await idsOf(page)).join() === "bob,alice,gone,carol");
  assert.is(await page.evaluate("window.clicks"), 2);
  await eventually(async () => /^bob 1 none 20 /.test(await words(page, "bob")));
  // A tenant that has nothing but use is there too.
  await eventually(async () => /^gone 0 none 0\.0667 /.test(await words(page, "gone")));
  await page.reload();
  await eventually(async () => (await idsOf(page))[0] === "bob");
  await close();
});

test("yesterday's files are back in four clicks from the first page", async () => {
  const { page, close } = await openCounting();
  await page.goto(stage.edge.url);
  await page.getByRole("navigation").getByRole("link", { name: "Tenants" }).click();
  await page.getByRole("link", { name: "carol" }).click();
  const versions = page.getByRole("table", { name: "Saved files" });
  const yesterday = versions.getByRole("row", { name: /Replaced by a fresh session/ });
  await yesterday.getByRole("button", { name: /^Roll back to / }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Roll back" }).click();
  await page.getByText(/^notes of carol is rolled back to /).waitFor();
  assert.is(await page.evaluate("window.clicks"), 4);
  const { newest } = await store.archives.look({ tenantId: "carol", workloadRef: "notes" }, call);
  assert.is(newest?.sizeBytes, "of yesterday".length);
  await close();
});

test("a page has fifty tenants, the next one the others, and each is in reach by the start of its id", async () => {
  const { page, assertAccessible, close } = await openCounting();
  await page.goto(`${stage.edge.url}/dashboard/tenants`);
  await page.getByRole("link", { name: "Next 50" }).waitFor();
  const first = await idsOf(page);
  assert.equal(first.slice(0, 5), ["alice", "bob", "carol", "eve", "user-1001"]);
  assert.is(first.length, 50);
  await eventually(async () => /^eve 1 ▲ 1 failing none 0 0 0 none$/.test(await words(page, "eve")));
  await eventually(async () => /^alice 1 24 B in 2 versions 3 /.test(await words(page, "alice")));
  assert.match(await words(page, "user-1001"), /^user-1001 0 9 B in 1 version 0 0 0 none$/);
  await assertAccessible();
  await page.getByRole("link", { name: "Next 50" }).click();
  await page.getByRole("link", { name: "First page" }).waitFor();
  await eventually(async () => (await idsOf(page)).length === MANY.length + 4 - 50);
  await page.goBack();
  await eventually(async () => (await idsOf(page))[0] === "alice");
  await page.keyboard.press("/");
  await page.keyboard.type("user-14");
  await eventually(async () => (await idsOf(page)).join() === MANY.filter((id) => id.startsWith("user-14")).join());
  assert.is(new URL(page.url()).search, "?prefix=user-14");
  await page.getByRole("searchbox").fill("nemo");
  await page
    .getByText("No tenant with a claim, saved files or limits of its own has an id that begins with nemo.")
    .waitFor();
  await assertAccessible();
  await page.getByRole("link", { name: "nemo" }).click();
  await page.getByText("Nothing is known of a tenant with this id").waitFor();
  await page.goto(`${stage.edge.url}/dashboard/tenants?sort=claims`);
  await eventually(async () => (await idsOf(page)).join() === "eve,alice,bob");
  await close();
});

test("a tenant's page has the acts of its claims, the triggers that claim for it, and its months", async () => {
  const { page, assertAccessible, close } = await openCounting();
  await page.goto(`${stage.edge.url}/dashboard/tenants/alice`);
  const claims = page.getByRole("table", { name: "Claims" });
  await claims.getByRole("link", { name: "Terminal of hello" }).waitFor();
  await claims.getByRole("button", { name: "Release hello" }).click();
  await page.getByRole("dialog", { name: "Release hello of alice?" }).getByRole("button", { name: "Cancel" }).click();
  const triggerRow = page.getByRole("table", { name: "Triggers" }).getByRole("row", { name: /github/ });
  await triggerRow.getByText("at events whose owner is alice").waitFor();
  await page.getByText("This server asks for no key.").waitFor();
  const months = page.getByRole("table", { name: "Usage of each month" });
  await months.getByRole("row", { name: /^This month 3 / }).waitFor();
  await months.getByRole("row", { name: /^Last month 40 / }).waitFor();
  await assertAccessible();
  await picture(page, "tenant-page");
  await page.goto(`${stage.edge.url}/dashboard/tenants/eve`);
  const lost = claims.getByRole("row", { name: /WorkloadNotFound/ });
  await lost.getByText("Create the workload. The claim then starts by itself.").waitFor();
  await lost.getByRole("button", { name: "Retry nothing" }).waitFor();
  await page.getByRole("table", { name: "Events" }).waitFor();
  await close();
});

test("the palette opens a tenant, also one without a claim", async () => {
  const { page, close } = await openCounting();
  await page.goto(`${stage.edge.url}/dashboard/claims`);
  await page.getByRole("row", { name: /alice/ }).waitFor();
  for (const tenant of ["alice", "user-1008"]) {
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: /^Page, tenant/ }).pressSequentially(tenant);
    await page.getByRole("option", { name: `${tenant} Tenants`, exact: true }).click();
    await page.waitForURL(`${stage.edge.url}/dashboard/tenants/${tenant}`);
  }
  await close();
});

for (const colorScheme of ["light", "dark"] as const) {
  for (const width of [360, 1280, 2560]) {
    test(`the tenants and one of them fit, and do not move, ${colorScheme} at ${width} px`, async () => {
      const { page, assertAccessible, close } = await openCounting({ colorScheme, viewport: { width, height: 900 } });
      const visit = async (path: string, last: Locator) => {
        // What is slow to answer is shown when it comes, below what is there or in its place: then things move.
        await eventually(async () => {
          await page.goto(`${stage.edge.url}/dashboard/${path}`);
          await last.waitFor();
          await eventually(async () => !/–|(Loading|Reading)…/.test(await page.getByRole("main").innerText()));
          return Number(await page.evaluate("window.shifts")) <= 0.05;
        });
        assert.is(await page.evaluate("document.documentElement.scrollWidth"), width);
        await assertAccessible();
        await picture(page, `${path.replaceAll("/", "-")}-${colorScheme}-${width}`);
      };
      await visit("tenants", rowsOf(page).first());
      for (const tenant of ["alice", "carol", "eve"])
        await visit(`tenants/${tenant}`, page.getByRole("img", { name: /^vCPU-hours by day/ }));
      await close();
    });
  }
}

test.run();
