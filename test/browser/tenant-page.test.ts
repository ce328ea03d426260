// @own-cluster
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { systemClock } from "../../crds/client/clock.ts";
import { readQuotas } from "../../crds/quotas/tenant-quotas.ts";
import { save } from "../unit/snapshots/store-contract.ts";
import { openPage } from "./browser.ts";
import { startFakeStage } from "./fake-stage.ts";
import { picture } from "./picture.ts";
import { startUsageStage, type UsageStage } from "./usage-stage.ts";

const test = suite("browser/tenant-page");
let stage: UsageStage;

const DAY_MS = 86_400_000;
const hostile = `<img src=x onerror="window.pwned=1">\u202egnp`;
const quotas = readQuotas({
  data: {
    "quotas.yaml": `
classes:
  paid: { activeClaims: 2, vcpus: 5, memoryMb: 4096, startsPerMinute: 6, bytesPerSecond: 5000000, snapshotMb: 0 }
default: paid
`,
  },
});

test.before(async () => {
  assert.not.type(quotas, "string", String(quotas));
  const current = typeof quotas === "string" ? undefined : quotas;
  const from = new Date(Date.now() - 3 * DAY_MS).toISOString().replace(/T.*/, "T10:00:00Z");
  stage = await startUsageStage(
    [
      { tenantId: "alice", from, seconds: 5400 },
      { tenantId: "bob", from, seconds: 36_000 },
    ],
    { quotas: { current: () => current, problem: () => undefined } },
  );
  const { cluster } = stage.edge;
  for (const name of ["hello", "notes"]) cluster.addWorkload(name, { resources: { vcpus: 2, memoryMb: 512 } });
  const endpoint = { host: "10.0.0.1", port: 8080 };
  cluster.addClaim({
    ...{ tenantId: "alice", workloadRef: "hello" },
    status: { phase: "Active", instanceId: "inst-alice", endpoint, source: "pool" },
  });
  cluster.addClaim({
    ...{ tenantId: "alice", workloadRef: "notes" },
    status: { phase: "Active", instanceId: "inst-notes", endpoint, reason: hostile, message: hostile },
  });
  cluster.addClaim({ tenantId: "bob", workloadRef: "hello", status: { phase: "Error", reason: "Secret" } });
  await save(stage.served.store, "saved", { tenantId: "alice", workloadRef: "notes" });
});
test.after(() => stage?.stop());

for (const colorScheme of ["light", "dark"] as const) {
  for (const width of [1280, 390]) {
    test(`a tenant's page has its claims, limits, usage and files, and no other's, ${colorScheme} at ${width} px`, async () => {
      const { page, assertAccessible, close } = await openPage(stage.browser, {
        ...{ colorScheme, viewport: { width, height: 844 } },
      });
      await page.goto(`${stage.url}/dashboard/tenants/alice`);
      await page
        .getByRole("table", { name: "Saved files" })
        .getByRole("link", { name: "notes", exact: true })
        .waitFor();
      const limits = page.getByRole("table", { name: /^Limits/ });
      // A section that is not read yet does not hold back the others.
      await limits.waitFor();
      const rows = await limits.getByRole("row").allInnerTexts();
      assert.equal(
        rows.map((words) => words.replace(/\s+/g, " ").trim()),
        [
          "Claims with an instance 2 of 2 ▲ used up",
          "vCPUs 4 of 5 ◐ nearly used up",
          "Memory 1,024 MiB of 4,096 MiB",
          "Saved files 1 MiB of 0 MiB ▲ nothing allowed",
          "Starts a minute at most 6",
          "Bytes a second at most 5.0 MB",
        ],
      );
      await page.getByRole("table", { name: "Claims" }).getByRole("link", { name: "inst-alice" }).waitFor();
      await page.getByRole("img", { name: /^vCPU-hours by day, .*: at most 3, on / }).waitFor();
      await page.getByText("Each day").click();
      const days = await page.getByRole("table", { name: "Usage of each day" }).locator("tbody tr").count();
      assert.ok(days >= 29 && days <= 62, String(days));
      assert.not.match(await page.getByRole("main").innerText(), /bob|Secret/);
      assert.is(await page.evaluate("document.documentElement.scrollWidth"), width);
      assert.is(await page.evaluate("window.pwned"), undefined);
      await assertAccessible();
      await page.getByText("Each day").click();
      await page.evaluate("scrollTo(0, 0)");
      await picture(page, `tenant-${colorScheme}-${width}`);
      await close();
    });
  }
}

test("every list of tenants' things leads to the tenant, and its row to the thing", async () => {
  const { page, expect, assertAccessible, close } = await openPage(stage.browser);
  // No container prints anything here.
  expect(/status of 503/);
  for (const path of ["claims", "instances", "snapshots", "usage"]) {
    await page.goto(`${stage.url}/dashboard/${path}`);
    await page.getByRole("main").getByRole("link", { name: "alice", exact: true }).first().click();
    await page.waitForURL(`${stage.url}/dashboard/tenants/alice`);
    await page.getByRole("heading", { level: 1, name: "alice tenant" }).waitFor();
  }
  for (const path of ["claims/alice/hello", "snapshots/alice/notes", "instances/inst-alice"]) {
    await page.goto(`${stage.url}/dashboard/${path}`);
    await page.getByRole("main").getByRole("link", { name: "alice", exact: true }).last().click();
    await page.waitForURL(`${stage.url}/dashboard/tenants/alice`);
  }
  await page.goto(`${stage.url}/dashboard/claims`);
  await page
    .getByRole("row", { name: /alice.*hello/ })
    .getByRole("link", { name: "hello" })
    .click();
  await page.waitForURL(`${stage.url}/dashboard/claims/alice/hello`);
  await assertAccessible();
  await close();
});

test("a tenant of which nothing is known is said to be none, whatever its id is", async () => {
  const { page, expect, assertAccessible, close } = await openPage(stage.browser);
  await page.goto(`${stage.url}/dashboard/tenants/nemo`);
  await page.getByText("Nothing is known of a tenant with this id").waitFor();
  await assertAccessible();
  expect(/status of 400/);
  await page.goto(`${stage.url}/dashboard/tenants/${encodeURIComponent(hostile)}`);
  await page.getByRole("alert").getByText("query.tenant").waitFor();
  assert.is(await page.getByRole("alert").count(), 1);
  assert.is(await page.evaluate("window.pwned"), undefined);
  assert.match(await page.getByRole("heading", { level: 1 }).innerText(), "<img src=x");
  await assertAccessible();
  await close();
});

test("without a store the page says so, and shows the rest", async () => {
  const empty = await startFakeStage({ clock: systemClock });
  empty.edge.cluster.addClaim({ tenantId: "alice", workloadRef: "hello", status: { phase: "Pending" } });
  const { page, expect, assertAccessible, close } = await openPage(empty.browser);
  expect(/status of 404/);
  await page.goto(`${empty.url}/dashboard/tenants/alice`);
  await page.getByText("no usage is recorded").waitFor();
  await page.getByText("No limits hold for this tenant.").waitFor();
  await page.getByText("It has no saved files.").waitFor();
  await page.getByRole("table", { name: "Claims" }).getByRole("link", { name: "hello" }).waitFor();
  await assertAccessible();
  await close();
  await empty.stop();
});

test.run();
