import { join } from "node:path";
import type { Page } from "playwright-core";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { claims, workloads } from "../../crds/kinds.ts";
import { findKubectl } from "../../scripts/cluster/kubernetes/kubectl.ts";
import { runCommand } from "../../scripts/cluster/process/run-command.ts";
import { NAMESPACE } from "../cluster/tenancy.ts";
import { eventually } from "../eventually.ts";
import { openPage } from "./browser.ts";
import { picture } from "./picture.ts";
import { type Stage, sharedStage } from "./stage.ts";

const test = suite("browser/acts");
let stage: Stage;

test.before(async () => {
  stage = await sharedStage("browser-claims");
});
test.after(() => stage?.stop());

test("a claim's page claims, tells how long each step took, and releases after it has asked", async () => {
  const { edge, browser } = stage;
  const { page, expect, assertAccessible, close } = await openPage(browser);
  await page.goto(`${edge.url}/dashboard/claims/alice/hello`);
  await page.getByText("alice has no claim on hello").waitFor();
  await button(page, "Claim").click();
  await page.getByRole("status").getByText("alice has an instance of hello").waitFor();
  const steps = page.getByRole("table", { name: "Timeline of the claim" });
  await steps.getByRole("row", { name: /Request to operator \d+ ms/ }).waitFor();
  await steps.getByRole("row", { name: /Finding a pod \d+ ms source cold/ }).waitFor();
  await assertAccessible();

  const posted = posts(page);
  const bodies: unknown[] = [];
  page.on("request", (request) => void (request.method() === "POST" && bodies.push(request.postDataJSON())));
  const { uid } = (await (await fetch(`${edge.url}/api/v1/tenants/alice/claims/hello`)).json()) as { uid: string };
  await page.keyboard.press("r");
  const dialog = page.getByRole("dialog", { name: "Release hello of alice?" });
  await dialog.getByText("Nothing is saved: this pod saves no files. The pod of alice is deleted.").waitFor();
  assert.ok(await button(dialog, "Cancel").evaluate((cancel) => cancel.matches(":focus")));
  await assertAccessible();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  assert.equal(posted, []);

  await page.keyboard.press("r");
  await button(dialog, "Release").dblclick({ noWaitAfter: true });
  await page.getByText("alice has no claim on hello").waitFor();
  assert.equal(posted, ["/api/v1/tenants/alice/release"]);
  assert.equal(bodies, [{ workload: "hello", uid }]);
  // The claim may be gone when the page reads its last change.
  expect(/404/);
  await close();
});

test("destroy wants the tenant's name typed; the claim stays, and is tried again with another pod", async () => {
  const { tenancy, edge, browser } = stage;
  await tenancy.createClaim("bob", "hello");
  const { page, close } = await openPage(browser);
  await page.goto(`${edge.url}/dashboard/claims/bob/hello`);
  await page.getByText("● Active").waitFor();
  const pod = page.getByRole("link", { name: /^inst-/ });
  const before = await pod.innerText();
  await button(page, "Destroy").click();
  const dialog = page.getByRole("dialog", { name: `Destroy instance ${before}?` });
  await dialog.getByText("not saved").waitFor();
  const destroy = button(dialog, "Destroy");
  await dialog.getByRole("textbox").fill("bo");
  assert.ok(await destroy.isDisabled());
  await dialog.getByRole("textbox").fill("bob");
  await page.keyboard.press("Enter");
  await page.getByRole("status").getByText(`Instance ${before} is being destroyed.`).waitFor();

  await button(page, "Retry").click();
  await page.getByRole("status").getByText("bob has an instance of hello").waitFor();
  await button(page, "Destroy").waitFor();
  assert.is.not(await pod.innerText(), before);
  await close();
});

test("files that cannot be saved are given up once the tenant's name is typed", async () => {
  const { tenancy, edge, browser } = stage;
  // Nothing runs on simulated nodes that could save them.
  await tenancy.createWorkload("notes", { filesystem: { overlayDirs: ["/data"] } });
  const { metadata } = await tenancy.createClaim("carol", "notes");
  await tenancy.untilClaim(metadata.name, { phase: "Active" });
  const { page, expect, close } = await openPage(browser);
  await page.goto(`${edge.url}/dashboard/claims/carol/notes`);
  await page.getByText("● Active").waitFor();
  await page.keyboard.press("r");
  const release = page.getByRole("dialog", { name: "Release notes of carol?" });
  await release.getByText("/data of carol is saved as a new version, then the pod is deleted.").waitFor();
  await button(release, "Release").click();
  await page.getByText("▲ Not saved").waitFor();
  await page.getByText("What to do:").waitFor();
  assert.is(await button(page, "Destroy").count(), 0);

  await button(page, "Discard").click();
  const discard = page.getByRole("dialog", { name: "Discard the unsaved files of carol in notes?" });
  await discard.getByText("discarded").waitFor();
  await discard.getByRole("textbox").fill("carol");
  await button(discard, "Discard").click();
  await page.getByText("carol has no claim on notes").waitFor();
  await tenancy.untilGone(metadata.name);
  // Nor can the snapshots be read there, and the claim may be gone when the page reads its last change.
  expect(/503|404/);
  await close();
});

test("the key of a button works from the moment that the button is in the page", async () => {
  const { tenancy, edge, browser } = stage;
  await tenancy.createClaim("erin", "hello");
  const { page, close } = await openPage(browser);
  await page.addInitScript(`new MutationObserver((changes, observer) => {
    if (document.querySelector("[aria-keyshortcuts=r]") === null) return;
    observer.disconnect();
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "r", bubbles: true, cancelable: true }));
  }).observe(document, { childList: true, subtree: true })`);
  await page.goto(`${edge.url}/dashboard/claims/erin/hello`);
  await page.getByRole("dialog", { name: "Release hello of erin?" }).waitFor();
  await close();
});

test("a workload is made by the form: what the API says stands at its field, and the focus goes there", async () => {
  const { edge, browser } = stage;
  const { page, expect, assertAccessible, close } = await openPage(browser);
  await page.goto(`${edge.url}/dashboard/workloads`);
  await page.getByRole("link", { name: /create workload/i }).click();
  await field(page, "Name").fill("made");
  await unfold(page, "Size");
  await field(page, "vcpus").fill("two");
  await page.getByText("body.spec.resources.vcpus: must be a whole number").waitFor();
  assert.is(await field(page, "vcpus").getAttribute("aria-invalid"), "true");
  await assertAccessible();
  await field(page, "Image").fill("simulated/hello:1");
  await button(page, "Create").click();
  await page.locator("[aria-invalid=true]:focus").waitFor();
  await field(page, "vcpus").fill("1");
  await button(page, "Create").click();
  await page.getByRole("heading", { name: "made" }).waitFor();
  await page.getByText("No outbound network, including DNS.").waitFor();
  expect(/400/);
  await close();
});

test("each template makes a workload, under its name or another one", async () => {
  const { tenancy, edge, browser } = stage;
  const { page, assertAccessible, close } = await openPage(browser);
  await page.goto(`${edge.url}/dashboard/create/workload`);
  const links = page.getByRole("list", { name: "Begin with a template" }).getByRole("link");
  await links.first().waitFor();
  const count = await links.count();
  assert.ok(count >= 7);
  for (let at = 0; at < count; at += 1) {
    await links.nth(at).click();
    await page.locator(".templates [aria-current=true]").waitFor();
    const name = new URL(page.url()).searchParams.get("template") ?? "";
    await eventually(async () => (await field(page, "Name").inputValue()) === name);
    if (at === 0) await assertAccessible();
    await field(page, "Name").fill(`begun-${name}`);
    await button(page, "Create").click();
    await page.getByRole("heading", { level: 1, name: `begun-${name}` }).waitFor();
    const { spec } = await tenancy.client.get(workloads, { namespace: NAMESPACE, name: `begun-${name}` });
    assert.ok(spec.image.ref ?? spec.image.dockerfile);
    await page.goto(`${edge.url}/dashboard/create/workload`);
    await links.first().waitFor();
  }
  await close();
});

test("a copy begins with another's spec, and the form is the same as its manifest, command and request", async () => {
  const { tenancy, edge, browser } = stage;
  const greeting = `it's $HOME "\\END"\nEND\n`;
  await tenancy.createWorkload("model", { entrypoint: { env: { GREETING: greeting } } });
  const { page, expect, assertAccessible, close } = await openPage(browser);
  // The form's check may find what a command has just made.
  expect(/409/);
  await page.goto(`${edge.url}/dashboard/workloads/model`);
  await page.getByRole("link", { name: "Duplicate" }).click();
  await page.getByText("With the spec of model.").waitFor();
  await unfold(page, "The same as text");
  const text = page.locator(".command pre");
  await text.getByText("kind: TenancyWorkload").waitFor();
  await assertAccessible();
  const { spec } = await read("model");
  const kubectl = `'${await findKubectl()}' apply --kubeconfig '${tenancy.cluster.kubeconfigPath}' -n ${NAMESPACE}`;
  for (const [notation, run] of [
    ["YAML", (manifest: string) => `${kubectl} -f - <<'END'\n${manifest}END`],
    ["tenancy", (command: string) => `tenancy() { bun edge/cli/main.ts "$@"; }\n${command}`],
    ["curl", (command: string) => command],
  ] as const) {
    const name = `copy-by-${notation.toLowerCase()}`;
    await field(page, "Name").fill(name);
    await button(page, notation).click();
    await text.getByText(name).waitFor();
    await bash(run((await text.textContent()) ?? ""));
    assert.equal((await read(name)).spec, spec, notation);
  }
  await picture(page, "form-as-text");
  await button(page, "Cancel").click();

  await page.goto(`${edge.url}/dashboard/workloads/model?edit=1`);
  await field(page, "Memory (MB)").fill("64");
  await unfold(page, "The same as text");
  await button(page, "curl").click();
  await text.getByText('"memoryMb":64').waitFor();
  await bash((await text.textContent()) ?? "");
  assert.equal((await read("model")).spec, { ...spec, resources: { ...spec.resources, memoryMb: 64 } });
  await close();

  async function read(name: string): Promise<{ spec: { resources?: object } }> {
    const answer = await fetch(`${edge.url}/api/v1/workloads/${name}`);
    return (await answer.json()) as { spec: object };
  }
});

test("what a workload's page says to programs claims it, by each of them", async () => {
  const { tenancy, edge, browser } = stage;
  await tenancy.createWorkload("reached", { network: { ports: [8080] } });
  const { page, assertAccessible, close } = await openPage(browser);
  await page.goto(`${edge.url}/dashboard/workloads/reached`);
  await unfold(page, "Connect");
  const client = join(import.meta.dirname, "../../edge/client/index.ts");
  const said = async (label: string): Promise<string> => {
    await button(page, label).click();
    return (await page.locator(".command pre").textContent()) ?? "";
  };
  const claimed = async (): Promise<number> => {
    const { items } = await tenancy.client.list(claims, { namespace: NAMESPACE });
    return items.filter(({ spec }) => spec.workloadRef === "reached").length;
  };
  await bash(await said("curl"));
  assert.is(await claimed(), 1);
  await assertAccessible();
  // A simulated node has no log.
  const commands = (await said("tenancy")).replace(/^tenancy logs .*\n/m, "");
  await bash(`tenancy() { bun edge/cli/main.ts "$@"; }\n${commands}`);
  assert.is(await claimed(), 0);
  await bun((await said("JavaScript")).replace("tenancy-client", client));
  assert.is(await claimed(), 1);
  await bun(await said("E2B in JavaScript"));
  assert.is(await claimed(), 2);
  const { mcpServers } = JSON.parse(await said("MCP")) as { mcpServers: { tenancy: { url: string } } };
  const { status } = await fetch(mcpServers.tenancy.url, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json, text/event-stream" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "ping" }),
  });
  assert.is(status, 200);
  await close();
});

test("a change shows what it changes, and is refused where somebody was faster", async () => {
  const { tenancy, edge, browser } = stage;
  await tenancy.createWorkload("edited");
  const { page, expect, close } = await openPage(browser);
  await page.goto(`${edge.url}/dashboard/workloads/edited?edit=1`);
  await field(page, "Memory (MB)").fill("64");
  const save = async (): Promise<void> => {
    await button(page, "Save").click();
    const dialog = page.getByRole("dialog", { name: "Change workload edited?" });
    await dialog.getByText("spec.resources.memoryMb: 512 → 64").waitFor();
    await dialog.getByText("0 claimed pods are not changed").waitFor();
    await button(dialog, "Save").click();
  };
  await put(`${edge.url}/api/v1/workloads/edited`, { spec: { image: { ref: "simulated/hello:2" } } });
  await save();
  await page.getByRole("alert").getByText('workload "edited" has changed since it was read').waitFor();
  await button(page, "Reload").click();
  await tenancy.until("the form to be read again", async () => {
    return (await field(page, "Image").inputValue()) === "simulated/hello:2";
  });
  await field(page, "Memory (MB)").fill("64");
  await save();
  await page.getByRole("link", { name: "Edit" }).waitFor();
  expect(/409/);
  await close();
});

test("what was typed stays over a change of somebody else, and is not left behind without a question", async () => {
  const { tenancy, edge, browser } = stage;
  await tenancy.createWorkload("typed");
  const { page, expect, close } = await openPage(browser);
  await page.goto(`${edge.url}/dashboard/workloads/typed`);
  await page.getByRole("link", { name: "Edit" }).click();
  await field(page, "Memory (MB)").fill("64");
  await put(`${edge.url}/api/v1/workloads/typed`, { spec: { image: { ref: "simulated/hello:2" } } });
  await button(page, "Reload").click();
  await tenancy.until("the form to be read again", async () => {
    return (await field(page, "Image").inputValue()) === "simulated/hello:2";
  });
  assert.is(await field(page, "Memory (MB)").inputValue(), "64");
  await page.getByRole("link", { name: "Pools", exact: true }).first().click();
  const dialog = page.getByRole("dialog", { name: "Leave without saving?" });
  await dialog.getByText("spec.resources.memoryMb: 512 → 64").waitFor();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  assert.is(await field(page, "Memory (MB)").inputValue(), "64");
  await button(page, "Cancel").click();
  await page.getByRole("link", { name: "Edit" }).waitFor();
  expect(/409/);
  await close();
});

test("a workload that is used says what uses it when it is deleted", async () => {
  const { tenancy, edge, browser } = stage;
  await tenancy.createWorkload("used");
  await tenancy.createClaim("dan", "used");
  const { page, close } = await openPage(browser);
  await page.goto(`${edge.url}/dashboard/workloads/used`);
  await button(page, "Delete").click();
  const dialog = page.getByRole("dialog", { name: "Delete workload used?" });
  await dialog.getByText("1 claim and 0 pools use it now.").waitFor();
  await button(dialog, "Delete").click();
  await page
    .getByRole("status")
    .getByText(/the workload is deleted when nothing uses it/)
    .waitFor();
  await close();
});

test("a pool is made, shows its hour, is scaled down after a question, and deleted", async () => {
  const { tenancy, edge, browser } = stage;
  const { page, assertAccessible, close } = await openPage(browser);
  await page.goto(`${edge.url}/dashboard/create/pool?workload=hello`);
  await field(page, "Name").fill("warm");
  await field(page, "size").fill("2");
  await button(page, "Create").click();
  await page.getByRole("heading", { name: "warm" }).waitFor();
  await page.getByText("2 of 2").waitFor();
  await page.locator("canvas").first().waitFor();
  await page.getByText("Each minute").click();
  await page.getByRole("table", { name: "The last hour, each minute" }).waitFor();
  await assertAccessible();

  await page.getByRole("spinbutton", { name: "Size" }).fill("1");
  await button(page, "Scale").click();
  const dialog = page.getByRole("dialog", { name: "Scale pool warm from 2 to 1?" });
  await dialog.getByText("1 warm pod is deleted; no tenant uses them. Claimed pods stay.").waitFor();
  await button(dialog, "Scale").click();
  await page.getByText("1 of 1").waitFor();
  await tenancy.until("the pool to have one pod", () => tenancy.members("warm").length === 1);

  await button(page, "Delete").click();
  await button(page.getByRole("dialog", { name: "Delete pool warm?" }), "Delete").click();
  await page.getByText("This pool does not exist.").waitFor();
  await page.getByRole("status").getByText("Pool warm is deleted.").waitFor();
  await close();
});

test("a pool that scales by itself shows its limits and why it has its size, and no control to scale it", async () => {
  const { edge, browser } = stage;
  const { page, expect, assertAccessible, close } = await openPage(browser);
  expect(/400/);
  await page.goto(`${edge.url}/dashboard/create/pool?workload=hello`);
  await field(page, "Name").fill("elastic");
  await field(page, "size").fill("2");
  await field(page, "kind").selectOption("As many pods as claims need");
  await field(page, "size").waitFor({ state: "detached" });
  await field(page, "maxSize").fill("3");
  await field(page, "minSize").fill("4");
  await page.getByText("must not be greater than maxSize").waitFor();
  await assertAccessible();
  await field(page, "minSize").fill("2");
  await button(page, "Create").click();
  await page.getByText("2 of 2").waitFor();
  await page.getByText("2 to 3").waitFor();
  await page.getByRole("heading", { name: "Why 2 pods: MinSize" }).waitFor();
  await assertAccessible();
  assert.is(await page.getByRole("spinbutton", { name: "Size" }).count(), 0);

  await page.getByRole("link", { name: "Edit" }).click();
  assert.is(await field(page, "maxSize").inputValue(), "3");
  await field(page, "kind").selectOption("A fixed number of pods");
  await field(page, "size").fill("1");
  await button(page, "Save").click();
  const dialog = page.getByRole("dialog", { name: "Change pool elastic?" });
  await dialog.getByText("spec.maxSize").waitFor();
  await button(dialog, "Save").click();
  await page.getByText("1 of 1").waitFor();
  await button(page, "Delete").click();
  await button(page.getByRole("dialog", { name: "Delete pool elastic?" }), "Delete").click();
  await page.getByText("This pool does not exist.").waitFor();
  await close();
});

test("an error is shown in the API's own words", async () => {
  const { edge, browser } = stage;
  const { page, expect, close } = await openPage(browser);
  await page.goto(`${edge.url}/dashboard/claims/carol/nothing`);
  await button(page, "Claim").click();
  await page.getByRole("alert").getByText('workload "nothing" does not exist').waitFor();
  expect(/404/);
  await close();
});

function button(within: Pick<Page, "getByRole">, name: string) {
  return within.getByRole("button", { name, exact: true });
}

/** Opens a group of a form's fields. */
async function unfold(page: Page, group: string): Promise<void> {
  await page.locator("details.group:not([open]) > summary", { hasText: group }).click();
}

function field(page: Page, name: string) {
  return page.getByLabel(name, { exact: true });
}

/** The paths that are posted to from now on. */
function posts(page: Page): string[] {
  const paths: string[] = [];
  page.on("request", (request) => {
    if (request.method() === "POST") paths.push(new URL(request.url()).pathname);
  });
  return paths;
}

/** Runs a script as a person would who pastes it. */
function bun(program: string): Promise<string> {
  return runCommand("bun", ["-e", program], { folder: join(import.meta.dirname, "../.."), limitMs: 60_000 });
}

function bash(script: string): Promise<string> {
  return runCommand("bash", ["-c", script], { folder: join(import.meta.dirname, "../.."), limitMs: 60_000 });
}

async function put(url: string, body: object): Promise<void> {
  const headers = { "content-type": "application/json" };
  const { status } = await fetch(url, { method: "PUT", headers, body: JSON.stringify(body) });
  assert.is(status, 200);
}

test.run();
