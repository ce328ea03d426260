// @own-cluster
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { pods } from "../../crds/client/built-in-resources.ts";
import { systemClock } from "../../crds/client/clock.ts";
import { workloads } from "../../crds/kinds.ts";
import { WORKLOAD_CONTAINER } from "../../crds/labels.ts";
import type { Workload } from "../../crds/workload.ts";
import { publishChanges } from "../../edge/api/events/publish-change.ts";
import { openPage } from "./browser.ts";
import { type FakeStage, startFakeStage } from "./fake-stage.ts";

const test = suite("browser/health");
let stage: FakeStage;

const endpoint = { host: "10.0.0.1", port: 8080 };

test.before(async () => {
  stage = await startFakeStage({ clock: systemClock });
  const { cluster } = stage.edge;
  for (const name of ["broken", "good"])
    cluster.add(workloads, { ...cluster.addWorkload(name), status: { phase: "Ready" } });
  const active = { phase: "Active", endpoint } as const;
  const looping = { ...active, instanceId: "inst-bob", reason: "CrashLooping", message: "it keeps exiting" };
  cluster.addClaim({ tenantId: "bob", workloadRef: "broken", status: looping });
  const pod = cluster.read(pods, "inst-bob");
  const waiting = { reason: "CrashLoopBackOff" };
  const container = { name: WORKLOAD_CONTAINER, image: "i", ready: false, restartCount: 5, state: { waiting } };
  cluster.add(pods, { ...pod, status: { phase: "Running", containerStatuses: [container] } });
  cluster.addClaim({ tenantId: "alice", workloadRef: "good", status: { ...active, instanceId: "inst-alice" } });
  cluster.addClaim({ tenantId: "carol", workloadRef: "typo", status: { phase: "Error", reason: "ImagePullFailed" } });
});
test.after(() => stage?.stop());

const lists = [
  { path: "claims", row: /bob broken/, other: /alice good/, healthy: "Active" },
  { path: "workloads", row: /broken/, other: /good/, healthy: "Ready" },
  { path: "instances", row: /inst-bob/ },
];

test("a program that crashes is red in each list and on each page, whatever the phase", async () => {
  const { page, expect, assertAccessible, close } = await openPage(stage.browser);
  // There is no container whose log could be read.
  expect(/status of 503/);
  for (const { path, row, other, healthy } of lists) {
    await page.goto(`${stage.url}/dashboard/${path}`);
    const looping = page.getByRole("row", { name: row }).locator(".state.is-bad");
    await looping.getByText("Crash looping").waitFor();
    if (other !== undefined && healthy !== undefined)
      await page.getByRole("row", { name: other }).locator(".state.is-ok").getByText(healthy).waitFor();
    await assertAccessible();
  }
  for (const path of ["claims/bob/broken", "workloads/broken", "instances/inst-bob"]) {
    await page.goto(`${stage.url}/dashboard/${path}`);
    await page.locator("dd .state.is-bad").getByText("Crash looping").waitFor();
  }
  await page.goto(`${stage.url}/dashboard/workloads/broken`);
  await page.getByRole("link", { name: "the claim of bob" }).click();
  await page.getByRole("row", { name: /bob broken/ }).waitFor();
  await close();
});

test("lists have the worst first, are counted and filtered by state, and a link by phase works as before", async () => {
  const { page, assertAccessible, close } = await openPage(stage.browser);
  const rows = page.getByRole("row");
  await page.goto(`${stage.url}/dashboard/claims`);
  await page.getByRole("row", { name: /alice/ }).waitFor();
  assert.match(await page.getByRole("list", { name: "Counts by health" }).innerText(), /2 failing.*1 running/s);
  assert.match((await rows.allInnerTexts()).join(" "), /bob.*carol.*alice/s);
  await page.getByRole("button", { name: "1 running" }).click();
  await page.locator("[role=grid][aria-rowcount='2']").getByRole("row", { name: /alice/ }).waitFor();
  await assertAccessible();
  await page.getByRole("button", { name: "2 failing", pressed: false }).click();
  await page.locator("[role=grid][aria-rowcount='3']").getByRole("row", { name: /carol/ }).waitFor();
  await page.getByRole("button", { name: "2 failing", pressed: true }).click();
  await page.getByRole("row", { name: /alice/ }).waitFor();
  await page.getByLabel("State", { exact: true }).selectOption("Crash looping");
  await page.locator("[role=grid][aria-rowcount='2']").getByRole("row", { name: /bob/ }).waitFor();
  await page.goto(`${stage.url}/dashboard/claims?phase=Error`);
  await page.locator("[role=grid][aria-rowcount='2']").getByRole("row", { name: /carol/ }).waitFor();
  await page.getByRole("button", { name: "Phase: Error" }).click();
  await page.getByRole("row", { name: /alice/ }).waitFor();
  await close();
});

test("a workload's page follows which nodes have its image, and says why one has not", async () => {
  const { cluster, events } = stage.edge;
  const large = cluster.addWorkload("large");
  const images = { image: "i", nodes: 3, pulled: 1, pulledOn: ["node-a"] };
  const failed = [{ node: "node-b", message: "no such host registry.example.com" }];
  const previous: Workload = { ...large, status: { phase: "Ready", images: { ...images, failed } } };
  cluster.add(workloads, previous);
  const { page, assertAccessible, close } = await openPage(stage.browser);
  await page.goto(`${stage.url}/dashboard/workloads/large`);
  const section = page.getByRole("region", { name: "Image on nodes" });
  await section.getByText("1 of 3 nodes have it: node-a.").waitFor();
  await section.getByText("node-b could not pull it, and tries again: no such host registry.example.com").waitFor();
  await assertAccessible();
  await page.getByRole("banner").getByText("live").waitFor();
  const object: Workload = { ...large, status: { phase: "Ready", images: { ...images, pulled: 3, failed: [] } } };
  cluster.add(workloads, object);
  publishChanges(events).workloads({ type: "modified", object, previous });
  await section.getByText("3 of 3 nodes have it: node-a and 2 more.").waitFor();
  await close();
});

test("on a phone a row says why something failed", async () => {
  const { page, close } = await openPage(stage.browser, { viewport: { width: 390, height: 844 }, hasTouch: true });
  await page.goto(`${stage.url}/dashboard/claims`);
  await page.getByRole("row", { name: /carol.*Failed · ImagePullFailed/ }).waitFor();
  await close();
});

test.run();
