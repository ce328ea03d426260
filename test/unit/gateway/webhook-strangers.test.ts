// @runtimes bun node
import { sign } from "@octokit/webhooks-methods";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Trigger } from "../../../crds/trigger.ts";
import { chooseServe } from "../../../edge/edge.ts";
import type { AdapterContext, Outcome } from "../../../edge/gateway/adapter.ts";
import { createDeliveryLog } from "../../../edge/gateway/delivery-log.ts";
import { createDeliveries } from "../../../edge/gateway/webhook/deliveries.ts";
import { createWebhookStart } from "../../../edge/gateway/webhook/start-webhook.ts";
import { createUnverifiedBodies } from "../../../edge/gateway/webhook/unverified-bodies.ts";
import { createWebhookPaths } from "../../../edge/gateway/webhook/webhook-paths.ts";
import { createHandler } from "../../../edge/http/handler.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { openWire, type Wire } from "../edge/open-wire.ts";
import { failOnLag } from "../loop-lag.ts";
import { manualClock } from "../manual-clock.ts";
import { silentLog } from "../silent-log.ts";
import { createRecorder } from "../tracing/recorder.ts";

// Not on Deno: after an answer that came before the end of a request's body its server does not let the process end.
const test = suite("strangers at a webhook");
failOnLag(test);
const SECRET = "the webhook's own";
const BODY = JSON.stringify({ tenant: "a" });
const FORGED = `sha256=${"0".repeat(64)}`;
const KIB = 1024;

/**
 * Two signed webhooks and an unsigned one on a real server of this runtime, with room for 16 bodies of strangers and 4
 * deliveries.
 */
async function testEnvironment() {
  const clock = manualClock();
  const bodies = createUnverifiedBodies({ clock, maxBytes: 16 * 64 * KIB });
  const paths = createWebhookPaths();
  const stop = new AbortController();
  const counts: string[] = [];
  const deliveryLog = createDeliveryLog();
  const { tracer, spans } = createRecorder();
  const start = createWebhookStart({
    deliveryLog,
    tracer,
    paths,
    deliveries: createDeliveries({ clock }),
    bodies,
    metrics: { count: (source, result) => void counts.push(`${source} ${result}`) },
    localOnly: false,
    maxOpen: 4,
    maxOpenInAll: 8,
    hardStop: new AbortController().signal,
  });
  const held: (() => void)[] = [];
  const on = { clock, bodies, counts, deliveryLog, spans, held, slow: false };
  for (const name of ["a", "b", "open"]) {
    const config = { path: `/hooks/${name}`, ...(name !== "open" && { secretRef: { name: "hook", key: "secret" } }) };
    const trigger: Trigger = {
      metadata: { name, uid: name },
      spec: { type: "webhook", workloadRef: "app", tenant: { from: "tenant" }, config },
    };
    const answered: Outcome = {
      kind: "answered",
      reply: { status: 200, contentType: "text/plain", body: new TextEncoder().encode("taken"), text: "taken" },
    };
    const context: Partial<AdapterContext> = {
      trigger,
      clock,
      log: silentLog,
      signal: stop.signal,
      readSecret: async () => SECRET,
      report: () => undefined,
      async run() {
        if (on.slow) await new Promise<void>((resolve) => held.push(resolve));
        return answered;
      },
    };
    await start(context as AdapterContext);
  }
  const handler = createHandler({ routes: [], webhooks: paths, log: silentLog, instance: "test" });
  const serve = await chooseServe();
  const server = await serve({ handler, listen: { hostname: "127.0.0.1", port: 0 }, log: silentLog });
  const wires: Wire[] = [];
  return Object.assign(on, {
    /** Sends the head of a delivery, and as much of its body as given, and then nothing. */
    dawdle(path: string, { declared = 1000, body = "", signature = FORGED } = {}): Wire {
      const head = `POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nx-hub-signature-256: ${signature}`;
      const wire = openWire(server.url, `${head}\r\ncontent-length: ${declared}\r\n\r\n${body}`);
      wires.push(wire);
      return wire;
    },
    async deliver(path: string, secret: string = SECRET, more: Record<string, string> = {}): Promise<number> {
      const headers = {
        ...more,
        "content-type": "application/json",
        "x-hub-signature-256": await sign(secret, BODY),
      };
      const response = await fetch(`${server.url}${path}`, { method: "POST", headers, body: BODY });
      await response.text();
      return response.status;
    },
    until: (what: string, check: () => boolean) => waitUntil(check, { what, limitMs: 60_000, intervalMs: 5 }),
    async end() {
      for (const { socket } of wires) socket.destroy();
      for (const release of held) release();
      await clock.pass(10_000);
      stop.abort();
      await server.stop({ graceMs: 0 });
    },
  });
}

let on: Awaited<ReturnType<typeof testEnvironment>>;
test.before.each(async () => {
  on = await testEnvironment();
});
test.after.each(() => on.end());

test("however many unsigned deliveries dawdle, on one webhook or on all, a signed one gets through", async () => {
  for (const path of ["/hooks/a", "/hooks/b"]) {
    const wires = Array.from({ length: 60 }, () => on.dawdle(path));
    await on.until("as many bodies as may be are read", () => on.bodies.reading === 16);
    await on.until("the others are dropped", () => on.counts.length >= 44);
    for (const signed of ["/hooks/a", "/hooks/b"]) assert.is(await on.deliver(signed), 200, `${path}, ${signed}`);
    const [first] = wires;
    await first?.seen("too many others");
    assert.match(first?.received() ?? "", /^HTTP\/1\.1 503 [\s\S]*retry-after: 5/i);
    on.counts.length = 0;
  }
});

test("strangers of one webhook do not drop what another webhook's sender sends slowly", async () => {
  const honest = on.dawdle("/hooks/b", { signature: await sign(SECRET, BODY), declared: BODY.length });
  await on.until("the honest one is read", () => on.bodies.reading === 1);
  for (let count = 0; count < 40; count += 1) on.dawdle("/hooks/a");
  await on.until("strangers are dropped", () => on.counts.length >= 25);
  honest.socket.write(BODY);
  await honest.seen("taken");
});

test("what strangers have sent is bounded too, and the oldest goes first", async () => {
  const large = { declared: 1000 * KIB, body: "x".repeat(500 * KIB) };
  const wires = [on.dawdle("/hooks/a", large), on.dawdle("/hooks/a", large)];
  await on.until("one of them is dropped", () => on.counts.length === 1);
  assert.is(on.bodies.reading, 1);
  assert.is(await on.deliver("/hooks/a"), 200);
  await Promise.race(wires.map((wire) => wire.seen("too many others")));
});

test("a body that is not whole after 10 s is a 408, however it trickles", async () => {
  const wire = on.dawdle("/hooks/a");
  await on.until("it is read", () => on.bodies.reading === 1);
  await on.clock.pass(9_999);
  wire.socket.write("x");
  assert.is(on.bodies.reading, 1);
  await on.clock.pass(1);
  await wire.seen("did not arrive completely within 10 s");
  assert.match(wire.received(), /^HTTP\/1\.1 408 /);
  assert.is(on.bodies.reading, 0);
  await wire.closed;
  assert.is(on.clock.pending(), 0);
});

test("a place is taken by a delivery that may be run, and by no other", async () => {
  on.slow = true;
  for (const path of ["/hooks/a", "/hooks/open"]) {
    for (let count = 0; count < 8; count += 1) on.dawdle(path);
    await on.until("strangers are read", () => on.bodies.reading >= 8);
    for (let count = 0; count < 10; count += 1) assert.is(await on.deliver("/hooks/a", "forged"), 401);
    const signed = Array.from({ length: 4 }, () => on.deliver(path));
    await on.until("four run", () => on.held.length === 4);
    assert.is(await on.deliver(path), 503, "there are four places");
    for (const release of on.held.splice(0)) release();
    assert.equal(await Promise.all(signed), [200, 200, 200, 200]);
  }
});

test("who signs chooses the trace of a delivery, and what a stranger sends leaves no span or one of another trace", async () => {
  const traceId = "4bf92f3577b34da6a3ce929d0e0e4736";
  const header = { traceparent: `00-${traceId}-00f067aa0ba902b7-01` };
  assert.is(await on.deliver("/hooks/a", "forged", header), 401);
  assert.equal(on.spans, []);
  assert.is(await on.deliver("/hooks/a", SECRET, header), 200);
  assert.is(await on.deliver("/hooks/open", "forged", header), 200);
  assert.equal(
    on.spans.map(({ name, context, parentSpanId }) => [name, context.traceId === traceId, parentSpanId]),
    [
      ["POST", true, "00f067aa0ba902b7"],
      ["POST", false, undefined],
    ],
  );
  assert.not.match(JSON.stringify(on.spans), "/hooks");
});

test.run();
