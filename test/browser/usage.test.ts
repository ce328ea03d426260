// @own-cluster
import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { systemClock } from "../../crds/client/clock.ts";
import type { Actor } from "../../edge/access/actor.ts";
import { call } from "../unit/snapshots/store-contract.ts";
import type { UsedBy } from "../unit/usage/usage-lines.ts";
import { openPage } from "./browser.ts";
import { startFakeStage } from "./fake-stage.ts";
import { picture } from "./picture.ts";
import { startUsageStage, type UsageStage } from "./usage-stage.ts";

const test = suite("browser/usage");
let stage: UsageStage;

const DAYS = "range=days&first=2026-10-01&last=2026-10-31";
const TENANTS = 230;
const many = Array.from({ length: TENANTS }, (_, at) => `tenant-${String(at).padStart(3, "0")}`);
const sessions: UsedBy[] = [
  ...many.map((tenantId) => ({ tenantId, from: "2026-10-05T10:00:00Z", seconds: 36 })),
  // Two vCPUs and 100 MiB each.
  { tenantId: "alice", from: "2026-10-05T10:00:00Z", seconds: 7200 },
  { tenantId: "alice", workload: "other", source: "cold", from: "2026-10-07T23:30:00Z", seconds: 3600 },
  { tenantId: "zoe", from: "2026-10-31T10:00:00Z", seconds: 360, end: null },
];

test.before(async () => {
  stage = await startUsageStage(sessions);
  const hour = "2026-10-07T10";
  const record = {
    ...{ id: `snapshot:alice:other/${hour}`, kind: "snapshot", tenantId: "alice", workload: "other" },
    ...{ from: `${hour}:00:00.000Z`, to: "2026-10-07T11:00:00.000Z", byteHours: 1.5 * 1024 ** 3 },
  };
  await stage.served.usage.append({ hour, name: "b-1", lines: `${JSON.stringify(record)}\n` }, call);
});
test.after(() => stage?.stop());

interface Sum {
  readonly tenantId?: string;
  readonly day?: string;
  readonly vcpuSeconds: number;
}

async function sumsOf(query: string): Promise<Sum[]> {
  return (await stage.edge.call(`GET /api/v1/usage?from=2026-10-01&to=2026-11-01&${query}`)).json as Sum[];
}

/** The texts of a table's rows, without its head. */
async function rowsOf(page: Page, name: string): Promise<string[][]> {
  const rows = await page.getByRole("table", { name }).locator("tbody tr").all();
  return await Promise.all(rows.map((row) => row.locator("th, td").allTextContents()));
}

test("the bars, the table of days and the totals are the API's sums", async () => {
  const { page, assertAccessible, close } = await openPage(stage.browser);
  await page.goto(`${stage.url}/dashboard/usage?${DAYS}&by=workload`);
  await page.getByRole("rowheader", { name: "other" }).waitFor();
  assert.equal(await rowsOf(page, "By workload"), [
    ["app", "8.8", "0.43", "0", "4.4", "231", "pool 231"],
    ["other", "2", "0.0977", "1.5", "1", "1", "cold 1"],
  ]);
  const days = await sumsOf("by=day");
  assert.equal(
    days.map(({ day }) => day),
    ["2026-10-05", "2026-10-07", "2026-10-08", "2026-10-31"],
  );
  const most = Math.max(...days.map(({ vcpuSeconds }) => vcpuSeconds));
  const heights = await page
    .locator(".bars rect:not(.day)")
    .evaluateAll((bars) => bars.map((bar) => bar.getAttribute("height")));
  assert.is(heights.length, 31);
  for (const [at, height] of heights.entries()) {
    const sum = days.find(({ day }) => day === `2026-10-${String(at + 1).padStart(2, "0")}`);
    const share = ((sum?.vcpuSeconds ?? 0) / most) * 100;
    assert.ok(Math.abs(Number(height) - share) < 1, `day ${at + 1}: ${height} is not ${share}`);
  }
  await page.getByText("Each day").click();
  const [, , , , fifth, , seventh] = await rowsOf(page, "Usage of each day");
  assert.equal(fifth, ["2026-10-05", "8.6", "0.42", "0", "4.3", "231"]);
  assert.equal(seventh, ["2026-10-07", "1", "0.0488", "1.5", "0.5", "0"]);
  const words = await page.getByRole("main").locator("dl").innerText();
  assert.equal(words.split("\n"), [
    ...["vCPU-hours", "10.8", "Memory, GiB-hours", "0.527", "Files, GiB-hours", "1.5"],
    ...["Hours", "5.4", "Sessions", "232"],
  ]);
  await picture(page, "usage");
  await page.getByLabel("Chart").selectOption("Sessions");
  await page.getByRole("img", { name: /^Sessions by day, .*: at most 231, on/ }).waitFor();
  await assertAccessible();
  await close();
});

test("a page has a hundred tenants and says that there are more; the address names it, and the CSV has its rows", async () => {
  const { page, assertAccessible, close } = await openPage(stage.browser);
  await page.goto(`${stage.url}/dashboard/usage?${DAYS}`);
  const expected = await sumsOf("limit=1000");
  const seen: string[] = [];
  for (const [first, count] of [
    ["alice", 100],
    ["tenant-099", 100],
    ["tenant-199", 32],
  ] as const) {
    await page.getByRole("rowheader", { name: first, exact: true }).waitFor();
    const rows = await rowsOf(page, "By tenant");
    assert.is(rows.length, count);
    seen.push(...rows.map(([name = ""]) => name));
    const isLast = count < 100;
    assert.is(await page.getByText("There are more.").count(), isLast ? 0 : 1);
    if (!isLast) await page.getByRole("link", { name: "Next 100" }).click();
  }
  assert.equal(
    seen,
    expected.map(({ tenantId }) => tenantId),
  );
  await assertAccessible();
  // The address is all that the page knows.
  const { page: other, close: closeOther } = await openPage(stage.browser);
  await other.goto(page.url());
  await other.getByRole("rowheader", { name: "zoe" }).waitFor();
  const [download] = await Promise.all([
    other.waitForEvent("download"),
    other.getByRole("link", { name: "Download CSV" }).click(),
  ]);
  const lines = readFileSync(await download.path(), "utf8")
    .trim()
    .split("\r\n");
  assert.is(
    lines[0],
    "tenantId,sessions,seconds,vcpuSeconds,mibSeconds,pool,pool+data,cold,cold+data,existing,snapshotByteHours",
  );
  assert.equal(
    lines.slice(1).map((line) => line.split(",")[0]),
    seen.slice(200),
  );
  await closeOther();
  await page.goBack();
  await page.getByRole("rowheader", { name: "tenant-099", exact: true }).waitFor();
  await close();
});

test("a tenant and days are chosen by keyboard, and what cannot be read says why", async () => {
  const { page, expect, close } = await openPage(stage.browser);
  expect(/status of 400/);
  await page.goto(`${stage.url}/dashboard/usage?${DAYS}`);
  await page.getByRole("rowheader", { name: "alice" }).waitFor();
  await page.getByRole("searchbox", { name: "Tenant" }).fill("zoe");
  await page.keyboard.press("Enter");
  await page.getByRole("rowheader", { name: "alice" }).waitFor({ state: "detached" });
  await page.getByRole("rowheader", { name: "zoe" }).waitFor();
  assert.match(page.url(), /tenant=zoe$/);
  await page.getByLabel("First day").fill("2026-11-01");
  await page.getByText("Choose a first and a last day: at most 92 days").waitFor();
  await page.getByLabel("Range").selectOption("Last month");
  await page.getByRole("heading", { name: "By tenant" }).waitFor();
  await page.getByRole("searchbox", { name: "Tenant" }).fill(`"><script>window.pwned=1</script>`);
  await page.keyboard.press("Enter");
  await page.getByRole("alert").getByText("query.tenant").waitFor();
  await page.getByRole("button", { name: "Try again" }).waitFor();
  assert.is(await page.evaluate("window.pwned"), undefined);
  await close();
});

test("without a store the page says what to do", async () => {
  const empty = await startFakeStage({ clock: systemClock });
  const { page, expect, assertAccessible, close } = await openPage(empty.browser);
  expect(/status of 404/);
  await page.goto(`${empty.url}/dashboard/usage`);
  await page.getByText("no usage is recorded, since there is no store yet").waitFor();
  await assertAccessible();
  await close();
  await empty.stop();
});

test("a tenant's key reads its own usage, one request after the other, and gets no other tenant's", async () => {
  const actor: Actor = {
    ...{ kind: "key", id: "k", ref: "k", role: "tenant", tenants: ["alice", "zoe"] },
    ended: new AbortController().signal,
  };
  const find = (text: string) => (text === "k" ? actor : undefined);
  const own = await startUsageStage(sessions, { apiKey: "root", keys: { actorOf: find, actorWithRef: find } });
  const { page, assertAccessible, close } = await openPage(own.browser);
  const statuses = new Set<number>();
  page.on("response", (response) => statuses.add(response.status()));
  await page.goto(`${own.url}/dashboard/usage?${DAYS}`);
  await page.getByLabel("API key").fill("k");
  await page.keyboard.press("Enter");
  await page.getByRole("rowheader", { name: "other" }).waitFor();
  assert.equal(
    (await rowsOf(page, "By workload")).map(([name]) => name),
    ["app", "other"],
  );
  await page.getByLabel("Grouped by").selectOption("By tenant");
  await page.getByRole("rowheader", { name: "alice" }).waitFor();
  await page.getByRole("combobox", { name: "Tenant" }).selectOption("zoe");
  await page.getByRole("rowheader", { name: "zoe" }).waitFor();
  assert.is((await rowsOf(page, "By tenant")).length, 1);
  await assertAccessible();
  assert.equal([...statuses], [200]);
  await page.goto(`${own.url}/dashboard/tenants/alice`);
  await page.getByText("Each day").waitFor();
  assert.not(statuses.has(403) || statuses.has(429));
  await close();
  await own.stop();
});

for (const colorScheme of ["light", "dark"] as const) {
  test(`on a phone nothing is wider than the screen, ${colorScheme}`, async () => {
    const long = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };
    const { page, assertAccessible, close } = await openPage(stage.browser, { ...long, colorScheme });
    await page.goto(`${stage.url}/dashboard/usage?${DAYS}`);
    await page.getByRole("rowheader", { name: "alice" }).waitFor();
    await page.getByText("Each day").tap();
    assert.ok(await page.getByText("There are more.").isVisible());
    assert.is(await page.evaluate("document.documentElement.scrollWidth"), 390);
    await assertAccessible();
    await picture(page, `usage-phone-${colorScheme}`);
    await close();
  });
}

test.run();
