// @own-cluster
import { once } from "node:events";
import { createServer, request as httpRequest, type IncomingMessage } from "node:http";
import { type AddressInfo, connect } from "node:net";
import type { Page } from "playwright-core";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { claims } from "../../crds/kinds.ts";
import { startTcpProxy } from "../../scripts/cluster/process/tcp-proxy.ts";
import { waitUntil } from "../../scripts/cluster/process/wait-until.ts";
import { NAMESPACE } from "../cluster/tenancy.ts";
import { createWatchGate } from "../cluster/watch-gate.ts";
import { eventually } from "../eventually.ts";
import { CUT, openPage } from "./browser.ts";
import { type Stage, startStage } from "./stage.ts";

const test = suite("browser/live");
let stage: Stage;
/** Ends what a test has started, also one that failed. */
const closing: (() => unknown)[] = [];

test.before(async () => {
  stage = await startStage("browser-live");
  await stage.tenancy.createWorkload("hello");
});
test.after(async () => {
  for (const close of closing) await close();
  await stage?.stop();
});

/** How long a connection is silent before the page asks whether somebody is there. */
const SILENCE_MS = 15_000;

/** Moves the page's clock on, so that it asks, until the answers have made it so. */
async function untilAsked(page: Page, isSo: () => Promise<boolean>): Promise<void> {
  const look = async () => (await isSo()) || page.clock.fastForward(SILENCE_MS).then(() => false);
  await waitUntil(look, { what: String(isSo), limitMs: 60_000, intervalMs: 1000 });
}

/** The list of claims, or its first page. */
const LIST = /\/api\/v1\/claims\?(?!.*after=)/;

test("a connection that swallows everything is found out, and what came meanwhile is shown without a reload", async () => {
  const { tenancy, edge, browser } = stage;
  await tenancy.createClaim("alice", "hello");
  const proxy = await startTcpProxy({ port: Number(new URL(edge.url).port) });
  closing.push(proxy.close);
  const { page, expect, close } = await openPage(browser);
  await page.clock.install();
  await page.goto(`http://127.0.0.1:${proxy.port}/dashboard/claims`);
  await page.getByRole("row", { name: /alice/ }).waitFor();
  // The banner is there for a moment only, since the next connection is let through.
  await page.evaluate(`window.words = new Set();
    new MutationObserver(() => words.add(document.querySelector(".banner").textContent.slice(0, 13)))
      .observe(document.querySelector(".banner"), { subtree: true, childList: true, characterData: true })`);
  // As after a laptop's lid: nobody ends the connection, and nothing comes through.
  proxy.freeze();
  await tenancy.createClaim("bob", "hello");
  await tenancy.release("claim-alice-hello");
  // It asks, and waits so long for the answer.
  for (const ms of [SILENCE_MS, 5000]) await page.clock.fastForward(ms);
  await page.getByRole("row", { name: /bob/ }).waitFor();
  await page.getByRole("row", { name: /alice/ }).waitFor({ state: "detached" });
  await page.getByText("Disconnected.").waitFor({ state: "detached" });
  assert.ok(((await page.evaluate("[...words]")) as string[]).includes("Disconnected."));
  expect(CUT);
  await close();
});

test("an edge that loses the API server says so, and the page with it, until it is back", async () => {
  const { tenancy, edge, browser } = stage;
  await tenancy.createClaim("carol", "hello");
  const { page, expect, close } = await openPage(browser);
  // Every answer of an edge without an API server.
  expect(/status of 503/);
  expect(CUT);
  await page.clock.install();
  await page.goto(`${edge.url}/dashboard/claims`);
  await page.getByRole("row", { name: /carol hello Active/ }).waitFor();
  await tenancy.cluster.apiServer.stop();
  const words = page.getByText("The edge cannot reach the cluster");
  await untilAsked(page, () => words.isVisible());
  assert.is(await page.getByRole("row", { name: /carol/ }).count(), 1);
  await tenancy.cluster.apiServer.start();
  await tenancy.until("the API server takes writes", () =>
    tenancy.createClaim("dave", "hello").then(
      () => true,
      () => false,
    ),
  );
  await page.getByRole("row", { name: /dave hello Active/ }).waitFor();
  await untilAsked(page, async () => !(await words.isVisible()));
  await close();
});

test("two edges, the list from one that is behind: no row of what is gone, and none is missing", async () => {
  const { tenancy, browser } = stage;
  const gate = createWatchGate();
  await tenancy.createClaim("early", "hello");
  const [lister, teller] = await Promise.all([
    stage.startEdgeHere({ client: gate.wrap(tenancy.client) }),
    stage.startEdgeHere({}),
  ]);
  const service = await startBalancer({ requests: lister.url, sockets: teller.url });
  closing.push(service.close);
  gate.hold("tenancyclaims");
  await tenancy.release("claim-early-hello");
  await tenancy.createClaim("later", "hello");
  await eventually(async () => {
    const text = await (await fetch(`${teller.url}/api/v1/tenants`)).text();
    return text.includes("later") && !text.includes("early");
  });
  const { page, close } = await openPage(browser);
  let lists = 0;
  page.on("response", (response) => {
    if (LIST.test(response.url())) lists += 1;
  });
  await page.goto(`${service.url}/dashboard/claims`);
  // The list of the edge that is behind is read and not taken.
  await eventually(() => lists >= 3);
  assert.is(await page.getByRole("row", { name: /early/ }).count(), 0);
  gate.letGo();
  await page.getByRole("row", { name: /later/ }).waitFor();
  assert.is(await page.getByRole("row", { name: /early/ }).count(), 0);
  const shown = await page.getByRole("grid", { name: "Claims" }).getAttribute("aria-rowcount");
  const { items } = await tenancy.client.list(claims, { namespace: NAMESPACE });
  assert.is(Number(shown), items.length + 1);
  await close();
});

/** One address in front of two edges, as a Service is: requests go to one of them, WebSockets to the other. */
async function startBalancer(to: { requests: string; sockets: string }): Promise<{ url: string; close(): void }> {
  const server = createServer((incoming, outgoing) => {
    const { method, url, headers } = incoming;
    const passed = httpRequest(new URL(url ?? "/", to.requests), { method, headers }, (answer: IncomingMessage) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(outgoing);
    });
    passed.on("error", () => outgoing.destroy());
    incoming.pipe(passed);
  });
  server.on("upgrade", ({ method, url, rawHeaders }, socket) => {
    const outer = connect(Number(new URL(to.sockets).port), "127.0.0.1");
    const headers = Array.from({ length: rawHeaders.length / 2 }, (_, at) => rawHeaders.slice(2 * at, 2 * at + 2));
    outer.write(`${method} ${url} HTTP/1.1\r\n${headers.map((pair) => pair.join(": ")).join("\r\n")}\r\n\r\n`);
    for (const [from, into] of [
      [socket, outer],
      [outer, socket],
    ] as const) {
      from.pipe(into);
      from.on("error", () => into.destroy());
      from.on("close", () => into.destroy());
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

test.run();
