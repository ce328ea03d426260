// @runtimes bun node deno
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Trigger, TriggerSpec } from "../../../crds/trigger.ts";
import type { Deliverer, Delivery } from "../../../edge/api/deliveries.ts";
import type { IncomingEvent, Outcome, RunOptions } from "../../../edge/gateway/adapter.ts";
import { testEdge } from "./test-edge.ts";

const test = suite("deliveries");
const PATH = "/api/v1/triggers/hook";
const delivery: Delivery = { id: "hook-1", at: "2026-01-01T00:00:00.000Z", result: "answered", ms: 3, status: 200 };

/** A gateway of one trigger. */
function gatewayOf(
  options: {
    spec?: Partial<TriggerSpec>;
    detail?: string;
    isReady?: boolean;
    run?: (event: IncomingEvent, options: RunOptions) => Promise<Outcome>;
  } = {},
) {
  const trigger: Trigger = {
    metadata: { name: "hook", uid: "u" },
    spec: { type: "webhook", workloadRef: "app", tenant: { static: "a" }, config: {}, ...options.spec },
    ...(options.detail !== undefined && { status: { phase: "Error", detail: options.detail } }),
  };
  const events: IncomingEvent[] = [];
  const stopped = new AbortController();
  const { run } = options;
  const gateway: Deliverer = {
    isReady: () => options.isReady ?? true,
    find: (name) => (name === "hook" ? trigger : undefined),
    deliveriesOf: () => [delivery],
    runnerOf: () =>
      run && {
        signal: stopped.signal,
        run(event, how) {
          events.push(event);
          return run(event, how);
        },
      },
  };
  return { edge: testEdge({ gateway }), events, stopped };
}

const answers =
  (text: string): NonNullable<NonNullable<Parameters<typeof gatewayOf>[0]>["run"]> =>
  async ({ id, test: isTest }, { onEnded }) => {
    onEnded?.({ ...delivery, id, test: isTest });
    const body = new TextEncoder().encode(text);
    return { kind: "answered", reply: { status: 200, contentType: "text/html", body, text } };
  };

test("they are shown by the gateway alone, for triggers that it knows", async () => {
  const { edge } = gatewayOf();
  assert.equal((await edge.call(`GET ${PATH}/deliveries`)).json, {
    replica: "test",
    since: "2026-01-01T00:00:00.000Z",
    deliveries: [delivery],
  });
  assert.is((await edge.call("GET /api/v1/triggers/none/deliveries")).status, 404);
  assert.is((await edge.call("GET /api/v1/triggers/A/deliveries")).status, 400);
  const starting = await gatewayOf({ isReady: false }).edge.call(`GET ${PATH}/deliveries`);
  assert.equal([starting.status, starting.headers.get("retry-after")], [503, "1"]);
  for (const target of [`GET ${PATH}/deliveries`, `POST ${PATH}/test`]) {
    const answer = await testEdge().call(target, { body: target.startsWith("POST") ? {} : undefined });
    assert.is(answer.status, 404);
    assert.match(answer.error ?? "", "TENANCY_EDGE_ROLES");
  }
});

test("a test event is the caller's; a cron trigger's own payload goes without one", async () => {
  const { edge, events } = gatewayOf({ run: answers("hi") });
  const answer = await edge.call(`POST ${PATH}/test`, { body: { data: { a: 1 }, fields: { who: "b" }, text: "t" } });
  assert.equal(answer.json, {
    ...delivery,
    id: "hook-test-attempt-1",
    test: true,
    contentType: "text/html",
    body: "hi",
  });
  const { receivedAt, ...event } = events[0] ?? { receivedAt: "" };
  assert.equal(event, { id: "hook-test-attempt-1", data: { a: 1 }, fields: { who: "b" }, text: "t", test: true });
  assert.not.ok(Number.isNaN(Date.parse(receivedAt)));
  await edge.call(`POST ${PATH}/test`, { body: { data: { who: "c" } } });
  assert.equal([events[1]?.data, events[1]?.fields], [{ who: "c" }, { who: "c" }]);
  const cron = gatewayOf({ run: answers(""), spec: { type: "cron", config: { payload: { tick: 1 } } } });
  await cron.edge.call(`POST ${PATH}/test`, { body: {} });
  assert.equal(cron.events[0]?.data, { tick: 1 });
  assert.is((await edge.call(`POST ${PATH}/test`, { body: { text: 1 } })).status, 400);
});

test("of a long answer the start is shown, and what is no text harms nothing", async () => {
  const long = await gatewayOf({ run: answers("ä".repeat(40_000)) }).edge.call(`POST ${PATH}/test`, { body: {} });
  const { body, truncated } = long.json as { body: string; truncated?: boolean };
  assert.equal([body.length, truncated], [32_768, true]);
  const { edge } = gatewayOf({
    async run(_, { onEnded }) {
      onEnded?.(delivery);
      return { kind: "answered", reply: { status: 200, contentType: "x/y", body: Uint8Array.of(0xff, 0), text: "" } };
    },
  });
  assert.is(((await edge.call(`POST ${PATH}/test`, { body: {} })).json as { body: string }).body, "\ufffd\0");
});

test("an event that was not answered is a success of the call, with what its source would have been told", async () => {
  const { edge } = gatewayOf({
    async run(_, { onEnded }) {
      onEnded?.({ ...delivery, result: "denied", status: 403, reason: "a guard denied it" });
      return { kind: "denied", message: "members only" };
    },
  });
  const { status, json } = await edge.call(`POST ${PATH}/test`, { body: {} });
  assert.is(status, 200);
  assert.equal(json, {
    ...delivery,
    result: "denied",
    status: 403,
    reason: "a guard denied it",
    message: "members only",
  });
});

test("one whose caller leaves, or whose trigger stops, is broken off", async () => {
  const aborts: NonNullable<Parameters<typeof gatewayOf>[0]>["run"] = (_, { signal, onEnded }) =>
    new Promise((__, reject) => {
      const end = () => {
        onEnded?.({ ...delivery, result: "aborted" });
        reject(signal.reason);
      };
      if (signal.aborted) end();
      signal.addEventListener("abort", end);
    });
  const { edge, stopped, events } = gatewayOf({ run: aborts });
  const gone = new AbortController();
  const left = edge.call(`POST ${PATH}/test`, { body: {}, signal: gone.signal });
  while (events.length === 0) await new Promise((resolve) => setImmediate(resolve));
  gone.abort(new Error("left"));
  assert.is((await left).status, 499);
  const kept = edge.call(`POST ${PATH}/test`, { body: {} });
  stopped.abort(new Error("edited"));
  const answer = await kept;
  assert.equal([answer.status, answer.headers.get("retry-after")], [503, "1"]);
  const dead = await gatewayOf({ detail: "spec.config.secretRef: missing" }).edge.call(`POST ${PATH}/test`, {
    body: {},
  });
  assert.is(dead.status, 409);
  assert.match(dead.error ?? "", "is not served now: spec.config.secretRef: missing");
  assert.equal(
    edge.log.filter(({ level }) => level === "error"),
    [],
  );
});

test.run();
