// @long a second program in a browser: jupyterlab.test.ts proves the builder, the front door and saved files with one
// @own-cluster
// @limit 2700
import type { BrowserContext } from "playwright-core";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { type ExampleStage, startExample } from "./example-stage.ts";

const WORKLOAD = "node-red";
/** A flow that answers with what it was sent and how often it was asked, and a node with credentials. */
const FLOW = [
  { id: "tab1", type: "tab", label: "Orders" },
  { ...node("in1", "http in", 1), url: "/orders", method: "post", wires: [["work1"]] },
  {
    ...node("work1", "function", 2),
    func: `const count = (flow.get("count") || 0) + 1;
flow.set("count", count);
msg.payload = { order: msg.payload.order, count };
return msg;`,
    wires: [["out1"]],
  },
  { ...node("out1", "http response", 3), name: "Confirm order", wires: [] },
  {
    ...node("ask1", "http request", 4),
    ...{ method: "GET", ret: "txt", url: "http://shop.invalid/", authType: "basic", headers: [], wires: [[]] },
  },
];
const test = suite("Node-RED as a workload");
let stage: ExampleStage;
/** The cookie of Ann's link. */
let visitor: Awaited<ReturnType<BrowserContext["storageState"]>>;

test.before(async () => {
  stage = await startExample(WORKLOAD);
});
test.after(() => stage?.stop());

test("the editor in a browser that was given a link deploys a flow, which answers a webhook", async () => {
  assert.is((await order("ann", 1)).status, 404);
  const opened = await stage.open();
  const { page } = opened;
  const [comms] = await Promise.all([
    page.waitForEvent("websocket", (made) => made.url().endsWith("/comms")),
    page.goto(await stage.createLink()),
  ]);
  await page.locator("#red-ui-loading-progress").waitFor({ state: "hidden" });
  await page.locator("#red-ui-header-button-sidemenu").click();
  await page.locator("#menu-item-import").click();
  const text = page.locator("#red-ui-clipboard-dialog-import-text");
  await text.fill(JSON.stringify(FLOW));
  // The dialog looks at the text when a key is released.
  await text.press("End");
  await page.locator("#red-ui-clipboard-dialog-ok").click();
  await Promise.all([
    comms.waitForEvent("framereceived", ({ payload }) => payload.includes("notification/runtime-deploy")),
    page.waitForResponse((response) => response.request().method() === "POST" && response.url().endsWith("/flows")),
    page.locator("#red-ui-header-button-deploy:not(.disabled)").click(),
  ]);
  visitor = await page.context().storageState();
  await opened.close();
  assert.equal(await (await order("ann", 1)).json(), { order: 1, count: 1 });

  // The editor imports no credentials.
  const flows = (await (await ask("ann", "flows")).json()) as { id: string }[];
  const credentials = { user: "ann", password: "only-for-ann" };
  const deployed = flows.map((each) => (each.id === "ask1" ? { ...each, credentials } : each));
  assert.is((await post("ann", "flows", deployed)).status, 204);
});

test("a webhook wakes a tenant who sleeps: the flow answers, and the editor shows it", async () => {
  const released = await stage.stack.release("ann", WORKLOAD);
  assert.is(released.body.files, "saved", JSON.stringify(released.body));
  assert.equal(await (await order("ann", 2)).json(), { order: 2, count: 2 });
  const opened = await stage.open({ storageState: visitor });
  const { page } = opened;
  await page.goto(`http://${WORKLOAD}--ann.localhost:${new URL(stage.frontDoor).port}/#flow/tab1`);
  await page.locator("#red-ui-workspace-chart").getByText("Confirm order").waitFor();
  await page.locator("#red-ui-header-button-deploy.disabled").waitFor();
  await opened.close();
  const credentials = await (await ask("ann", "credentials/http-request/ask1")).json();
  assert.equal(credentials, { user: "ann", has_password: true });
});

test("an ordinary user runs it, whose group is not that of root", async () => {
  assert.is(await run("bob", "sh", "-c", "id -u; id -G"), "1000\n1000\n");
});

test("another tenant has neither the flow nor the key of its credentials", async () => {
  assert.is((await order("bob", 3)).status, 404);
  assert.equal(await (await ask("bob", "flows")).json(), []);
  const [ann, bob] = await Promise.all([credentialKey("ann"), credentialKey("bob")]);
  assert.match(ann, /^[0-9a-f]{64}$/);
  assert.match(bob, /^[0-9a-f]{64}$/);
  assert.is.not(ann, bob);
});

function node(id: string, type: string, place: number) {
  return { id, type, z: "tab1", x: 160 * place, y: 80 };
}

/** Calls the webhook of the flow, as a program does. */
function order(tenant: string, number: number): Promise<Response> {
  return post(tenant, "orders", { order: number });
}

function post(tenant: string, path: string, body: unknown): Promise<Response> {
  const headers = { "content-type": "application/json" };
  return ask(tenant, path, { method: "POST", headers, body: JSON.stringify(body) });
}

function ask(tenant: string, path: string, init?: RequestInit): Promise<Response> {
  return fetch(`${stage.frontDoor}/t/${tenant}/${WORKLOAD}/${path}`, init);
}

/** The key that Node-RED made for a tenant's credentials. */
async function credentialKey(tenant: string): Promise<string> {
  const settings = JSON.parse(await run(tenant, "cat", "/data/.config.runtime.json")) as Record<string, unknown>;
  return String(settings._credentialSecret);
}

/** Runs a command in a tenant's pod, and returns what it wrote. */
async function run(tenant: string, ...command: string[]): Promise<string> {
  const claim = ["get", "tenancyclaim", `claim-${tenant}-${WORKLOAD}`, "-o", "jsonpath={.status.instanceId}"];
  return stage.stack.kubectl("exec", await stage.stack.kubectl(...claim), "--", ...command);
}

test.run();
