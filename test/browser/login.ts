import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import type { BrowserContext, Page } from "playwright-core";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { claims, workloads } from "../../crds/kinds.ts";
import { root } from "../../edge/access/actor.ts";
import { createWebhookPaths } from "../../edge/gateway/webhook/webhook-paths.ts";
import { createApiKeyCheck, createFindActor } from "../../edge/http/api-key.ts";
import { createHandler } from "../../edge/http/handler.ts";
import { createSessions } from "../../edge/http/session.ts";
import { serveNode } from "../../edge/serve/node.ts";
import { NAMESPACE } from "../cluster/tenancy.ts";
import { silentLog } from "../unit/silent-log.ts";
import { openPage, UNAUTHORIZED } from "./browser.ts";
import { KEY, type Stage, sharedKeyedStage } from "./stage.ts";

const test = suite("browser/login");
let stage: Stage;
/** Serves {@link attack} to whoever asks, at every name of this machine. */
let attacker: Server;
let instance: string;

test.before(async () => {
  stage = await sharedKeyedStage();
  const { tenancy } = stage;
  await tenancy.createWorkload("hello");
  for (const tenant of ["alice", "bob"]) await tenancy.createClaim(tenant, "hello");
  await tenancy.untilClaim("claim-bob-hello", { phase: "Active" });
  const { status } = await tenancy.untilClaim("claim-alice-hello", { phase: "Active" });
  instance = status?.instanceId ?? "";
  attacker = createServer((_, response) => response.writeHead(200, { "content-type": "text/html" }).end(attack));
  attacker.listen(0);
  await once(attacker, "listening");
});
test.after(async () => {
  attacker?.close();
});

async function logIn(page: Page, key = KEY): Promise<void> {
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Log in" }).click();
}

/** A context in which somebody has logged in, and its page. */
async function loggedIn(path = "/dashboard/claims") {
  const opened = await openPage(stage.browser);
  opened.expect(UNAUTHORIZED);
  await opened.page.goto(`${stage.edge.url}${path}`);
  await logIn(opened.page);
  await opened.page.getByText("live").waitFor();
  return opened;
}

/** Whatever a page can send with a browser's session, to the edge of its query. */
const attack = `<!doctype html><title>attacker</title><script>
const { target, instance } = Object.fromEntries(new URLSearchParams(location.search));
const body = new Blob(['{"workload":"hello"}']);
const simple = (path, options) =>
  fetch(target + path, { mode: "no-cors", credentials: "include", ...options }).then(() => "sent", () => "failed");
const form = () => new Promise((resolve) => {
  const frame = Object.assign(document.createElement("iframe"), { name: "frame" });
  const form = Object.assign(document.createElement("form"), {
    action: target + "/api/v1/instances/" + instance + "/destroy", method: "post", target: "frame",
  });
  document.body.append(frame, form);
  frame.onload = () => resolve("sent");
  form.submit();
});
const socket = () => new Promise((resolve) => {
  const opened = new WebSocket(target.replace("http", "ws") + "/ws");
  opened.onopen = () => resolve("open");
  opened.onclose = () => resolve("closed");
});
window.attack = async () => ({
  release: await simple("/api/v1/tenants/alice/release", { method: "POST", body }),
  destroy: await simple("/api/v1/instances/" + instance + "/destroy", { method: "POST" }),
  logout: await fetch(target + "/api/v1/session", { method: "DELETE", credentials: "include" }).then(() => "sent", () => "failed"),
  remove: await fetch(target + "/api/v1/workloads/hello", { method: "DELETE", credentials: "include" }).then(() => "sent", () => "failed"),
  read: await fetch(target + "/api/v1/tenants", { credentials: "include" }).then((answer) => answer.text(), () => "failed"),
  form: await form(),
  socket: await socket(),
});
</script>`;

/** Lets a page of that host attack, and returns what it saw and what its requests were answered. */
async function attackFrom(context: BrowserContext, host: string) {
  const page = await context.newPage();
  const answers: string[] = [];
  page.on("response", (response) => {
    const { pathname, origin } = new URL(response.url());
    if (origin === stage.edge.url) answers.push(`${response.request().method()} ${pathname} ${response.status()}`);
  });
  const { port } = attacker.address() as AddressInfo;
  const query = new URLSearchParams({ target: stage.edge.url, instance });
  await page.goto(`http://${host}:${port}/?${query}`);
  const saw = (await page.evaluate("attack()")) as Record<string, string>;
  return { page, saw, answers };
}

test("pages of other ports and other names can do nothing with a session, this edge's own can", async () => {
  const { page, close } = await loggedIn();
  const context = page.context();
  for (const host of ["127.0.0.1", "localhost"]) {
    const { page: other, saw, answers } = await attackFrom(context, host);
    assert.is(saw.socket, "closed", host);
    for (const act of ["logout", "remove", "read"]) assert.is(saw[act], "failed", `${act} from ${host}`);
    assert.ok(answers.length >= 3, answers.join("\n"));
    // The one carries the cookie and is of the wrong page, the other carries none.
    const refused = host === "127.0.0.1" ? "403" : "401";
    for (const answer of answers) {
      if (answer.startsWith("OPTIONS ")) assert.match(answer, / 401$/);
      else assert.ok(answer.endsWith(refused) || answer.startsWith("DELETE "), `${answer} from ${host}`);
    }
    await other.close();
  }
  const { tenancy } = stage;
  const claim = await tenancy.client.get(claims, { namespace: NAMESPACE, name: "claim-alice-hello" });
  assert.equal([claim.status?.phase, claim.metadata.deletionTimestamp], ["Active", undefined]);
  assert.is(claim.status?.instanceId, instance);
  assert.equal(
    (await tenancy.podsOf(claim)).map(({ metadata }) => [metadata.name, metadata.deletionTimestamp]),
    [[instance, undefined]],
  );
  const workload = await tenancy.client.get(workloads, { namespace: NAMESPACE, name: "hello" });
  assert.is(workload.metadata.deletionTimestamp, undefined);
  // The same from the page itself.
  assert.is(await page.evaluate(`fetch("/api/v1/tenants").then(({ status }) => status)`), 200);
  const release = `fetch("/api/v1/tenants/bob/release", { method: "POST", body: new Blob(['{"workload":"hello"}']) })`;
  assert.is(await page.evaluate(`${release}.then(({ status }) => status)`), 200);
  await tenancy.untilGone("claim-bob-hello");
  await page.getByRole("row", { name: /bob/ }).waitFor({ state: "detached" });
  await close();
});

test("no page of another origin can show the dashboard in a frame", async () => {
  const { page, close } = await loggedIn();
  const other = await page.context().newPage();
  const { port } = attacker.address() as AddressInfo;
  for (const host of ["127.0.0.1", "localhost"]) {
    await other.goto(`http://${host}:${port}/?${new URLSearchParams({ target: stage.edge.url, instance })}`);
    await other.evaluate(
      `new Promise((resolve) => document.body.append(Object.assign(document.createElement("iframe"), { src: "${stage.edge.url}/", onload: resolve })))`,
    );
    const [, frame] = other.frames();
    assert.is(await frame?.locator("#app").count(), 0, host);
  }
  await close();
});

test("the key is in one body and nowhere else: not in the page, its storage, its history or an address", async () => {
  const { page, expect, close } = await openPage(stage.browser);
  expect(UNAUTHORIZED);
  const carried: string[] = [];
  page.on("request", (request) => {
    const { pathname } = new URL(request.url());
    const head = JSON.stringify([request.url(), request.headers()]);
    if (head.includes(KEY)) carried.push(`head of ${pathname}`);
    if (request.postData()?.includes(KEY)) carried.push(`body of ${request.method()} ${pathname}`);
  });
  page.on("websocket", (socket) => {
    if (socket.url().includes(KEY)) carried.push("a socket's address");
  });
  await page.goto(`${stage.edge.url}/dashboard/claims`);
  await logIn(page);
  await page.getByRole("row", { name: /alice/ }).waitFor();
  await page.goto(`${stage.edge.url}/dashboard/claims/alice/hello`);
  await page.getByText("live").waitFor();
  const state = `JSON.stringify([document.cookie, { ...localStorage }, { ...sessionStorage }, history.state, location.href,
    performance.getEntries().map(({ name }) => name), document.documentElement.outerHTML,
    [...document.querySelectorAll("input")].map(({ value }) => value)])`;
  for (const back of [false, true]) {
    if (back) await page.goBack();
    const text = String(await page.evaluate(state));
    assert.not.ok(text.includes(KEY));
    assert.not.ok(text.includes("tenancy-session"));
  }
  assert.equal(carried, ["body of POST /api/v1/session"]);
  const [cookie, ...others] = await page.context().cookies();
  assert.equal(others, []);
  assert.equal([cookie?.name, cookie?.httpOnly, cookie?.sameSite], ["tenancy-session", true, "Strict"]);
  assert.not.ok(cookie?.value.includes(KEY));
  await close();
});

test("nothing but the session is asked for before the login, and the page is shown after it", async () => {
  const { page, close } = await openPage(stage.browser);
  const asked: string[] = [];
  page.on("request", (request) => {
    const { pathname } = new URL(request.url());
    if (pathname.startsWith("/api/")) asked.push(`${request.method()} ${pathname}`);
  });
  page.on("websocket", (socket) => asked.push(socket.url()));
  await page.goto(`${stage.edge.url}/`);
  await page.getByLabel("API key").waitFor();
  assert.equal(asked, ["GET /api/v1/session"]);
  await logIn(page);
  await page.getByText("live").waitFor();
  await page.getByRole("heading", { level: 1 }).waitFor();
  await close();
});

test("another replica takes the session, an edge of another key does not", async () => {
  const env = { TENANCY_WS_REQUIRE_KEY: "true" };
  const [replica, stranger] = await Promise.all([
    stage.startEdge({ ...env, TENANCY_API_KEY: KEY }),
    stage.startEdge({ ...env, TENANCY_API_KEY: `${KEY}-changed` }),
  ]);
  const { page, expect, close } = await loggedIn();
  expect(/^asked another origin: .*\/dashboard\/claims$/);
  await page.goto(`${replica.url}/dashboard/claims`);
  await page.getByRole("row", { name: /alice/ }).waitFor();
  assert.is(await page.getByLabel("API key").count(), 0);
  await page.goto(`${stranger.url}/dashboard/claims`);
  await page.getByLabel("API key").waitFor();
  assert.is(await page.getByRole("row", { name: /alice/ }).count(), 0);
  await close();
});

/** Somebody who has typed a command in a session of that length; undefined where it ended before. */
async function typing(sessionMs: number) {
  const env = { TENANCY_API_KEY: KEY, TENANCY_WS_REQUIRE_KEY: "true" };
  const edge = await stage.startEdgeHere({ env, sessionMs });
  const opened = await openPage(stage.browser);
  const { page, expect, close } = opened;
  expect(UNAUTHORIZED);
  // A simulated node runs no container that could print anything.
  expect(/status of 5\d\d|ERR_INCOMPLETE_CHUNKED_ENCODING/);
  await page.goto(`${edge.url}/dashboard/instances/${instance}`);
  await logIn(page);
  const field = page.getByRole("textbox", { name: "Command" });
  // What is typed goes to where the focus is: to the login, where the session ends in the middle.
  const typed = await field.fill("echo kept", { timeout: sessionMs }).then(
    () => field.inputValue(),
    () => "",
  );
  if (typed !== "") return { ...opened, field };
  await close();
  return undefined;
}

test("a session that ends asks for the key over what was being typed, and goes on from there", async () => {
  // The longer one is for a machine that is busy.
  const typed = (await typing(6000)) ?? (await typing(50_000));
  assert.ok(typed);
  const { page, field, close } = typed;
  await page.evaluate("window.isSame = true");
  await page.getByLabel("API key").waitFor();
  // The socket ended with the session.
  await page.getByText("Disconnected.").waitFor();
  await logIn(page);
  await page.getByLabel("API key").waitFor({ state: "detached" });
  await page.getByText("live").waitFor();
  assert.is(await field.inputValue(), "echo kept");
  assert.is(await page.evaluate("window.isSame"), true);
  await close();
});

test("a container's HTML that a hook answers runs nothing where a session is, whoever sends the browser there", async () => {
  const webhooks = createWebhookPaths();
  const script = `<!doctype html><title>before</title><p>shown</p><script>
    document.title = "pwned"; fetch("/api/v1/secret").catch(() => undefined)</script>`;
  const html = () => new Response(script, { headers: { "content-type": "text/html" } });
  webhooks.register("/hooks/a", async () => html());
  let reads = 0;
  const secret = () => {
    reads += 1;
    return Response.json({});
  };
  const sessions = createSessions({ apiKey: KEY, origins: new Set() });
  const handler = createHandler({
    routes: [
      { method: "GET", path: "/api/v1/secret", handle: secret },
      { method: "GET", path: "/plain", public: true, handle: html },
      { method: "GET", path: "/empty", public: true, handle: () => new Response("") },
    ],
    ...{ authenticate: createApiKeyCheck(createFindActor(KEY), sessions), webhooks, log: silentLog, instance: "test" },
  });
  const server = await serveNode({ handler, listen: { hostname: "127.0.0.1", port: 0 }, log: silentLog });
  const context = await stage.browser.newContext();
  const { cookie } = await sessions.issue(new Request(server.url), root);
  const [name = "", value = ""] = cookie.split(";")[0]?.split("=") ?? [];
  await context.addCookies([{ name, value, url: server.url, httpOnly: true, sameSite: "Strict" }]);
  const page = await context.newPage();
  // What it does where nothing keeps it from it.
  await Promise.all([page.waitForResponse(`${server.url}/api/v1/secret`), page.goto(`${server.url}/plain`)]);
  assert.is(await page.title(), "pwned");
  assert.is(reads, 1);
  for (const from of [`http://127.0.0.1:${(attacker.address() as AddressInfo).port}/`, `${server.url}/empty`]) {
    await page.goto(from);
    await page.evaluate(
      `{ const form = Object.assign(document.createElement("form"), { action: "${server.url}/hooks/a", method: "post" });
        document.body.append(form); form.submit(); }`,
    );
    await page.getByText("shown").waitFor();
    await page.waitForURL(`${server.url}/hooks/a`);
    assert.is(await page.title(), "before");
  }
  assert.is(reads, 1);
  await context.close();
  await server.stop({ graceMs: 0 });
});

test.run();
