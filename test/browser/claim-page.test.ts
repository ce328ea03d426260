// @own-cluster
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { events } from "../../crds/client/built-in-resources.ts";
import { systemClock } from "../../crds/client/clock.ts";
import { INSECURE_HOST, openPage } from "./browser.ts";
import { type FakeStage, startFakeStage } from "./fake-stage.ts";

const test = suite("browser/claim page");
let stage: FakeStage;

const cause = `unexpected status from HEAD request to https://registry.example.com/v2/${"team/".repeat(80)}: 403 Forbidden`;
const message = `image registry.example.com/app:1 cannot be pulled: ${cause}: fix the workload's spec.image.ref`;
const endpoint = { host: "10.0.0.1", port: 8080 };
const links = {
  ...{ maxSeconds: 3600, problem: () => undefined },
  address: ({ workload, tenantId }: { workload: string; tenantId: string }) =>
    `http://${workload}--${tenantId}.localhost:8081/`,
  create: () => "http://linked--alice.localhost:8081/?tenancy-token=secret",
};

test.before(async () => {
  stage = await startFakeStage({ clock: systemClock, links });
  const { cluster } = stage.edge;
  for (const expose of ["public", "link", "key", "none"] as const) {
    cluster.addWorkload(`to-${expose}`, { network: { expose, ports: [8080] } });
    const status = { phase: "Active", instanceId: `inst-${expose}`, endpoint } as const;
    cluster.addClaim({ tenantId: "alice", workloadRef: `to-${expose}`, status });
  }
  cluster.addWorkload("typo");
  const pending = cluster.addClaim({
    ...{ tenantId: "bob", workloadRef: "typo", createdAt: new Date().toISOString() },
    status: { phase: "Pending", instanceId: "inst-bob", observedGeneration: 1 },
  });
  const failed = cluster.addClaim({
    ...{ tenantId: "carol", workloadRef: "typo" },
    status: { phase: "Error", reason: "ImagePullFailed", message, instanceUid: "uid-carol" },
  });
  cluster.addClaim({
    ...{ tenantId: "dave", workloadRef: "typo" },
    status: { phase: "Active", reason: "CrashLooping", message: "it ends", instanceId: "inst-dave", endpoint },
  });
  cluster.addClaim({
    ...{ tenantId: "erin", workloadRef: "typo" },
    status: {
      phase: "Error",
      reason: "CrashLooping",
      message: "it ends:\nfirst line\nlast line",
      instanceId: "inst-gone",
    },
  });
  const event = (name: string, uid = "", words: { reason: string; message: string }) =>
    cluster.add(events, {
      metadata: { name, namespace: "tenancy" },
      involvedObject: { kind: uid === "uid-carol" ? "Pod" : "TenancyClaim", uid },
      ...{ type: "Warning", lastTimestamp: new Date().toISOString(), ...words },
    });
  event("b", pending.metadata.uid, { reason: "ImagePullFailed", message: "image nothing:1 cannot be pulled" });
  event("c", failed.metadata.uid, { reason: "ImagePullFailed", message });
  event("d", "uid-carol", { reason: "Failed", message: `Failed to pull image "registry.example.com/app:1": ${cause}` });
  event("e", "uid-carol", { reason: "Failed", message: `Error: ErrImagePull: ${cause}` });
});
test.after(() => stage?.stop());

test("a claim of which the operator has said nothing yet shows the newest warning", async () => {
  const { page, assertAccessible, close } = await openPage(stage.browser);
  await page.goto(`${stage.url}/dashboard/claims/bob/typo`);
  const waits = page.getByRole("region", { name: "Waiting for" });
  await waits.getByText("No report from the operator yet.").waitFor();
  await waits.getByText("ImagePullFailed").waitFor();
  await waits.getByText("image nothing:1 cannot be pulled").waitFor();
  await assertAccessible();
  await close();
});

test("a long error is shortened around its middle, not repeated, and shown whole when asked for", async () => {
  const { page, assertAccessible, close } = await openPage(stage.browser);
  await page.goto(`${stage.url}/dashboard/claims/carol/typo`);
  const events = page.getByRole("table", { name: "Events" });
  await events.getByRole("row", { name: /ImagePullFailed as above/ }).waitFor();
  assert.is(await events.getByRole("row").count(), 4);
  const main = page.getByRole("main");
  const shown = async () => (await main.innerText()).split(cause).length - 1;
  assert.is(await shown(), 0);
  const reason = page.getByRole("region", { name: "ImagePullFailed" });
  await reason.getByText(/^image registry.* … .*403 Forbidden: fix the workload's spec.image.ref$/).click();
  assert.is(await shown(), 1);
  await assertAccessible();
  await close();
});

test("a failed claim begins with its reason, and its program's last lines as they were printed", async () => {
  const { page, close } = await openPage(stage.browser);
  await page.goto(`${stage.url}/dashboard/claims/erin/typo`);
  await page.getByRole("heading", { name: "Events" }).waitFor();
  const shown = await page.getByRole("main").innerText();
  assert.match(shown, /CrashLooping\n+it ends:\nfirst line\nlast line\n/);
  assert.ok(shown.indexOf("last line") < shown.indexOf("State"), shown);
  await close();
});

test("a claim's page leads to its instance's own address, with a link where the workload wants one", async () => {
  const { page, assertAccessible, close } = await openPage(stage.browser);
  const open = async (expose: string) => {
    await page.goto(`${stage.url}/dashboard/claims/alice/to-${expose}`);
    await page.getByRole("heading", { name: "Events" }).waitFor();
  };
  const opens = page.getByRole("button", { name: "Open" }).or(page.getByRole("link", { name: "Open" }));
  await open("public");
  assert.is(await opens.getAttribute("href"), "http://to-public--alice.localhost:8081/");
  const address = page.getByRole("link", { name: "http://to-public--alice.localhost:8081/" });
  assert.is(await address.getAttribute("href"), "http://to-public--alice.localhost:8081/");
  assert.is(await address.getAttribute("rel"), "noopener noreferrer");
  await open("link");
  await page.getByRole("button", { name: "Create link" }).click();
  const linked = page.getByRole("link", { name: "http://to-link--alice.localhost:8081/" });
  assert.match((await linked.getAttribute("href")) ?? "", "tenancy-token=secret");
  await assertAccessible();
  const asked = page.context().waitForEvent("request", (request) => request.url().includes("linked--alice"));
  await opens.click();
  const request = await asked;
  assert.match(request.url(), "tenancy-token=secret");
  assert.is((await request.allHeaders()).referer, undefined);
  assert.ok(request.frame().page() !== page, "a tab of its own");
  await page.getByText("Opened in a tab of its own.").waitFor();
  await open("key");
  await page.getByText("http://to-key--alice.localhost:8081/ with the API key").waitFor();
  assert.is(await opens.count(), 0);
  await open("none");
  assert.is(await page.getByText("localhost:8081").count(), 0);
  assert.is(await opens.count(), 0);
  await close();
});

test("what Open shows cannot lead the dashboard elsewhere, also where no browser's policy prevents it", async () => {
  const { page, expect, close } = await openPage(stage.browser);
  // Of a page without a secure connection.
  expect(/Cross-Origin-Opener-Policy/);
  await page.context().route("http://linked--alice.localhost:8081/**", (route) => route.fulfill({ body: "opened" }));
  await page.goto(`${stage.url.replace("127.0.0.1", INSECURE_HOST)}/dashboard/claims/alice/to-link`);
  const [tab] = await Promise.all([
    page.waitForEvent("popup"),
    page.getByRole("button", { name: "Open", exact: true }).click(),
  ]);
  await tab.getByText("opened").waitFor();
  assert.is(await tab.evaluate("opener"), null);
  await close();
});

test("the pages about one claim lead to each other, also for the keyboard, and where it has no pod", async () => {
  const { page, expect, assertAccessible, close } = await openPage(stage.browser);
  // Nothing runs here that could be looked into.
  expect(/status of (409|503)|WebSocket connection/);
  const tabs = page.getByRole("list", { name: "Pages of the session" });
  const names = ["Session", "Terminal", "Files", "Processes", "Pod and log", "Saved versions"];
  await page.goto(`${stage.url}/dashboard/instances/inst-public/files`);
  for (const name of names) {
    await tabs.getByRole("link", { name }).click();
    await tabs.locator("[aria-current=page]").getByText(name).waitFor();
    assert.equal(await tabs.getByRole("link").allInnerTexts(), names);
    await tabs.getByRole("link", { name: "Terminal", disabled: false }).waitFor();
  }
  await assertAccessible();
  await page.keyboard.press("f");
  await page.getByRole("heading", { level: 1, name: "Files of inst-public" }).waitFor();
  await page.goto(`${stage.url}/dashboard/snapshots/carol/typo`);
  await page.getByText("No saved versions.").waitFor();
  await page.getByRole("banner").getByText("live").waitFor();
  assert.equal(await tabs.getByRole("link", { disabled: false }).allInnerTexts(), ["Session", "Saved versions"]);
  await assertAccessible();
  await page.goto(`${stage.url}/dashboard/instances/inst-gone`);
  await page.getByText("This instance no longer exists.").waitFor();
  await tabs.getByRole("link", { name: "Session", disabled: false }).click();
  await page.getByRole("heading", { level: 1, name: "typo claimed by erin" }).waitFor();
  await close();
});

test("a claim's page has its pod's log, at once where its program crashes", async () => {
  const { page, expect, close } = await openPage(stage.browser);
  // Nothing runs here that prints.
  expect(/status of 503/);
  await page.goto(`${stage.url}/dashboard/claims/dave/typo`);
  await page.getByRole("log", { name: "Log of inst-dave" }).waitFor();
  await page.goto(`${stage.url}/dashboard/claims/alice/to-none`);
  await page.getByRole("button", { name: "Show log" }).click();
  await page.getByRole("log", { name: "Log of inst-none" }).waitFor();
  await close();
});

test.run();
