// @limit 900
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { triggers, workloads } from "../../../crds/kinds.ts";
import { type EdgeProcess, type runtimes, startEdgeProcess, startReadyEdge } from "../../unit/edge/edge-process.ts";
import { NAMESPACE } from "../tenancy.ts";
import { deliver, type GatewayEnvironment, startGatewayEnvironment } from "./gateway-environment.ts";

const test = suite("webhooks that change");
let environment: GatewayEnvironment;
const running = new Set<EdgeProcess>();

async function startEdge(
  runtime: keyof typeof runtimes,
  env: Record<string, string> = {},
  startProcess = startReadyEdge,
): Promise<EdgeProcess> {
  const edge = await startProcess(runtime, { KUBECONFIG: environment.tenancy.cluster.kubeconfigPath, ...env });
  running.add(edge);
  return edge;
}

async function stopEdge(edge: EdgeProcess): Promise<number | string> {
  running.delete(edge);
  edge.child.kill("SIGTERM");
  return edge.exited;
}

test.before(async () => {
  environment = await startGatewayEnvironment("gateway-changes");
});

test("two triggers on one path: the older has it, and the younger when the older goes", async () => {
  const edge = await startEdge("bun");
  await environment.createTrigger("first", { tenant: { static: "first" }, config: { path: "/hooks/shared" } });
  await environment.untilActive("first");
  // Of the same second, the name decides.
  await environment.createTrigger("second", { tenant: { static: "second" }, config: { path: "/hooks/shared" } });
  const { detail } = await environment.untilTrigger("second", ({ phase }) => phase === "Error");
  assert.is(
    detail,
    "spec.config.path: /hooks/shared belongs to the older trigger first; choose another path, or delete that trigger",
  );
  const tenantAt = async (path: string) => JSON.parse((await deliver(`${edge.url}${path}`, {})).text).tenantId;
  assert.is(await tenantAt("/hooks/shared"), "first");
  await environment.tenancy.until("an Event that says so", async () =>
    (await environment.eventsOf("second")).some(
      ({ reason, message }) => reason === "TriggerError" && message === detail,
    ),
  );

  await environment.editTrigger("first", { config: { path: "/hooks/first" } });
  await environment.untilActive("first");
  await environment.untilActive("second");
  assert.is(await tenantAt("/hooks/shared"), "second");
  assert.is(await tenantAt("/hooks/first"), "first");
  assert.not((await environment.statusOf("second")).detail);
  await environment.editTrigger("first", { config: { path: "/hooks/shared" } });
  await environment.untilTrigger("second", ({ phase }) => phase === "Error");
  assert.is(await tenantAt("/hooks/shared"), "first");
  await environment.deleteTrigger("first");
  await environment.untilActive("second");
  assert.is(await tenantAt("/hooks/shared"), "second");
  await environment.deleteTrigger("second");
  await environment.tenancy.until(
    "nobody has it",
    async () => (await deliver(`${edge.url}/hooks/shared`, {})).status === 404,
  );
  await stopEdge(edge);
});

test("a trigger on a workload that does not exist says so, and is Active and served when it comes", async () => {
  const edge = await startEdge("bun");
  await environment.createTrigger("early", { workloadRef: "later", config: { path: "/hooks/early" } });
  const missing = await environment.untilTrigger("early", ({ phase }) => phase === "Error");
  assert.is(
    missing.detail,
    'spec.workloadRef: workload "later" does not exist in namespace "tenancy", the only namespace that is served: create it there, or name another workload',
  );
  assert.equal(
    missing.conditions?.map(({ type, status, reason }) => [type, status, reason]),
    [
      ["Ready", "False", "WorkloadNotFound"],
      ["Reconciling", "True", "WorkloadNotFound"],
    ],
  );
  await environment.tenancy.until("an Event that says so", async () =>
    (await environment.eventsOf("early")).some(({ reason }) => reason === "WorkloadNotFound"),
  );
  await environment.tenancy.createWorkload("later");
  const { detail } = await environment.untilActive("early");
  assert.is(detail, undefined);
  assert.is((await deliver(`${edge.url}/hooks/early`, {})).status, 200);

  await environment.tenancy.client.delete(workloads, { namespace: NAMESPACE, name: "later" });
  await environment.untilTrigger("early", ({ phase }) => phase === "Error");
  await stopEdge(edge);
  const second = await startEdge("bun");
  await environment.tenancy.createWorkload("later");
  await environment.untilActive("early");
  await environment.editTrigger("early", { workloadRef: "never" });
  await environment.untilTrigger("early", ({ phase }) => phase === "Error");
  await environment.editTrigger("early", { workloadRef: "app" });
  await environment.untilActive("early");
  await environment.deleteTrigger("early");
  await stopEdge(second);
});

test("a trigger whose claims bring something says that its workload starts too early, until it does not", async () => {
  const edge = await startEdge("bun");
  await environment.tenancy.createWorkload("program");
  const claim = { inputs: { env: { LANG: "de" } }, labels: { team: "red" } };
  await environment.createTrigger("brings", { workloadRef: "program", claim, config: { path: "/hooks/brings" } });
  const { detail = "", conditions = [] } = await environment.untilTrigger("brings", ({ phase }) => phase === "Error");
  assert.match(detail, /^spec\.claim\.inputs: the program of workload "program" starts before its claim/);
  assert.is(conditions[0]?.reason, "WorkloadStartsTooEarly");
  assert.is((await deliver(`${edge.url}/hooks/brings`, {})).status, 502);
  await environment.tenancy.client.patch(
    workloads,
    { namespace: NAMESPACE, name: "program" },
    { type: "merge", body: { spec: { entrypoint: { cmd: "/program", start: "OnClaim" } } } },
  );
  await environment.untilActive("brings");
  await environment.deleteTrigger("brings");
  await stopEdge(edge);
});

test("a bad trigger says what to change, and harms no other", async () => {
  const edge = await startEdge("bun");
  await environment.createTrigger("good", { config: { path: "/hooks/good" } });
  const table: [name: string, spec: object, detail: RegExp][] = [
    [
      "reserved",
      { config: { path: "/api/v1/health" } },
      /^spec\.config\.path: \/api\/v1\/health belongs to the edge, as does everything below \/api/,
    ],
    ["root", { config: { path: "/" } }, /^spec\.config\.path: \/ belongs to the edge/],
    ["encoded", { config: { path: "/%64ocs" } }, /belongs to the edge/],
    ["dots", { config: { path: "/hooks/../x" } }, /is not normalized: use \/x/],
    [
      "no-secret",
      { config: { path: "/hooks/s", secretRef: { name: "none", key: "k" } } },
      /^Secret none does not exist; create it with the key k/,
    ],
    [
      "cron-pattern",
      { type: "cron", config: { schedule: "61 * * * *" } },
      /^spec\.config\.schedule: cannot parse 61 \* \* \* \* in UTC: Invalid value for minute/,
    ],
    ["cron-never", { type: "cron", config: { schedule: "0 0 31 2 *" } }, /never matches/],
    [
      "cron-zone",
      { type: "cron", config: { schedule: "0 0 * * *", timezone: "Mars/Olympus" } },
      /^spec\.config\.timezone: must be an IANA name/,
    ],
    ["cron-fields", { type: "cron", config: { schedule: "@daily" } }, /must have five fields/],
    ["bot", { type: "messenger", config: { botTokenSecretRef: { name: "none", key: "token" } } }, /none/],
  ];
  for (const [name, spec] of table) await environment.createTrigger(name, spec);
  for (const [name, , detail] of table) {
    const status = await environment.untilTrigger(name, ({ phase }) => phase === "Error");
    assert.match(status.detail ?? "", detail, name);
  }
  await environment.untilActive("good");
  assert.is((await deliver(`${edge.url}/hooks/good`, {})).status, 200);
  assert.is((await fetch(`${edge.url}/api/v1/health`)).status, 200);
  await environment.editTrigger("reserved", { config: { path: "/hooks/mended" } });
  await environment.writeSecret("none", { k: "v", token: "" });
  await environment.untilActive("reserved");
  await environment.untilActive("no-secret");
  await stopEdge(edge);
  // A second edge finds nothing to write.
  const versions = await versionsOf();
  const again = await startEdge("bun");
  assert.is((await deliver(`${again.url}/hooks/good`, {})).status, 200);
  const after = await versionsOf();
  for (const name of ["good", "reserved", "root", "no-secret", "cron-pattern"])
    assert.is(after.get(name), versions.get(name), name);
  for (const [name] of table) await environment.deleteTrigger(name);
  await environment.deleteTrigger("good");
  await stopEdge(again);
});

test("a trigger edited under load: every delivery gets the old or the new, none is lost", async () => {
  const edge = await startEdge("bun", { TENANCY_TRIGGER_EVENTS_IN_FLIGHT: "32" });
  await environment.createTrigger("busy", { tenant: { static: "v0" }, config: { path: "/hooks/busy" } });
  await environment.untilActive("busy");
  environment.container.onPayload = ({ tenantId }, response) => setImmediate(() => response.end(tenantId));
  const seen = new Map<string, number>();
  let stopping = false;
  const send = async (): Promise<void> => {
    while (!stopping) {
      const { status, text } = await deliver(`${edge.url}/hooks/busy`, {});
      const key = status === 200 ? text : `${status} ${text}`;
      seen.set(key, (seen.get(key) ?? 0) + 1);
    }
  };
  const senders = Array.from({ length: 8 }, send);
  const versions = ["v0"];
  await environment.tenancy.until("v0 answers", () => seen.has("v0"));
  for (let version = 1; version <= 4; version += 1) {
    versions.push(`v${version}`);
    await environment.editTrigger("busy", { tenant: { static: `v${version}` } });
    await environment.tenancy.until(`v${version} answers`, () => seen.has(`v${version}`));
  }
  stopping = true;
  await Promise.all(senders);
  const total = [...seen.values()].reduce((sum, count) => sum + count);
  console.log(`note: 4 edits under ${total} deliveries: ${JSON.stringify(Object.fromEntries(seen))}`);
  assert.equal([...seen.keys()].sort(), versions.sort());
  await environment.deleteTrigger("busy");
  assert.is(await stopEdge(edge), 0);
});

test("a path edited under load: what was sent to either path is answered by it or is a 404, never a failure", async () => {
  const edge = await startEdge("bun");
  await environment.createTrigger("moving", { config: { path: "/hooks/x" } });
  await environment.untilActive("moving");
  environment.container.onPayload = (_, response) => setTimeout(() => response.end("done"), 20);
  const seen = new Map<string, number>();
  let stopping = false;
  const send = async (path: string): Promise<void> => {
    while (!stopping) {
      const { status } = await deliver(`${edge.url}/hooks/${path}`, {});
      seen.set(`${path} ${status}`, (seen.get(`${path} ${status}`) ?? 0) + 1);
    }
  };
  const senders = ["x", "x", "y", "y"].map(send);
  for (const path of ["y", "x", "y", "x"]) {
    await environment.editTrigger("moving", { config: { path: `/hooks/${path}` } });
    const other = path === "x" ? "y" : "x";
    const before = new Map(seen);
    const isNew = (key: string) => seen.get(key) !== before.get(key);
    await environment.tenancy.until(`${path} is served`, () => isNew(`${path} 200`) && isNew(`${other} 404`));
  }
  stopping = true;
  await Promise.all(senders);
  console.log(`note: 4 moves of a path: ${JSON.stringify(Object.fromEntries(seen))}`);
  assert.equal([...seen.keys()].sort(), ["x 200", "x 404", "y 200", "y 404"]);
  await environment.deleteTrigger("moving");
  assert.is(await stopEdge(edge), 0);
});

test("an edge that stops answers what it has taken, and its successor serves from its first moment", async () => {
  await environment.createTrigger("steady", { config: { path: "/hooks/steady" } });
  const first = await startEdge("bun");
  await environment.untilActive("steady");
  const held: (() => void)[] = [];
  environment.container.onPayload = (_, response) => void held.push(() => response.end("late"));
  const sent = deliver(`${first.url}/hooks/steady`, {});
  await environment.tenancy.until("the container has it", () => held.length === 1);
  const stopped = stopEdge(first);
  await environment.tenancy.until("it accepts nothing more", async () => {
    try {
      await fetch(`${first.url}/api/v1/health`);
      return false;
    } catch {
      return true;
    }
  });
  held[0]?.();
  assert.equal([(await sent).status, (await sent).text], [200, "late"]);
  assert.is(await stopped, 0, first.lines.join("\n"));

  environment.container.onPayload = (_, response) => response.end("at once");
  const second = await startEdge("bun", {}, startEdgeProcess);
  const seen: number[] = [];
  const limit = performance.now() + 60_000;
  while (seen.at(-1) !== 200 && performance.now() < limit)
    seen.push((await deliver(`${second.url}/hooks/steady`, {})).status);
  assert.is(seen.at(-1), 200);
  assert.equal(
    [...new Set(seen)].filter((status) => status !== 200 && status !== 503),
    [],
    "before the triggers are synced it is a 503, which is sent again, and never a 404",
  );
  await stopEdge(second);
});

test("a delivery whose sender hangs up is run to its end, and answered when it comes again", async () => {
  const edge = await startEdge("bun");
  const held: (() => void)[] = [];
  environment.container.onPayload = (_, response) => void held.push(() => response.end("worked"));
  const hangUp = new AbortController();
  const headers = { "content-type": "application/json", "x-github-delivery": "slow" };
  const url = `${edge.url}/hooks/steady`;
  const first = fetch(url, { method: "POST", headers, body: "{}", signal: hangUp.signal }).catch(
    (error: unknown) => error,
  );
  await environment.tenancy.until("the container has it", () => held.length === 1);
  hangUp.abort();
  assert.instance(await first, Error);
  const again = deliver(url, "{}", { id: "slow" });
  held[0]?.();
  assert.equal([(await again).status, (await again).text], [200, "worked"]);
  assert.is(held.length, 1);
  await stopEdge(edge);
});

test("each role alone serves its own and nothing else", async () => {
  environment.container.onPayload = (_, response) => response.end("role");
  const gateway = await startEdge("bun", { TENANCY_EDGE_ROLES: "gateway" });
  assert.is((await deliver(`${gateway.url}/hooks/steady`, {})).text, "role");
  assert.is((await fetch(`${gateway.url}/api/v1/triggers`)).status, 404);
  assert.is((await fetch(`${gateway.url}/api/v1/health`)).status, 200);
  await stopEdge(gateway);
  const api = await startEdge("bun", { TENANCY_EDGE_ROLES: "api" });
  assert.is((await deliver(`${api.url}/hooks/steady`, {})).status, 404);
  assert.is((await fetch(`${api.url}/api/v1/triggers`)).status, 200);
  await environment.createTrigger("unseen", { config: { path: "/hooks/unseen" } });
  await environment.deleteTrigger("steady");
  const { conditions, ...others } = await environment.statusOf("unseen");
  assert.equal([conditions?.map(({ reason }) => reason), others], [["NotObserved"], {}]);
  await stopEdge(api);
});

async function versionsOf(): Promise<Map<string, string | undefined>> {
  const { items } = await environment.tenancy.client.list(triggers, { namespace: NAMESPACE });
  return new Map(items.map(({ metadata }) => [metadata.name, metadata.resourceVersion]));
}

test.after.each(async () => {
  // Of a test that failed.
  for (const edge of running) {
    edge.child.kill("SIGKILL");
    await edge.exited;
  }
  running.clear();
});
test.after(() => environment?.stop());

test.run();
