import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { WebSocketServer } from "ws";
import type { ClaimResponse } from "../../../crds/claims/claim-response.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { triggers } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { label } from "../../../crds/labels.ts";
import { BEHAVIOUR_ANNOTATION } from "../../../scripts/cluster/simulated/behaviour.ts";
import { eventually } from "../../eventually.ts";
import { type RestEdge, startRestEdge } from "../rest/rest-edge.ts";
import { NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("the endpoint is the live pod's address");
let tenancy: Tenancy;
let operator: RunningOperator;
let edge: RestEdge;
/** Names of the objects whose status the operator wrote. */
const statusWrites: string[] = [];

/**
 * Every pod's program: it answers with the address at which it was reached, and talks on and on where it is an agent.
 */
const program = createServer((request, response) =>
  request.resume().on("end", () => response.end(request.socket.localAddress)),
);
const agents = new WebSocketServer({ server: program, path: "/ws" });
agents.on("connection", (socket) => {
  socket.on("message", (data) => {
    const { type } = JSON.parse(String(data)) as { type: string };
    socket.send(JSON.stringify(type === "init" ? { type: "ready" } : { type: "output", text: "…" }));
  });
});

test.before(async () => {
  program.listen(0, "0.0.0.0");
  await once(program, "listening");
  const { port } = program.address() as AddressInfo;
  // Loopback, so that the program answers for every pod; an address that is given back is the next pod's.
  tenancy = await startTenancy("endpoint", { nodes: { podNetwork: "127.71", reuseAddresses: true } });
  operator = tenancy.startOperator({
    wrap: (client) => ({
      ...client,
      patch(resource, ref, options) {
        if (options.subresource === "status") statusWrites.push(ref.name);
        return client.patch(resource, ref, options);
      },
    }),
  });
  for (const workload of ["app", "pooled"]) await tenancy.createWorkload(workload, { network: { ports: [port] } });
  await tenancy.createPool("pooled", { workloadRef: "pooled", size: 1 });
  edge = await startRestEdge("bun", { KUBECONFIG: tenancy.cluster.kubeconfigPath });
});

const claimAs = async (tenant: string, workload = "app"): Promise<ClaimResponse & { host: string }> => {
  const path = `/api/v1/tenants/${tenant}/claim`;
  const { status, json, text } = await edge.call("POST /api/v1/tenants/{id}/claim", { path, body: { workload } });
  assert.is(status, 201, text);
  const claim = json as ClaimResponse;
  return { ...claim, host: claim.endpoint?.host ?? "" };
};

const destroy = async (instance = ""): Promise<void> => {
  const path = `/api/v1/instances/${instance}/destroy`;
  assert.is((await edge.call("POST /api/v1/instances/{id}/destroy", { path })).status, 200);
};

async function shownOf(tenant: string): Promise<ClaimResponse | undefined> {
  const { json } = await edge.call("GET /api/v1/tenants/{id}", { path: `/api/v1/tenants/${tenant}` });
  return (json as { claims: ClaimResponse[] }).claims[0];
}

async function instanceAddress(instance = ""): Promise<string | undefined> {
  const { json } = await edge.call("GET /api/v1/instances/{id}", { path: `/api/v1/instances/${instance}` });
  return (json as { ip?: string }).ip;
}

/** Whose pod has an address, as the API server lists them. */
async function tenantAt(address: string): Promise<string | undefined> {
  const { items } = await tenancy.client.list(pods, { namespace: NAMESPACE });
  const holders = items.filter(
    ({ status, metadata }) =>
      status?.podIP === address &&
      metadata.deletionTimestamp === undefined &&
      status.conditions?.some(({ type, status: is }) => type === "PodReadyToStartContainers" && is === "True"),
  );
  assert.ok(holders.length <= 1, `${holders.length} pods at ${address}`);
  return holders[0]?.metadata.labels?.[label.tenant];
}

function behave(instance = "", behaviour: "no-sandbox" | "normal"): Promise<Pod> {
  const body = { metadata: { annotations: { [BEHAVIOUR_ANNOTATION]: behaviour } } };
  return tenancy.client.patch(pods, { namespace: NAMESPACE, name: instance }, { type: "merge", body });
}

const untilSandboxIsGone = (instance = "") =>
  tenancy.until(`${instance} has no sandbox`, async () => {
    const { status } = await tenancy.client.get(pods, { namespace: NAMESPACE, name: instance });
    return status?.conditions?.some(({ type, status: is }) => type === "PodReadyToStartContainers" && is === "False");
  });

/** A claim call that is not to be answered yet. */
function waitingClaim(tenant: string): {
  answer: Promise<ClaimResponse & { host: string }>;
  isAnswered: () => boolean;
} {
  let answered = false;
  const answer = claimAs(tenant);
  const note = () => {
    answered = true;
  };
  answer.then(note, note);
  return { answer, isAnswered: () => answered };
}

for (const workload of ["app", "pooled"]) {
  test(`${workload}: it follows a pod whose sandbox is made anew, with one write for each change`, async () => {
    const tenant = `ann-${workload}`;
    const first = await claimAs(tenant, workload);
    assert.is(await tenantAt(first.host), tenant);
    const name = `claim-${tenant}-${workload}`;
    await tenancy.until("the pool is full again", () => tenancy.members("pooled", "ready").length === 1);
    // The watch of this test may be behind the edge, and a claim that is Pending has no endpoint.
    await tenancy.untilClaim(name, { phase: "Active" });
    statusWrites.length = 0;

    await behave(first.instanceId, "no-sandbox");
    const without = await tenancy.untilClaim(
      name,
      (claim) => claim !== undefined && claim.status?.endpoint === undefined,
    );
    assert.is(without.status?.phase, "Active");
    await eventually(async () => (await shownOf(tenant))?.endpoint === undefined);
    await eventually(async () => (await instanceAddress(first.instanceId)) === undefined);

    const other = await claimAs(`ben-${workload}`, "app");
    assert.is(other.host, first.host, "the address was not given again");
    await behave(first.instanceId, "normal");
    const again = await claimAs(tenant, workload);
    assert.equal([again.source, again.instanceId], ["existing", first.instanceId]);
    assert.is.not(again.host, first.host);
    assert.is(await tenantAt(again.host), tenant);
    await tenancy.untilClaim(name, (claim) => claim?.status?.endpoint?.host === again.host);
    await eventually(async () => (await shownOf(tenant))?.endpoint?.host === again.host);
    assert.is(statusWrites.filter((written) => written === name).length, 2);
    assert.is(await tenantAt(other.host), `ben-${workload}`);
  });
}

test("without an operator nobody is sent to an address that the pod has lost, and all are to the one that it has", async () => {
  const first = await claimAs("cat");
  await operator.stop();
  await behave(first.instanceId, "no-sandbox");
  await untilSandboxIsGone(first.instanceId);
  await eventually(async () => (await shownOf("cat"))?.endpoint === undefined);
  const waiting = waitingClaim("cat");
  const calls = Promise.all(Array.from({ length: 10 }, () => claimAs("cat")));
  calls.catch(() => undefined);
  // Somebody's, at the address that is free.
  const stranger = {
    metadata: { name: "stranger", namespace: NAMESPACE },
    spec: { containers: [{ name: "main", image: "i" }] },
  };
  await tenancy.client.create(pods, stranger as Pod);
  const { status } = await tenancy.until("the stranger has an address", async () => {
    const pod = await tenancy.client.get(pods, { namespace: NAMESPACE, name: "stranger" });
    return pod.status?.podIP !== undefined && pod;
  });
  assert.is(status?.podIP, first.host, "the address was not given again");
  assert.not.ok(waiting.isAnswered());

  await behave(first.instanceId, "normal");
  const moved = await waiting.answer;
  assert.is.not(moved.host, first.host);
  assert.is(await tenantAt(moved.host), "cat");
  for (const { host, source } of await calls) assert.equal([host, source], [moved.host, "existing"]);
  assert.is((await tenancy.untilClaim("claim-cat-app", {})).status?.endpoint?.host, first.host, "nobody wrote it");
  assert.is((await shownOf("cat"))?.endpoint, undefined);
  operator = tenancy.startOperator();
  await tenancy.untilClaim("claim-cat-app", (claim) => claim?.status?.endpoint?.host === moved.host);
});

test("a destroyed claim keeps its phase and no endpoint, and a claim call gives it another pod", async () => {
  const first = await claimAs("dan");
  await destroy(first.instanceId);
  assert.equal([(await shownOf("dan"))?.phase, (await shownOf("dan"))?.endpoint], ["Active", undefined]);
  const kept = await tenancy.untilClaim(
    "claim-dan-app",
    (claim) => claim !== undefined && claim.status?.endpoint === undefined,
  );
  assert.equal([kept.status?.phase, kept.status?.instanceId], ["Active", first.instanceId]);
  await tenancy.until("its address is free", async () => (await tenantAt(first.host)) === undefined);
  const other = await claimAs("eve");
  assert.is(other.host, first.host, "the address was not given again");
  assert.is((await tenancy.podsOf(kept)).length, 0);

  const answers = await Promise.all([claimAs("dan"), claimAs("dan"), claimAs("dan")]);
  for (const again of answers) {
    assert.is(await tenantAt(again.host), "dan");
    assert.is.not(again.instanceId, first.instanceId);
  }
  assert.is(new Set(answers.map(({ instanceId }) => instanceId)).size, 1);
  assert.is(answers[0]?.source, "cold");
  assert.is((await claimAs("dan")).source, "existing");
  assert.is(await tenantAt(other.host), "eve");
});

async function webhook(
  name: string,
  more: object = {},
): Promise<(tenant: string) => Promise<{ status: number; text: string }>> {
  await tenancy.client.create(triggers, {
    metadata: { name, namespace: NAMESPACE },
    spec: { type: "webhook", workloadRef: "app", tenant: { from: "who" }, config: { path: `/hooks/${name}` }, ...more },
  });
  await tenancy.until(`trigger ${name}`, async () => {
    const { status } = await tenancy.client.get(triggers, { namespace: NAMESPACE, name });
    return status?.phase === "Active";
  });
  return async (who) => {
    const response = await fetch(`${edge.process.url}/hooks/${name}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ who }),
    });
    return { status: response.status, text: await response.text() };
  };
}

test("an event goes to its own tenant's pod, after a destroy and after a new sandbox too", async () => {
  const send = await webhook("letters");
  const reachedBy = async (who: string) => {
    const { status, text } = await send(who);
    assert.is(status, 200, text);
    assert.is(await tenantAt(text), who);
    return text;
  };
  const first = await reachedBy("fay");
  await destroy((await shownOf("fay"))?.instanceId);
  await tenancy.until("its address is free", async () => (await tenantAt(first)) === undefined);
  assert.is(await reachedBy("gus"), first, "the address was not given again");
  const second = await reachedBy("fay");
  assert.is.not(second, first);

  const { instanceId } = (await shownOf("fay")) ?? {};
  await behave(instanceId, "no-sandbox");
  await untilSandboxIsGone(instanceId);
  const waits = reachedBy("fay");
  assert.is(await reachedBy("hal"), second, "the address was not given again");
  await behave(instanceId, "normal");
  assert.is.not(await waits, second);
});

test("an agent's socket is ended when its pod loses its address", async () => {
  const send = await webhook("agents", { driver: "driver-a" });
  const answer = send("ida");
  await eventually(() => agents.clients.size === 1);
  await behave((await shownOf("ida"))?.instanceId, "no-sandbox");
  assert.is((await answer).status, 502);
  await eventually(() => agents.clients.size === 0);
});

test.after(async () => {
  await edge?.stop();
  await tenancy?.stop();
  agents.close();
  program.closeAllConnections();
  program.close();
  assert.equal(edge?.problems, []);
});

test.run();
