import { suite } from "uvu";
import * as assert from "uvu/assert";
import { configMaps } from "../../crds/client/built-in-resources.ts";
import { pools, workloads } from "../../crds/kinds.ts";
import { NAMESPACE } from "../cluster/tenancy.ts";
import { eventually } from "../eventually.ts";
import { openPage } from "./browser.ts";
import { type Stage, sharedStage } from "./stage.ts";

const test = suite("browser/overview");
let stage: Stage;

test.before(async () => {
  stage = await sharedStage("browser-claims");
  const { tenancy } = stage;
  await tenancy.createPool("hello-pool", { workloadRef: "hello", size: 2 });
  await tenancy.untilPool("hello-pool", ({ status }) => status?.ready === 2);
});
test.after(async () => {
  const { client, until, members } = stage.tenancy;
  await client.delete(pools, { namespace: NAMESPACE, name: "hello-pool" });
  await until("no warm pod", () => members("hello-pool").length === 0);
});

test("nothing is wrong until something is; its number, its words and its claims are one click away", async () => {
  const { tenancy, edge, browser } = stage;
  const { page, assertAccessible, close } = await openPage(browser);
  await page.goto(edge.url);
  await page.getByRole("heading", { name: /^No problems/ }).waitFor();
  await eventually(async () => (await page.title()) === "tenancy");
  for (const tenant of ["alice", "bob"]) await tenancy.createClaim(tenant, "missing");
  await page.getByRole("heading", { name: /^One problem/ }).waitFor();
  await eventually(async () => (await page.title()) === "(1) tenancy");
  const trouble = page.getByRole("listitem").filter({ hasText: "WorkloadNotFound" });
  await trouble.getByText("2 claims").waitFor();
  await trouble.getByText('workload "missing" does not exist', { exact: false }).waitFor();
  await trouble.getByText("Create the workload. The claim then starts by itself.").waitFor();
  await trouble.getByRole("link", { name: "alice" }).waitFor();
  await trouble.getByRole("link", { name: "WorkloadNotFound" }).click();
  await page.getByRole("row", { name: /alice missing Failed/ }).waitFor();
  assert.is(await page.getByRole("grid").getAttribute("aria-rowcount"), "3");
  assert.match(page.url(), /phase=Error&workload=missing&reason=WorkloadNotFound$/);
  await page.keyboard.press("Escape");
  await trouble.getByRole("link", { name: "Create workload" }).waitFor();
  assert.is(await trouble.getByRole("button", { name: "Retry" }).count(), 0, "of two claims");
  await tenancy.release("claim-bob-missing");
  await trouble.getByText("1 claim", { exact: true }).waitFor();
  await tenancy.createWorkload("missing");
  await page.getByRole("heading", { name: /^No problems/ }).waitFor();
  await assertAccessible();
  await tenancy.release("claim-alice-missing");
  await tenancy.client.delete(workloads, { namespace: NAMESPACE, name: "missing" });
  await close();
});

test("a claim that no change starts by itself is claimed again from the list of problems", async () => {
  const { tenancy, edge, browser } = stage;
  const name = { namespace: NAMESPACE, name: "tenancy-quotas" };
  const quotas = (limits: object) => ({ "quotas.yaml": JSON.stringify({ tenants: { "trial-*": limits } }) });
  await tenancy.createWorkload("limited");
  await tenancy.client.create(configMaps, { metadata: name, data: quotas({ activeClaims: 0 }) });
  await untilLimit(0);
  await tenancy.createClaim("trial-1", "limited");
  const { page, close } = await openPage(browser);
  await page.goto(edge.url);
  const trouble = page.getByRole("listitem").filter({ hasText: "TenantQuotaExceeded" });
  const retry = trouble.getByRole("button", { name: "Retry" });
  await retry.waitFor();
  await tenancy.client.patch(configMaps, name, { type: "merge", body: { data: quotas({ activeClaims: 1 }) } });
  // The edge and the operator each read the limits for themselves.
  await untilLimit(1);
  await tenancy.createClaim("trial-2", "limited");
  await tenancy.untilClaim("claim-trial-2-limited", { phase: "Active" });
  await retry.click();
  await tenancy.untilClaim("claim-trial-1-limited", { phase: "Active" });
  await page.getByRole("heading", { name: /^No problems/ }).waitFor();
  await Promise.all([1, 2].map((at) => tenancy.release(`claim-trial-${at}-limited`)));
  await tenancy.client.delete(configMaps, name);
  await tenancy.client.delete(workloads, { namespace: NAMESPACE, name: "limited" });
  await close();

  async function untilLimit(most: number): Promise<void> {
    await eventually(async () => {
      const answer = await fetch(`${edge.url}/api/v1/tenants/trial-1/limits`);
      return JSON.stringify(await answer.json()).includes(`"activeClaims":{"limit":${most},`);
    });
  }
});

test("a claim shows in the figures of the hour, and its pool with what it has", async () => {
  const { edge, browser } = stage;
  const answer = await fetch(`${edge.url}/api/v1/tenants/carol/claim`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ workload: "hello" }),
  });
  assert.is(answer.status, 201);
  const { page, close } = await openPage(browser);
  await page.goto(edge.url);
  const sources = page.getByRole("table", { name: "Latency by source" });
  await sources.getByRole("row", { name: /^pool 1 about \d+ ms/ }).waitFor();
  // A claim of the suite before, which started cold, may have become Active with the pool there: a miss.
  await page.getByRole("row", { name: /hello-pool Ready 2 2 of 2 1 \d/ }).waitFor();
  await close();
});

test.run();
