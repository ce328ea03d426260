import { suite } from "uvu";
import * as assert from "uvu/assert";
import { openPage } from "./browser.ts";
import { type Stage, sharedStage } from "./stage.ts";

const test = suite("browser/claims");
let stage: Stage;

test.before(async () => {
  stage = await sharedStage("browser-claims");
  await stage.tenancy.createWorkload("hello");
});

test("a claim that is made appears in the table, and goes from it, without a list being read again", async () => {
  const { tenancy, edge, browser } = stage;
  const { page, close } = await openPage(browser);
  const lists: string[] = [];
  page.on("request", (request) => lists.push(new URL(request.url()).pathname));
  await page.goto(`${edge.url}/dashboard/claims`);
  const grid = page.getByRole("grid", { name: "Claims" });
  await page.getByText("live").waitFor();
  assert.is(await grid.getAttribute("aria-rowcount"), "1");
  const made = await tenancy.createClaim("alice", "hello");
  await grid.getByRole("row", { name: /alice hello Active/ }).waitFor();
  await tenancy.release(made.metadata.name);
  await grid.getByRole("row", { name: /alice/ }).waitFor({ state: "detached" });
  assert.is(lists.filter((path) => path === "/api/v1/claims").length, 1);
  await close();
});

test("j and k move the active row, which stays when rows above it come and go", async () => {
  const { tenancy, edge, browser } = stage;
  for (const tenant of ["mike", "nora"]) await tenancy.createClaim(tenant, "hello");
  const { page, close } = await openPage(browser);
  await page.goto(`${edge.url}/dashboard/claims?q=ora`);
  await page.getByRole("row", { name: /nora/ }).waitFor();
  await page.keyboard.press("j");
  const active = page.locator(".row.active");
  assert.match(await active.innerText(), "nora");
  await tenancy.createClaim("aurora", "hello");
  await page.getByRole("row", { name: /aurora/ }).waitFor();
  assert.match(await active.innerText(), "nora");
  await page.keyboard.press("k");
  assert.match(await active.innerText(), "aurora");
  await close();
});

test.run();
