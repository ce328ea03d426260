// @own-cluster
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { WebSocketServer } from "ws";
import { claims } from "../../crds/kinds.ts";
import { eventually } from "../eventually.ts";
import { startDoor, type TestDoor } from "../unit/proxy/front-door.ts";
import { closeAfter, closeAll } from "../unit/proxy/start-proxy.ts";
import { launchBrowser } from "./browser.ts";

const test = suite("the front door in a browser");

let browser: Browser;
let context: BrowserContext;
let page: Page;
let door: TestDoor;

test.before(async () => {
  browser = await launchBrowser();
});
test.before.each(async () => {
  context = await browser.newContext();
  page = await context.newPage();
  door = await startDoor({ config: { domain: { name: "localhost", port: undefined } } });
});
test.after.each(async () => {
  await context.close();
  await closeAll();
});
test.after(() => browser?.close());

interface Program {
  readonly seen: IncomingMessage[];
  readonly port: number;
}

/** A tenant's program: a page whose title says what it could do, and a WebSocket that echoes. */
async function startProgram(name: string): Promise<Program> {
  const seen: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    seen.push(request);
    response.setHeader("content-type", "text/html");
    response.setHeader("set-cookie", [`own=${name}; HttpOnly`, "wide=1; Domain=localhost"]);
    response.end(`<!doctype html><title>${name}</title><script>document.title += " ran";
const socket = new WebSocket(location.origin.replace("http", "ws") + "/ws");
socket.onopen = () => socket.send("echo");
socket.onmessage = ({ data }) => { document.title += " " + data; };</script>`);
  });
  const sockets = new WebSocketServer({ server });
  sockets.on("connection", (socket, request) => {
    seen.push(request);
    socket.on("message", (data) => socket.send(String(data)));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  closeAfter(async () => {
    for (const client of sockets.clients) client.terminate();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { seen, port: (server.address() as AddressInfo).port };
}

function activate(tenantId: string, workloadRef: string, { port }: Program): void {
  const instanceId = `inst-${tenantId}-${workloadRef}`;
  const status = { phase: "Active", instanceId, endpoint: { host: "127.0.0.1", port } } as const;
  const name = `claim-${tenantId}-${workloadRef}`;
  if (door.cluster.has(claims, name)) door.cluster.setStatus(name, status);
  else door.cluster.addClaim({ tenantId, workloadRef, status });
}

const originOf = (tenant: string, workload = "notes") => `http://${workload}--${tenant}.localhost:${door.proxy.port}`;

function linkTo(tenant: string): string {
  const grant = { tenantId: tenant, workload: "notes", expiresAt: Math.floor(Date.now() / 1000) + 600 };
  return `${originOf(tenant)}/page?a=1&tenancy-token=${door.tokens.sign("link", grant)}`;
}

async function titled(title: string): Promise<void> {
  // A page that goes on by itself has no title for a moment, and lets nothing be evaluated.
  await eventually(async () => (await page.title().catch(() => "")) === title);
}

/** What a page of another tenant would try. */
function hostile(origin: string): string {
  return `(async () => {
    document.cookie = "tenancy-link=forged; Domain=localhost";
    const opened = new Promise((resolve) => {
      const socket = new WebSocket("${origin.replace("http", "ws")}/ws");
      socket.onopen = () => resolve("open");
      socket.onerror = () => resolve("refused");
    });
    const loaded = (tag, path) => new Promise((resolve) => {
      const element = document.createElement(tag);
      element.onload = () => resolve("loaded");
      element.onerror = () => resolve("refused");
      element.src = "${origin}" + path;
      document.body.append(element);
    });
    const with_ = { credentials: "include", mode: "no-cors" };
    const sent = navigator.sendBeacon("${origin}/beacon", "x");
    await Promise.allSettled([
      loaded("iframe", "/frame"),
      fetch("${origin}/fetched", with_),
      fetch("${origin}/posted", { ...with_, method: "POST", body: "x" }),
    ]);
    return { socket: await opened, image: await loaded("img", "/i"), script: await loaded("script", "/s"), sent };
  })()`;
}

test("a link opens the page, whose token leaves the address, and whose WebSocket works by the cookie", async () => {
  door.addWorkload("notes", "link");
  const alice = await startProgram("alice");
  activate("alice", "notes", alice);
  await page.goto(linkTo("alice"));
  await titled("alice ran echo");
  assert.is(page.url(), `${originOf("alice")}/page?a=1`);
  assert.is(await page.evaluate("document.cookie"), "wide=1");
  const cookies = await context.cookies();
  assert.equal(cookies.map(({ name, domain, httpOnly }) => `${name} ${domain} ${httpOnly}`).sort(), [
    "own notes--alice.localhost true",
    "tenancy-link notes--alice.localhost true",
    "wide notes--alice.localhost false",
  ]);
  await page.reload();
  await titled("alice ran echo");
  for (const { url, headers } of alice.seen) {
    assert.not.match(url ?? "", "token");
    assert.not.match(JSON.stringify(headers), "tenancy-link");
  }
});

test("another tenant's page reaches nothing with this one's cookie", async () => {
  door.addWorkload("notes", "link");
  const [alice, bob] = [await startProgram("alice"), await startProgram("bob")];
  activate("alice", "notes", alice);
  activate("bob", "notes", bob);
  await page.goto(linkTo("alice"));
  await titled("alice ran echo");
  await page.goto(linkTo("bob"));
  await titled("bob ran echo");
  const before = alice.seen.length;
  const target = originOf("alice");
  const outcomes = await page.evaluate(hostile(target));
  assert.equal(outcomes, { socket: "refused", image: "refused", script: "refused", sent: true });
  await eventually(() => door.accessed.filter(({ status }) => status === 404).length >= 7);
  assert.is(alice.seen.length, before);
  // A link that a person follows is no attack, and what the other page has set does not lock anybody out.
  await page.evaluate(`location.assign("${target}/followed")`);
  await titled("alice ran echo");
});

test("an instance that sleeps: a page that goes on by itself", async () => {
  door.addWorkload("notes", "public");
  const alice = await startProgram("alice");
  door.cluster.addClaim({ tenantId: "alice", workloadRef: "notes", status: { phase: "Pending" } });
  await page.goto(`${originOf("alice")}/page`);
  assert.is(await page.textContent("h1"), "Starting");
  activate("alice", "notes", alice);
  await titled("alice ran echo");
  assert.is(page.url(), `${originOf("alice")}/page`);
});

test("a page by its path runs no script", async () => {
  door.addWorkload("notes", "public");
  const alice = await startProgram("alice");
  activate("alice", "notes", alice);
  await page.goto(`http://localhost:${door.proxy.port}/t/alice/notes/`);
  assert.is(await page.title(), "alice");
  assert.equal(await context.cookies(), []);
});

test.run();
