// @runtimes bun node
// What strangers, tenants' programs and guards send to stop an edge. It has to answer others within 100 ms.
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { systemClock } from "../../../crds/client/clock.ts";
import type { Trigger, TriggerGuard } from "../../../crds/trigger.ts";
import { chooseServe } from "../../../edge/edge.ts";
import type { AdapterContext, Outcome } from "../../../edge/gateway/adapter.ts";
import { createDeliveryLog } from "../../../edge/gateway/delivery-log.ts";
import { driverFor } from "../../../edge/gateway/drivers/driver-for.ts";
import { guardFor } from "../../../edge/gateway/guards.ts";
import { createMessengerClient, MessengerError } from "../../../edge/gateway/messenger/messenger-client.ts";
import { createDeliveries } from "../../../edge/gateway/webhook/deliveries.ts";
import { createWebhookStart } from "../../../edge/gateway/webhook/start-webhook.ts";
import { createUnverifiedBodies } from "../../../edge/gateway/webhook/unverified-bodies.ts";
import { createWebhookPaths } from "../../../edge/gateway/webhook/webhook-paths.ts";
import { createHandler } from "../../../edge/http/handler.ts";
import { testEdge } from "../edge/test-edge.ts";
import { type AgentEnd, startAgentServer } from "../gateway-drivers/agent-server.ts";
import { greet, hearRequest } from "../gateway-drivers/control-agent.ts";
import { callTo, failureOf, payload } from "../gateway-drivers/driver-call.ts";
import { httpAnswer, startWireServer } from "../gateway-drivers/wire-server.ts";
import { MAX_LAG_MS, watchLoop } from "../loop-lag.ts";
import { silentLog } from "../silent-log.ts";

const test = suite("JSON that is meant to stop an edge");
const arrays = `${"[".repeat(40_000)}${"]".repeat(40_000)}`;
const objects = `${'{"a":'.repeat(40_000)}1${"}".repeat(40_000)}`;
const TOO_DEEP = "is nested more than 64 levels deep";

async function watched<T>(run: () => Promise<T>): Promise<T> {
  const end = watchLoop();
  const result = await run();
  const ms = end();
  assert.ok(ms < MAX_LAG_MS, `the event loop did not turn for ${ms.toFixed(0)} ms`);
  return result;
}

/** An unsigned webhook on a real server of this runtime, whose deliveries go to a container. */
async function startWebhook() {
  const container = await startWireServer(({ socket }) => socket.end(httpAnswer(200, "taken")));
  const drive = driverFor({}, { clock: systemClock });
  const paths = createWebhookPaths();
  const stop = new AbortController();
  const start = createWebhookStart({
    deliveryLog: createDeliveryLog(),
    paths,
    deliveries: createDeliveries({ clock: systemClock }),
    bodies: createUnverifiedBodies({ clock: systemClock }),
    metrics: { count: () => undefined },
    localOnly: false,
    maxOpen: 16,
    maxOpenInAll: 16,
    hardStop: stop.signal,
  });
  const trigger: Trigger = {
    metadata: { name: "open", uid: "open" },
    spec: { type: "webhook", workloadRef: "app", tenant: { from: "tenant" }, config: { path: "/hooks/open" } },
  };
  const context: Partial<AdapterContext> = {
    trigger,
    clock: systemClock,
    log: silentLog,
    signal: stop.signal,
    report: () => undefined,
    async run({ data }): Promise<Outcome> {
      const reply = await drive({ ...callTo(container.port), payload: { ...payload, data } });
      return { kind: "answered", reply };
    },
  };
  await start(context as AdapterContext);
  const handler = createHandler({ routes: [], webhooks: paths, log: silentLog, instance: "test" });
  const serve = await chooseServe();
  const server = await serve({ handler, listen: { hostname: "127.0.0.1", port: 0 }, log: silentLog });
  return {
    async post(body: string, type = "application/json"): Promise<[status: number, text: string]> {
      const headers = { "content-type": type };
      const response = await fetch(`${server.url}/hooks/open`, { method: "POST", headers, body });
      return [response.status, await response.text()];
    },
    async end() {
      stop.abort();
      await server.stop({ graceMs: 0 });
      await container.close();
    },
  };
}

test("deep deliveries to a webhook without a secret are refused, and say why", async () => {
  const webhook = await startWebhook();
  try {
    assert.equal(await webhook.post('{"tenant":"a"}'), [200, "taken"]);
    for (const body of [arrays, objects]) {
      const answers = await watched(() => Promise.all(Array.from({ length: 4 }, () => webhook.post(body))));
      for (const [status, text] of answers) {
        assert.is(status, 400);
        assert.equal(JSON.parse(text), { error: `body: ${TOO_DEEP}` });
      }
    }
    const form = new URLSearchParams({ payload: arrays }).toString();
    const [status, text] = await watched(() => webhook.post(form, "application/x-www-form-urlencoded"));
    assert.equal([status, JSON.parse(text)], [400, { error: `body.payload: ${TOO_DEEP}` }]);
  } finally {
    await webhook.end();
  }
});

test("deliveries of many values are refused, and those of as many as may be do not hold others up", async () => {
  const webhook = await startWebhook();
  try {
    const many = `[${"[],".repeat(60_000)}0]`;
    const answers = await watched(() => Promise.all(Array.from({ length: 4 }, () => webhook.post(many))));
    for (const [status, text] of answers)
      assert.equal([status, JSON.parse(text)], [413, { error: "body: holds more than 50000 values" }]);
    const most = `{"tenant":"a","deep":[${Array(700)
      .fill(`${"[".repeat(60)}${"]".repeat(60)}`)
      .join(",")}]}`;
    for (let count = 0; count < 4; count += 1) assert.is((await watched(() => webhook.post(most)))[0], 200);
    const fields = "a&".repeat(500_000);
    const [status] = await watched(() => webhook.post(fields, "application/x-www-form-urlencoded"));
    assert.is(status, 400);
  } finally {
    await webhook.end();
  }
});

test("a deep body of the API is refused, and says why", async () => {
  const edge = testEdge();
  for (const [body, status, error] of [
    [`{"workload":${arrays}}`, 400, `body: ${TOO_DEEP}`],
    [`{"workload":[${"0,".repeat(60_000)}0]}`, 413, "body: holds more than 50000 values"],
  ] as const) {
    const answer = await watched(() => edge.call("POST /api/v1/tenants/a/claim", { body }));
    assert.equal([answer.status, answer.error], [status, error]);
  }
});

for (const [driver, reachPrompt] of [
  ["driver-a", bridge],
  ["driver-b", control],
] as const) {
  for (const [what, frame] of Object.entries({
    "of a deep type": `{"type":${arrays}}`,
    "of a deep part": `{"type":"output","text":"x","more":${objects}}`,
  })) {
    test(`${driver}: a message ${what} ends the conversation, and says why`, async () => {
      const server = await startAgentServer(async (agent) => {
        await reachPrompt(agent);
        agent.say(frame);
      });
      try {
        const call = { ...callTo(server.port), payload: { ...payload, text: "hello" } };
        const failure = await watched(() => failureOf(driverFor({ driver }, { clock: systemClock })(call)));
        assert.match(failure.message, new RegExp(`the container sent a message that ${TOO_DEEP}`));
      } finally {
        await server.close();
      }
    });
  }
}

async function bridge(agent: AgentEnd): Promise<void> {
  await agent.hear();
  agent.say({ type: "ready" });
  await agent.hear();
}

async function control(agent: AgentEnd): Promise<void> {
  await greet(agent);
  await hearRequest(agent);
}

test("a deep answer of a guard denies", async () => {
  const server = await startWireServer(({ socket }) =>
    socket.end(httpAnswer(200, `{"ok":true,"more":${"[".repeat(30_000)}${"]".repeat(30_000)}}`)),
  );
  try {
    const guard: TriggerGuard = { type: "api", config: { url: `${server.url}/` } };
    const ask = guardFor(guard, { clock: systemClock, log: silentLog, readSecret: async () => "" });
    const verdict = await watched(() => ask(payload, { signal: new AbortController().signal }));
    assert.is(verdict.allowed, false);
  } finally {
    await server.close();
  }
});

test("a deep answer of a messaging server is an error that says why", async () => {
  const text = `{"ok":true,"result":[${objects}]}`;
  const fetch = async () => ({ status: 200, text: async () => text });
  const client = createMessengerClient({ token: "1:t", apiBaseUrl: "http://bots.test", clock: systemClock, fetch });
  const asked = { offset: 0, limit: 100, timeoutSeconds: 0, allowedUpdates: [] };
  const error = await watched(() =>
    client.getUpdates(asked, new AbortController().signal).then(
      () => undefined,
      (reason: unknown) => reason,
    ),
  );
  assert.instance(error, MessengerError);
  assert.match(String(error), `getUpdates: the answer ${TOO_DEEP}`);
});

test.run();
