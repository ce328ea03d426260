import type { WebSocketRoute } from "playwright-core";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createDeferred } from "../../crds/waits.ts";
import { eventually } from "../eventually.ts";
import { CUT, openPage, UNAUTHORIZED } from "./browser.ts";
import { KEY, type Stage, sharedKeyedStage } from "./stage.ts";

const test = suite("browser/shell");
let stage: Stage;

test.before(async () => {
  stage = await sharedKeyedStage();
  await stage.tenancy.createClaim("bob", "hello");
});
test.after(() => stage?.stop());

/** A page on which somebody has logged in. */
async function loggedIn(path: string, options: Parameters<typeof openPage>[1] = {}) {
  const opened = await openPage(stage.browser, options);
  const { page, expect } = opened;
  expect(UNAUTHORIZED);
  await page.goto(`${stage.edge.url}${path}`);
  await page.getByLabel("API key").fill(KEY);
  await page.getByRole("button", { name: "Log in" }).click();
  await page.getByText("live").waitFor();
  return opened;
}

test("the key is asked for over the page, and a wrong one is told in the API's words", async () => {
  const { page, expect, assertAccessible, close } = await openPage(stage.browser);
  expect(UNAUTHORIZED);
  await page.goto(`${stage.edge.url}/dashboard/claims?q=ali`);
  const field = page.getByLabel("API key");
  await field.fill("wrong");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").filter({ hasText: "wrong API key" }).waitFor();
  assert.is(await field.inputValue(), "");
  // Chromium closes a dialog at the second Escape whatever the page says.
  for (let presses = 0; presses < 3; presses += 1) await page.keyboard.press("Escape");
  await assertAccessible();
  await field.fill(KEY);
  await page.keyboard.press("Enter");
  await page.getByRole("row", { name: /alice hello Active/ }).waitFor();
  assert.match(page.url(), /\?q=ali$/);
  await page.getByRole("button", { name: "Log out" }).click();
  await field.waitFor();
  assert.is(await page.getByRole("row", { name: /alice/ }).count(), 0);
  await close();
});

test("an answer to what was asked before the login does not ask for the key again", async () => {
  const { page, expect, close } = await openPage(stage.browser);
  expect(UNAUTHORIZED);
  const late = createDeferred<void>();
  let isHolding = false;
  let held = 0;
  await page.route("**/api/v1/session", async (route) => {
    if (route.request().method() !== "GET") return await route.continue();
    const isHeld = isHolding;
    const response = await route.fetch();
    if (isHeld) {
      held += 1;
      await late.promise;
    }
    await route.fulfill({ response });
  });
  const sockets: WebSocketRoute[] = [];
  await page.routeWebSocket("**/ws?*", (socket) => {
    socket.connectToServer();
    sockets.push(socket);
  });
  await page.goto(`${stage.edge.url}/dashboard/claims`);
  const field = page.getByLabel("API key");
  await field.fill(KEY);
  await page.keyboard.press("Enter");
  await page.getByRole("row", { name: /alice hello Active/ }).waitFor();
  // The session is lost: the next connection is refused, so the page looks whether it is still logged in.
  isHolding = true;
  await page.context().clearCookies();
  for (const socket of sockets) await socket.close();
  await eventually(() => held > 0);
  await page.getByRole("navigation").getByRole("link", { name: "Usage" }).click();
  await field.fill(KEY);
  await page.keyboard.press("Enter");
  await page.getByRole("banner").getByText("live").waitFor();
  const answered = page.waitForResponse(
    (response) => response.url().endsWith("/session") && response.request().method() === "GET",
  );
  late.resolve();
  await (await answered).finished();
  await page.getByRole("button", { name: "Log out" }).click();
  await field.waitFor();
  // An answer that is still on its way would fail in a page that is closed.
  await page.unrouteAll({ behavior: "wait" });
  await close();
});

test("the palette goes to what is typed, and the keys are listed", async () => {
  const { page, assertAccessible, close } = await loggedIn("/dashboard/claims");
  await page.getByRole("row", { name: /bob/ }).waitFor();
  await page.keyboard.press("Control+k");
  const palette = page.getByRole("dialog", { name: "Go to" });
  await palette.getByRole("combobox").pressSequentially("bob on");
  await palette.getByRole("option", { name: /bob on hello/ }).waitFor();
  await assertAccessible();
  await page.keyboard.press("Enter");
  await eventually(() => new URL(page.url()).pathname === "/dashboard/claims/bob/hello");
  await page.goBack();
  await page.getByRole("row", { name: /bob/ }).waitFor();
  await page.keyboard.press("?");
  const help = page.getByRole("dialog", { name: "Keys" });
  await help.getByText("Next row").waitFor();
  await assertAccessible();
  await help.getByLabel("Enable single-letter keys").uncheck();
  await page.keyboard.press("Escape");
  await help.waitFor({ state: "detached" });
  await page.keyboard.press("j");
  assert.is(await page.locator(".row.active").count(), 0);
  await page.keyboard.press("Control+k");
  await palette.waitFor();
  await page.keyboard.press("Escape");
  await close();
});

test("how the page looks was chosen once: after a reload it is so before the first paint", async () => {
  const { page, assertAccessible, close } = await loggedIn("/dashboard/claims", { colorScheme: "light" });
  const background = () => page.evaluate("getComputedStyle(document.body).backgroundColor");
  const light = await background();
  await page.getByLabel("Theme").selectOption("Dark");
  const dark = await background();
  assert.is.not(dark, light);
  const row = page.getByRole("row", { name: /alice/ });
  const nav = page.getByRole("navigation");
  const sizes = async () => ({ row: (await row.boundingBox())?.height, nav: (await nav.boundingBox())?.width });
  assert.equal(await sizes(), { row: 32, nav: 184 });
  await page.getByLabel("Density").selectOption("Compact");
  const fold = page.getByRole("button", { name: "Words in the navigation", expanded: true });
  await fold.click();
  await fold.waitFor({ state: "detached" });
  assert.equal(await sizes(), { row: 26, nav: 45 });
  await page.reload({ waitUntil: "commit" });
  await page.locator("body").waitFor({ state: "attached" });
  const data = await page.evaluate("({ ...document.documentElement.dataset })");
  assert.equal(data, { theme: "dark", density: "compact", navigation: "folded" });
  await row.waitFor();
  assert.is(await background(), dark);
  assert.equal(await sizes(), { row: 26, nav: 45 });
  // Folded, a link still has its name.
  await nav.getByRole("link", { name: "Claims", exact: true }).click({ trial: true });
  await assertAccessible();
  await close();
});

test("an edge that is killed and started again: a banner, then the rows of now without a reload", async () => {
  const { tenancy, startEdge, browser } = stage;
  const port = 18_000 + (process.pid % 2000);
  const env = { TENANCY_LISTEN: `127.0.0.1:${port}` };
  const first = await startEdge(env);
  const { page, expect, close } = await openPage(browser);
  // What the browser says of the tries meanwhile, also of those that find an edge whose caches are not synced yet.
  expect(CUT);
  expect(/status of 503/);
  await page.goto(`${first.url}/dashboard/claims`);
  await page.getByRole("row", { name: /alice/ }).waitFor();
  await page.evaluate("window.isSame = true");
  first.child.kill("SIGKILL");
  await first.exited;
  await page.getByText("Disconnected.").waitFor();
  await tenancy.release("claim-alice-hello");
  await tenancy.createClaim("carol", "hello");
  await startEdge(env);
  await page.getByRole("row", { name: /carol/ }).waitFor();
  await page.getByRole("row", { name: /alice/ }).waitFor({ state: "detached" });
  await page.getByText("Disconnected.").waitFor({ state: "detached" });
  assert.is(await page.evaluate("window.isSame"), true);
  await close();
});

test.run();
