import { suite } from "uvu";
import * as assert from "uvu/assert";
import { secrets } from "../../crds/client/built-in-resources.ts";
import { NAMESPACE } from "../cluster/tenancy.ts";
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

test("a claim that is made with an expiry shows it, and is extended on its page", async () => {
  const { tenancy, edge, browser } = stage;
  const { page, assertAccessible, close } = await openPage(browser);
  await page.goto(`${edge.url}/dashboard/create/claim?tenant=otto&workload=hello`);
  const minutes = page.getByLabel("Expires after (minutes)");
  const claim = page.getByRole("button", { name: "Claim", exact: true });
  await minutes.fill("0");
  assert.is(await claim.getAttribute("aria-disabled"), "true");
  await minutes.fill("30");
  await assertAccessible();
  await claim.click();
  const facts = page.getByRole("main").locator("dl");
  await facts.getByText(/^in (29|30) min$/).waitFor();
  await page.getByLabel("Minutes from now").fill("90");
  await assertAccessible();
  await page.getByRole("button", { name: "Extend" }).click();
  await page
    .getByRole("status")
    .getByText(/The claim of otto on hello expires at/)
    .waitFor();
  await facts.getByText(/^in (29|30) min$/).waitFor({ state: "detached" });
  const { metadata, spec } = await tenancy.untilClaim("claim-otto-hello", { phase: "Active" });
  assert.ok(Date.parse(spec.expiresAt ?? "") > Date.parse(metadata.creationTimestamp ?? "") + 80 * 60_000);
  await close();
});

test("a claim that is made brings labels, and inputs where the program starts with it", async () => {
  const { tenancy, edge, browser } = stage;
  await tenancy.createWorkload("starts", { entrypoint: { cmd: "/program", start: "OnClaim" } });
  const { page, assertAccessible, expect, close } = await openPage(browser);
  // Nothing runs in this cluster that could start the program.
  expect(/status of (400|504)/);
  await page.goto(`${edge.url}/dashboard/create/claim?tenant=rita&workload=hello`);
  await page.getByText("For a new claim").click();
  await page.getByLabel("labels").fill("team=red");
  assert.is(await page.getByLabel("secrets").count(), 0);
  await page.getByLabel("Workload").selectOption("starts");
  await page.getByLabel("env").fill("LANG=de\nMODE=a=b");
  await page.getByLabel("secrets").fill("TOKEN=planted");
  await page.getByLabel("files", { exact: true }).fill('[{"path":"own","content":"x"}]');
  await page.getByLabel("Workload").selectOption("hello");
  assert.is(await page.getByLabel("secrets").inputValue(), "TOKEN=planted", "what is sent can be seen");
  await page.getByLabel("Workload").selectOption("starts");
  const claim = page.getByRole("button", { name: "Claim", exact: true });
  await page.getByLabel("secrets").fill("TOKEN=of two\nlines");
  await page.getByText("each line must be NAME=value").waitFor();
  assert.is(await claim.getAttribute("aria-disabled"), "true");
  await page.getByLabel("secrets").fill("TOKEN=planted");
  await assertAccessible();
  await claim.click();
  await page.getByText(/body\.files\[0\]\.path/).waitFor();
  await page.getByLabel("files", { exact: true }).fill('[{"path":"/data/own","content":"x"}]');
  await claim.click();
  const { spec } = await tenancy.untilClaim("claim-rita-starts", (made) => made !== undefined);
  const { secretRef, ...inputs } = spec.inputs ?? {};
  assert.equal(spec.labels, { team: "red" });
  assert.equal(inputs, {
    env: { LANG: "de", MODE: "a=b" },
    files: [{ path: "/data/own", content: "x", mode: "0600" }],
  });
  await tenancy.until("its Secret", async () => {
    const { items } = await tenancy.client.list(secrets, { namespace: NAMESPACE });
    const made = items.find(({ metadata }) => metadata.name === secretRef?.name);
    return made !== undefined && Buffer.from(made.data?.TOKEN ?? "", "base64").toString() === "planted";
  });
  await close();
  await tenancy.release("claim-rita-starts");
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
