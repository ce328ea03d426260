// @long waits for minutes of the clock; unit/gateway/cron-replicas proves that each occurrence runs once
// @waits
import type { ServerResponse } from "node:http";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { triggers } from "../../../crds/kinds.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { type EdgeProcess, type runtimes, startReadyEdge } from "../../unit/edge/edge-process.ts";
import { NAMESPACE } from "../tenancy.ts";
import { type GatewayEnvironment, startGatewayEnvironment } from "./gateway-environment.ts";

const test = suite("cron on a real API server");
let environment: GatewayEnvironment;
const running = new Map<EdgeProcess, string>();

/** Starts an edge; its instance is the beginning of its request ids. */
async function startEdge(runtime: keyof typeof runtimes): Promise<EdgeProcess> {
  const edge = await startReadyEdge(runtime, {
    KUBECONFIG: environment.tenancy.cluster.kubeconfigPath,
    TENANCY_LEASE_SECONDS: "10",
  });
  const id = (await fetch(`${edge.url}/api/v1/health`)).headers.get("x-request-id");
  running.set(edge, id?.split("-")[0] ?? "");
  return edge;
}

async function kill(edge: EdgeProcess, signal: "SIGTERM" | "SIGKILL"): Promise<number | string> {
  running.delete(edge);
  edge.child.kill(signal);
  return edge.exited;
}

interface State {
  last?: string;
  running: Record<string, { by: string; beat: string }>;
}

async function stateOf(name: string): Promise<State> {
  return (await environment.statusOf(name)).state as unknown as State;
}

/** Waits for longer than a condition does elsewhere: an occurrence is up to a minute away. */
async function eventually<T>(what: string, find: () => T | undefined | false): Promise<T> {
  return waitUntil(find, { what, limitMs: 180_000, intervalMs: 20 });
}

const held: { id: string; response: ServerResponse }[] = [];

test.before(async () => {
  environment = await startGatewayEnvironment("gateway-cron");
  environment.container.onPayload = ({ id, data }, response) => {
    if ((data as { slow?: boolean }).slow) held.push({ id, response });
    else response.end("ticked");
  };
});

test("on two replicas each occurrence is run once; the runner killed in the middle, the other runs it again under the same id", async () => {
  const edges = [await startEdge("bun"), await startEdge("node")];
  await environment.createTrigger("quick", { type: "cron", config: { schedule: "* * * * *", payload: { n: 1 } } });
  await environment.createTrigger("slow", { type: "cron", config: { schedule: "* * * * *", payload: { slow: true } } });
  await environment.untilActive("quick");
  await environment.untilActive("slow");
  const first = await eventually("the slow occurrence runs", () => held[0]);
  const occurrence = first.id.replace("slow-", "");
  assert.match(occurrence, /^\d{4}-\d\d-\d\dT\d\d:\d\d:00\.000Z$/);
  const runner = (await stateOf("slow")).running[occurrence]?.by ?? "";
  const killed = edges.find((edge) => runner.startsWith(running.get(edge) ?? "?"));
  assert.ok(killed, runner);
  const runsOfIt = () => held.filter(({ id }) => id === first.id);
  // It shows life for longer than the lease, so that nobody else takes the occurrence.
  const beat = (await stateOf("slow")).running[occurrence]?.beat;
  await environment.tenancy.until(
    "a sign of life",
    async () => (await stateOf("slow")).running[occurrence]?.beat !== beat,
  );
  assert.is(runsOfIt().length, 1);
  // One that the killed process had not finished would rightly be run again, and the next begins with the minute.
  await environment.tenancy.until("no quick one is under way", async () => {
    const { last, running: underWay } = await stateOf("quick");
    return last !== undefined && Object.keys(underWay ?? {}).length === 0 && new Date().getSeconds() < 50;
  });
  const from = performance.now();
  await kill(killed, "SIGKILL");
  const second = await eventually("the other runs it", () => runsOfIt()[1]);
  console.log(
    `note: a killed occurrence was run again after ${((performance.now() - from) / 1000).toFixed(1)} s, with a lease of 10 s`,
  );
  second.response.end("done");
  await environment.tenancy.until("it is done", async () => (await stateOf("slow")).running[occurrence] === undefined);
  const quick = environment.container.payloads.filter(({ trigger }) => trigger === "quick");
  assert.is(new Set(quick.map(({ id }) => id)).size, quick.length, "no other occurrence was run twice");
  assert.ok(quick.length >= 1);
  assert.equal(quick[0]?.data, { n: 1 });
  assert.is(quick[0]?.source, "cron");
  for (const trigger of ["slow", "quick"]) await environment.deleteTrigger(trigger);
  for (const { response } of held.splice(0)) response.end();
  for (const edge of [...running.keys()]) assert.is(await kill(edge, "SIGTERM"), 0, edge.lines.join("\n"));
});

test("an edge that was away fires the occurrence that it missed, late and once", async () => {
  // Daily, so that no other occurrence comes meanwhile.
  const missed = new Date(Math.floor(Date.now() / 60_000) * 60_000 - 60_000);
  const config = { schedule: `${missed.getUTCMinutes()} ${missed.getUTCHours()} * * *`, catchUpSeconds: 3600 };
  const before = await startEdge("bun");
  await environment.createTrigger("late", { type: "cron", config: { ...config, payload: { n: 2 } } });
  await environment.untilActive("late");
  await kill(before, "SIGTERM");
  // As it is where the trigger was there in the minute before, and the edge was away since.
  const state = { ...(await stateOf("late")), since: new Date(missed.getTime() - 60_000).toISOString() };
  const patch = { type: "merge", subresource: "status", body: { status: { state } } } as const;
  await environment.tenancy.client.patch(triggers, { namespace: NAMESPACE, name: "late" }, patch);
  const edge = await startEdge("deno");
  const payloads = () => environment.container.payloads.filter(({ trigger }) => trigger === "late");
  const [payload] = await eventually("it is fired late", () => payloads().length > 0 && payloads());
  assert.is(payload?.id, `late-${missed.toISOString()}`);
  await environment.tenancy.until("it is noted", async () => {
    const { last, running: underWay } = await stateOf("late");
    return last === missed.toISOString() && Object.keys(underWay ?? {}).length === 0;
  });
  await kill(edge, "SIGTERM");
  const again = await startEdge("bun");
  await environment.untilActive("late");
  await environment.deleteTrigger("late");
  await kill(again, "SIGTERM");
  const ids = payloads().map(({ id }) => id);
  assert.is(new Set(ids).size, ids.length);
});

test.after(async () => {
  for (const edge of running.keys()) edge.child.kill("SIGKILL");
  await environment?.stop();
});

test.run();
