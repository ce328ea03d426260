import { readFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { eventually } from "../eventually.ts";
import { COUNT_SHIFTS, openPage } from "./browser.ts";
import { filledStage, openVisit, TENANTS, takeComplaints, type Visit } from "./fill-stage.ts";
import { picture } from "./picture.ts";
import { type Stage, sharedStage } from "./stage.ts";

const test = suite("browser/pages");
const root = join(import.meta.dirname, "../..");
/** Google's limit for a good page is 0.1. */
const MOST_SHIFTS = 0.05;
const PHONE = { width: 360, height: 740 };
const DESKTOP = { width: 1280, height: 800 };
let stage: Stage;
let visits: Visit[] = [];

test.before(async () => {
  stage = await sharedStage("browser-pages");
});

/** A page's name in pictures, such as `claim`, `claims` for the list, or `instance-files`. */
function nameOf({ path }: Visit): string {
  const [, , first = "overview", ...rest] = path.split("/");
  if (first === "create") return `create-${rest[0]?.replace(":kind", "workload")}`;
  const [, part] = rest[0] === ":name" ? rest : [];
  if (part !== undefined) return `${first.replace(/s$/, "")}-${part}`;
  return rest.length === 0 ? first : first.replace(/s$/, "");
}

const lists = [
  {
    name: "Claims",
    path: "/dashboard/claims",
    says: "No claims yet.",
    line: /^curl .*\/tenants\/alice\/claim/,
  },
  { name: "Instances", path: "/dashboard/instances", says: "No instances.", line: /^curl / },
  { name: "Workloads", path: "/dashboard/workloads", says: "No workloads.", line: /^kubectl apply -f / },
  { name: "Pools", path: "/dashboard/pools", says: "No pools,", line: /^curl .*\/pools --json/ },
  { name: "Triggers", path: "/dashboard/triggers", says: "No triggers.", line: /^curl .*\/triggers --json/ },
  { name: "Snapshots", path: "/dashboard/snapshots", says: "No snapshots yet.", line: undefined },
];

test("a list of nothing says what to do, and so does the overview", async () => {
  const opened = await openPage(stage.browser);
  const { page, assertAccessible, close } = opened;
  for (const { name, path, says, line } of lists) {
    await page.goto(`${stage.edge.url}${path}`);
    await page.getByText(says).waitFor();
    assert.is(await page.getByRole("grid", { name }).getAttribute("aria-rowcount"), "1");
    if (line !== undefined) assert.match(await page.locator(".command pre").innerText(), line);
    await assertAccessible();
  }
  await page.goto(stage.edge.url);
  await page.getByRole("heading", { level: 1, name: "No problems" }).waitFor();
  await page.getByRole("link", { name: "Create a workload" }).waitFor();
  await assertAccessible();
  await close();
});

test("there is a visit to each page that the dashboard has", async () => {
  visits = await filledStage(stage);
  const text = readFileSync(join(root, "edge/dashboard/pages.ts"), "utf8");
  const paths = [...text.matchAll(/^ {4}path: "([^"]+)"/gm)].map(([, path]) => path);
  assert.equal(visits.map(({ path }) => path).sort(), paths.sort());
});

for (const colorScheme of ["light", "dark"] as const) {
  test(`each page by its address: a heading, landmarks, a title, nothing for axe or the console, ${colorScheme === "dark" ? "dark, and nothing shifts on a phone" : colorScheme}`, async () => {
    const opened = await openPage(stage.browser, { colorScheme });
    const { page, assertAccessible, close } = opened;
    if (colorScheme === "dark") {
      await page.setViewportSize(PHONE);
      await page.addInitScript(COUNT_SHIFTS);
    }
    for (const one of visits) {
      await openVisit(opened, { edge: stage.edge, visit: one });
      const { at } = one;
      if (colorScheme === "dark") {
        // Its colours are all that is another, and on a phone what comes late pushes most.
        await assertAccessible(["color-contrast"]);
        assert.equal(takeComplaints(opened, one), [], at);
        const shifts = Number(await page.evaluate("window.shifts"));
        assert.ok(shifts <= MOST_SHIFTS, `${at} shifts by ${shifts}`);
        if (one.path === "/") {
          await page.setViewportSize(DESKTOP);
          await picture(page, "overview-dark");
          await page.setViewportSize(PHONE);
        }
        continue;
      }
      for (const role of ["main", "banner", "navigation"] as const)
        assert.is(await page.getByRole(role).count(), 1, at);
      assert.is(await page.getByRole("heading", { level: 1 }).count(), 1, at);
      assert.match(await page.title(), /tenancy$/, at);
      if (one.path !== "/") assert.not.match(await page.title(), /^tenancy$/, at);
      await assertAccessible();
      assert.equal(takeComplaints(opened, one), [], at);
      await picture(page, nameOf(one));
    }
    await close();
  });
}

test("a page that is not there says so", async () => {
  const { page, assertAccessible, close } = await openPage(stage.browser);
  await page.goto(`${stage.edge.url}/dashboard/nothing`);
  await page.getByRole("heading", { level: 1, name: "Page not found" }).waitFor();
  await page.getByText("Page /dashboard/nothing does not exist").waitFor();
  await assertAccessible();
  await close();
});

test("a link goes to a page without loading the dashboard anew, its heading has the focus, and Back returns", async () => {
  const { page, close } = await openPage(stage.browser);
  await page.goto(`${stage.edge.url}/dashboard/claims?q=alice`);
  await page.getByRole("row", { name: /alice/ }).waitFor();
  await page.evaluate("window.isSame = true");
  for (const { name, path } of lists.slice(1)) {
    await page.getByRole("navigation").getByRole("link", { name, exact: true }).click();
    const heading = page.getByRole("heading", { level: 1, name });
    await heading.waitFor();
    assert.is(new URL(page.url()).pathname, path);
    await eventually(
      async () => (await page.evaluate("document.activeElement.outerHTML")) === `<h1 tabindex="-1">${name}</h1>`,
    );
  }
  for (const _ of lists.slice(1)) await page.goBack();
  await page.getByRole("row", { name: /alice/ }).waitFor();
  assert.match(page.url(), /\/dashboard\/claims\?q=alice$/);
  assert.is(await page.getByRole("searchbox").inputValue(), "alice");
  assert.is(await page.evaluate("window.isSame"), true);
  await close();
});

const sorted: readonly {
  path: string;
  list: string;
  text: string;
  column: string;
  first: RegExp;
  choice?: [string, string];
}[] = [
  {
    path: "claims",
    list: "Claims",
    text: "user-10",
    column: "Tenant",
    first: /user-1099/,
    choice: ["State", "Active"],
  },
  {
    path: "instances",
    list: "Instances",
    text: "alice",
    column: "Created",
    first: /alice/,
    choice: ["Use", "claimed"],
  },
  { path: "workloads", list: "Workloads", text: "o", column: "Name", first: /notes/ },
  { path: "pools", list: "Pools", text: "hello", column: "Ready", first: /hello/, choice: ["Workload", "hello"] },
  { path: "triggers", list: "Triggers", text: "hooks", column: "Name", first: /github/, choice: ["Type", "webhook"] },
];

test("filter, choice and order are in the address of each list, and a reload keeps them", async () => {
  const { page, close } = await openPage(stage.browser);
  for (const { path, list, text, column, first, choice } of sorted) {
    await page.goto(`${stage.edge.url}/dashboard/${path}?other=1`);
    const grid = page.getByRole("grid", { name: list });
    const head = grid.getByRole("columnheader", { name: column });
    await page.getByRole("searchbox", { name: `Filter ${list.toLowerCase()}` }).fill(text);
    await head.getByRole("button").click();
    await head.getByRole("button").click();
    if (choice !== undefined) await page.getByLabel(choice[0], { exact: true }).selectOption(choice[1]);
    await eventually(() => new URL(page.url()).searchParams.get("q") === text);
    const { searchParams } = new URL(page.url());
    assert.match(searchParams.get("sort") ?? "", /^-/);
    assert.is(searchParams.get("other"), "1");
    for (const isReloaded of [false, true]) {
      if (isReloaded) await page.reload();
      await grid.getByRole("row", { name: first }).first().waitFor();
      assert.is(await head.getAttribute("aria-sort"), "descending");
      assert.is(await page.getByRole("searchbox").inputValue(), text);
      if (choice !== undefined) assert.is(await page.getByLabel(choice[0], { exact: true }).inputValue(), choice[1]);
      assert.match(await grid.getByRole("row").nth(1).innerText(), first);
    }
  }
  await close();
});

test("the count says how many of all are shown, a wrong value is ignored, and a filter that fits nothing says so", async () => {
  const { page, close } = await openPage(stage.browser);
  const all = TENANTS.length + 1;
  const open = (query: string) => page.goto(`${stage.edge.url}/dashboard/claims?${query}`);
  await open("phase=Nonsense&sort=nothing");
  await page.getByRole("search").getByText(String(all), { exact: true }).waitFor();
  await open("tenant=alice,bob");
  await page.getByRole("search").getByText(`2 of ${all}`).waitFor();
  await page.getByRole("button", { name: /Tenant: alice or bob/ }).click();
  await page.getByRole("search").getByText(String(all), { exact: true }).waitFor();
  await open("q=nobody-of-that-name");
  await page.getByText(`None of the ${all} matches the filter.`).waitFor();
  await page.getByRole("button", { name: "Show all" }).click();
  await page.getByRole("row", { name: /alice/ }).waitFor();
  assert.is(new URL(page.url()).search, "");
  await close();
});

test("Back shows the rows that were seen, with the active one, also after a reload", async () => {
  const { page, close } = await openPage(stage.browser);
  await page.goto(`${stage.edge.url}/dashboard/claims?sort=-tenant`);
  const grid = page.getByRole("grid", { name: "Claims" });
  await grid.getByRole("row", { name: /user-/ }).first().waitFor();
  await grid.focus();
  await page.keyboard.press("End");
  const active = page.locator(".row.active");
  await eventually(async () => /alice/.test(await active.innerText()));
  const place = () => page.evaluate("document.querySelector('[role=grid]')?.scrollTop");
  const before = await place();
  assert.ok(Number(before) > 0);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: /alice/ }).waitFor();
  await page.goBack();
  await eventually(async () => (await place()) === before);
  assert.match(await active.innerText(), /alice/);
  await page.reload();
  await eventually(async () => (await place()) === before);
  await close();
});

test("on a phone a row has two lines, the tables can be ordered, and every page is in reach", async () => {
  const { page, close } = await openPage(stage.browser, { viewport: { width: 360, height: 740 }, hasTouch: true });
  await page.goto(`${stage.edge.url}/dashboard/claims`);
  const row = page.getByRole("row", { name: /alice/ });
  await row.waitFor();
  assert.is((await row.boundingBox())?.height, 64);
  await page.getByLabel("Order").selectOption({ label: "Tenant ↓" });
  await page.getByRole("row", { name: /user-/ }).first().waitFor();
  assert.match(page.url(), /sort=-tenant/);
  await picture(page, "phone");
  await page.getByText("More").tap();
  await page.getByRole("link", { name: "Snapshots" }).last().tap();
  await page.getByRole("heading", { level: 1, name: "Snapshots" }).waitFor();
  await close();
});

test("the snapshots say when and why they were read, and are read again when a claim has ended", async () => {
  const { page, close } = await openPage(stage.browser);
  await page.goto(`${stage.edge.url}/dashboard/snapshots`);
  await page.getByText("because the page was opened").waitFor();
  await page.getByRole("button", { name: "Reload" }).click();
  await page.getByText("because you asked for it").waitFor();
  await stage.tenancy.release("claim-carol-hello");
  await page.getByText("because carol's claim on hello ended").waitFor();
  await close();
});

test.run();
