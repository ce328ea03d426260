// What a person sees whose key has a role: pages that work, and none that answer 403.
import type { Page } from "playwright-core";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { namespaces } from "../../crds/client/built-in-resources.ts";
import type { ApiTypes } from "../../edge/api/openapi/schemas.ts";
import type { EdgeProcess } from "../unit/edge/edge-process.ts";
import { openPage } from "./browser.ts";
import { picture } from "./picture.ts";
import { KEY, type Stage, startStage } from "./stage.ts";

const test = suite("browser/tenant-login");
const KEYS = "tenancy-keys";
let stage: Stage;
let edge: EdgeProcess;

test.before(async () => {
  stage = await startStage("browser-tenant");
  const { tenancy } = stage;
  await tenancy.client.create(namespaces, { metadata: { name: KEYS } });
  edge = await stage.startEdge({
    ...{ TENANCY_API_KEY: KEY, TENANCY_WS_REQUIRE_KEY: "true", TENANCY_KEYS_NAMESPACE: KEYS },
  });
  await tenancy.createWorkload("hello");
  await tenancy.createPool("hello-pool", { workloadRef: "hello", size: 1 });
  for (const tenant of ["alice", "bob", "team-7"]) await tenancy.createClaim(tenant, "hello");
  for (const tenant of ["alice", "bob", "team-7"])
    await tenancy.untilClaim(`claim-${tenant}-hello`, { phase: "Active" });
});
test.after(() => stage?.stop());

interface KeyBody {
  readonly role: string;
  readonly tenants?: string[];
  readonly workloads?: string[];
}

async function keyWith(body: KeyBody): Promise<string> {
  const answer = await fetch(`${edge.url}/api/v1/keys`, {
    method: "POST",
    headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json" },
    body: JSON.stringify({ name: "a person", ...body }),
  });
  assert.is(answer.status, 201);
  return ((await answer.json()) as ApiTypes["CreatedKey"]).key;
}

test("an admin creates a key of some workloads, which is shown once, and deletes it", async () => {
  const { page, expect, assertAccessible, close } = await openPage(stage.browser, {
    viewport: { width: 1280, height: 844 },
  });
  // Nothing records usage.
  expect(/status of (400|401|404)/);
  await page.goto(`${edge.url}/dashboard/keys`);
  await page.getByLabel("API key").fill(KEY);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByText("There are no keys.").waitFor();
  await page.getByLabel("Name").fill("alice laptop");
  await page.getByLabel("Role").selectOption("tenant");
  await page.getByLabel("Workloads").fill("hello\nnote-*");
  await page.getByLabel("Requests a second").fill("many");
  const create = page.getByRole("main").getByRole("button", { name: "Create key" });
  await create.click();
  await page.getByText(/^body\.requestsPerSecond: /).waitFor();
  await page.getByLabel("Requests a second").fill("20");
  await create.click();
  await page.getByText("body.tenants: required for the role tenant").waitFor();
  await page.getByLabel("Tenants").fill("alice");
  await page.getByLabel("Expires after (days)").fill("30");
  await create.click();
  await page.getByText("Copy the key of alice laptop now. It is not shown again.").waitFor();
  const text = await page.getByText(/^tk_/).innerText();
  const row = page.getByRole("table", { name: "Keys" }).getByRole("row", { name: /alice laptop/ });
  await row.waitFor();
  const cells = await row.locator("th, td").allInnerTexts();
  assert.equal(cells.slice(0, 5), ["alice laptop", "tenant", "alice", "hello, note-*", "20"]);
  assert.is(await page.getByLabel("Workloads").inputValue(), "");
  await assertAccessible();
  await picture(page, "keys");
  const ask = async (path: string) =>
    (await fetch(`${edge.url}/api/v1/tenants/alice/claims/${path}`, { headers: { authorization: `Bearer ${text}` } }))
      .status;
  await stage.tenancy.until("every replica knows the key", async () => (await ask("hello")) === 200);
  assert.is(await ask("other"), 404);
  await row.getByRole("link", { name: "alice", exact: true }).click();
  await page.getByRole("heading", { level: 1, name: "alice tenant" }).waitFor();
  await page
    .getByRole("table", { name: "Keys" })
    .getByRole("row", { name: /alice laptop tenant alice hello, note-\*/ })
    .waitFor();
  await page.goto(`${edge.url}/dashboard/tenants/bob`);
  await page.getByText("No key reaches it but TENANCY_API_KEY.").waitFor();
  await page.getByRole("link", { name: "All keys" }).click();
  await row.waitFor();
  await page.setViewportSize({ width: 390, height: 844 });
  assert.is(await page.evaluate("document.documentElement.scrollWidth"), 390);
  await assertAccessible();
  await picture(page, "keys-phone");
  const refused = await fetch(`${edge.url}/api/v1/tenants/alice/claim`, {
    ...{ method: "POST", body: "{}" },
    headers: { authorization: `Bearer ${text}`, "content-type": "application/json" },
  });
  assert.is(refused.status, 400);
  const looked = await fetch(`${edge.url}/api/v1/keys`, { headers: { authorization: `Bearer ${KEY}` } });
  assert.is(looked.status, 200);
  await page.goto(`${edge.url}/dashboard/audit?act=look`);
  await page
    .getByRole("row", { name: /root GET / })
    .first()
    .waitFor();
  assert.is(await page.getByRole("row", { name: / POST / }).count(), 0);
  await page.getByLabel("Act", { exact: true }).selectOption("change");
  await page.getByRole("row", { name: /root POST \/keys .*201 done/ }).waitFor();
  await page.getByRole("row", { name: /alice laptop POST .*\/claim tenant alice.* 400 refused/ }).waitFor();
  assert.is(await page.evaluate("document.documentElement.scrollWidth"), 390);
  await assertAccessible();
  await picture(page, "audit-phone");
  await page.setViewportSize({ width: 1280, height: 844 });
  await picture(page, "audit");
  await page.getByLabel("Tenant").fill("nobody-of-this-name");
  await page.keyboard.press("Enter");
  await page.getByText("No such record.").waitFor();
  await page.goto(`${edge.url}/dashboard/keys`);
  await row.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("There are no keys.").waitFor();
  assert.is(await ask("hello"), 401);
  await close();
});

/** A page on which a person has logged in with a new key, and what the edge refused to it. */
async function logIn(body: KeyBody, options: { path?: string; width?: number } = {}) {
  const { path = "/", width = 1280 } = options;
  const opened = await openPage(stage.browser, { viewport: { width, height: 844 } });
  const { page, expect } = opened;
  const refused: string[] = [];
  page.on("response", (response) => {
    const status = response.status();
    if (status === 401 || status === 403) refused.push(`${status} ${response.url()}`);
  });
  // The simulated nodes run nothing: no log, no store. Never 403, of a socket neither.
  expect(/status of (404|5\d\d)|ERR_INCOMPLETE_CHUNKED_ENCODING/);
  const key = await keyWith(body);
  await page.goto(`${edge.url}${path}`);
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByLabel("API key").waitFor({ state: "detached" });
  return { ...opened, refused, key };
}

/** Opens each page of the navigation, and returns their names. */
async function visitAll(page: Page, each: () => Promise<void>): Promise<string[]> {
  const names = await page.getByRole("navigation", { name: "Pages" }).locator("> a").allInnerTexts();
  for (const name of names) {
    await page.getByRole("navigation", { name: "Pages" }).getByRole("link", { name, exact: true }).click();
    await page.getByRole("main").getByRole("heading", { level: 1 }).waitFor();
    await page
      .getByText(/^(Loading…|Reading…)$/)
      .first()
      .waitFor({ state: "detached" });
    await each();
  }
  return names;
}

test("a tenant's key leads to its page, which follows its claims, and no request is refused", async () => {
  const { tenancy } = stage;
  const { page, assertAccessible, refused, close } = await logIn({ role: "tenant", tenants: ["alice"] });
  await page.waitForURL(`${edge.url}/dashboard/tenants/alice`);
  const claims = page.getByRole("table", { name: "Claims" });
  await claims.getByRole("row", { name: /hello.*Active/ }).waitFor();
  await page.getByText("live").waitFor();
  await tenancy.createWorkload("notes");
  await tenancy.createClaim("bob", "notes");
  await tenancy.createClaim("alice", "notes");
  await claims.getByRole("row", { name: /notes.*Active/ }).waitFor();
  await tenancy.release("claim-alice-notes");
  await claims.getByRole("row", { name: /notes/ }).waitFor({ state: "detached" });
  const names = await visitAll(page, async () => {
    await assertAccessible();
    assert.not.match(await page.getByRole("main").innerText(), /bob|team-7/);
  });
  assert.equal(names, ["Overview", "Claims", "Instances", "Snapshots", "Usage"]);
  const { status } = await tenancy.untilClaim("claim-alice-hello", { phase: "Active" });
  for (const path of [
    "/dashboard/claims/alice/hello",
    `/dashboard/instances/${status?.instanceId}`,
    "/dashboard/snapshots/alice/hello",
    "/dashboard/create/claim",
    "/dashboard/workloads/hello",
    "/dashboard/create/pool",
    "/dashboard/tenants/bob",
    "/dashboard/claims/bob/hello",
  ]) {
    await page.goto(`${edge.url}${path}`);
    await page.getByRole("main").getByRole("heading", { level: 1 }).waitFor();
    await page.getByText("Loading…", { exact: true }).first().waitFor({ state: "detached" });
    await assertAccessible();
  }
  await page.goto(`${edge.url}/dashboard/tenants/alice`);
  await page.getByText("Your login may not read triggers.").waitFor();
  await page.getByText("Only the role admin may read keys.").waitFor();
  await page.goto(`${edge.url}/dashboard/tenants`);
  await page.getByText("Your login has the role tenant of alice, which cannot use this page.").waitFor();
  await page.goto(`${edge.url}/dashboard/pools`);
  await page.getByText("Your login has the role tenant of alice, which cannot use this page.").waitFor();
  await page.goto(`${edge.url}/dashboard/tenants/bob`);
  await page.getByText(/tenant "bob" does not exist for this key/).waitFor();
  assert.equal(refused, []);
  await close();
});

test("with a key of some workloads a tenant's page says what it may not read, and shows the rest", async () => {
  const { page, expect, assertAccessible, close } = await logIn({
    ...{ role: "tenant", tenants: ["alice"], workloads: ["hello"] },
  });
  expect(/status of 403/);
  await page.waitForURL(`${edge.url}/dashboard/tenants/alice`);
  await page
    .getByRole("table", { name: "Claims" })
    .getByRole("row", { name: /hello.*Active/ })
    .waitFor();
  await page
    .getByRole("region", { name: "Limits" })
    .getByText(/^this key reaches alice, and there the workloads hello only/)
    .waitFor();
  assert.is(await page.getByRole("alert").count(), 0);
  await assertAccessible();
  await close();
});

test("a tenant claims and releases with its own key, on a phone", async () => {
  const { tenancy } = stage;
  const { page, assertAccessible, refused, close } = await logIn(
    { role: "tenant", tenants: ["carol"] },
    { width: 390 },
  );
  await page.waitForURL(`${edge.url}/dashboard/tenants/carol`);
  await page.getByText("no usage is recorded").waitFor();
  await picture(page, "own-tenant-phone");
  await page.getByRole("link", { name: "Claim a workload" }).click();
  assert.is(await page.getByLabel("Tenant").inputValue(), "carol");
  await page.getByLabel("Workload").fill("hello");
  await assertAccessible();
  assert.is(await page.evaluate("document.documentElement.scrollWidth"), 390);
  await page.getByRole("button", { name: "Claim", exact: true }).click();
  await page.waitForURL(`${edge.url}/dashboard/claims/carol/hello`);
  await page.getByRole("button", { name: "Release" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Release" }).click();
  await page.getByText("carol has no claim on hello.").waitFor();
  await tenancy.untilGone("claim-carol-hello");
  assert.equal(refused, []);
  await close();
});

test("who reaches several tenants chooses one, also one of which only the start is known", async () => {
  const { page, assertAccessible, refused, close } = await logIn({
    role: "tenant",
    tenants: ["alice", "bob", "team-*"],
  });
  await page.getByRole("link", { name: "alice" }).waitFor();
  await assertAccessible();
  await picture(page, "choose-tenant");
  await page.getByRole("link", { name: "bob" }).click();
  await page.getByRole("table", { name: "Claims" }).getByRole("row", { name: /hello/ }).waitFor();
  await page.goBack();
  await page.getByLabel("Tenant").fill("team-7");
  await page.getByRole("button", { name: "Open" }).click();
  await page.getByRole("table", { name: "Claims" }).getByRole("row", { name: /hello/ }).waitFor();
  await page.getByRole("navigation").getByRole("link", { name: "Claims" }).click();
  for (const tenant of ["alice", "bob", "team-7"])
    await page.getByRole("row", { name: new RegExp(`${tenant} hello`) }).waitFor();
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: /^Page, tenant/ }).fill("hello");
  await page.getByRole("option", { name: /alice on hello/ }).waitFor();
  assert.is(await page.getByRole("option", { name: /Workloads/ }).count(), 0);
  assert.equal(refused, []);
  await close();
});

for (const [body, changes] of [
  [{ role: "reader" }, false],
  [{ role: "reader", tenants: ["alice"] }, false],
  [{ role: "platform" }, true],
] as const) {
  test(`the pages of ${JSON.stringify(body)} offer what its key may do`, async () => {
    const { role, tenants } = { tenants: undefined, ...body };
    const { page, refused, close } = await logIn({ role, ...(tenants && { tenants: [...tenants] }) });
    const offered = new Set<string>();
    const gather = async () => {
      for (const role of ["button", "link"] as const) {
        const all = page
          .getByRole("main")
          .getByRole(role, { name: /^(Claim|Create \w+|Edit|Delete|Release|Destroy|Scale)$/ });
        for (const name of await all.allInnerTexts()) offered.add(name);
      }
    };
    await page.getByRole("main").getByRole("heading", { level: 1 }).waitFor();
    await visitAll(page, gather);
    const { status } = await stage.tenancy.untilClaim("claim-alice-hello", { phase: "Active" });
    const paths = ["claims/alice/hello", `instances/${status?.instanceId}`, "snapshots/alice/hello"];
    if (tenants === undefined) paths.push("workloads/hello", "pools/hello-pool");
    for (const path of paths) {
      await page.goto(`${edge.url}/dashboard/${path}`);
      await page.getByRole("main").getByRole("heading", { level: 1 }).waitFor();
      await page.getByText("live", { exact: true }).or(page.getByText("● live")).first().waitFor();
      await page.getByText("Loading…", { exact: true }).first().waitFor({ state: "detached" });
      await gather();
    }
    const all = [
      "Claim",
      "Create pool",
      "Create trigger",
      "Create workload",
      "Delete",
      "Destroy",
      "Edit",
      "Release",
      "Scale",
    ];
    assert.equal([...offered].sort(), changes ? all : []);
    assert.equal(refused, []);
    await close();
  });
}

test.run();
