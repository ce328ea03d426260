// @own-cluster
import { once } from "node:events";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import WebSocket from "ws";
import { eventually } from "../../eventually.ts";
import { edgeRuntimes } from "../edge-runtimes.ts";
import { startTenancy, type Tenancy } from "../tenancy.ts";
import { type RestEdge, startRestEdge } from "./rest-edge.ts";

const test = suite("events of a real API server");
let tenancy: Tenancy;
let edge: RestEdge;

interface Message {
  id: string;
  type: string;
  time: string;
  object?: { tenantId?: string; phase?: string; name?: string };
}

test.before(async () => {
  tenancy = await startTenancy("rest-events");
  tenancy.startOperator();
  await tenancy.createWorkload("app");
});

async function listen(edge: RestEdge, query: string) {
  const socket = new WebSocket(`${edge.process.url.replace("http", "ws")}/ws${query}`);
  const messages: Message[] = [];
  socket.on("message", (data) => messages.push(JSON.parse(String(data))));
  const closed = new Promise<number>((resolve) => socket.on("close", resolve));
  await new Promise((resolve, reject) => socket.on("open", resolve).on("error", reject));
  const types = () => messages.map(({ type }) => type);
  return { socket, messages, closed, types };
}

for (const runtime of edgeRuntimes) {
  test(`${runtime}: claims, pods and releases are told, also after the API server was away`, async () => {
    edge = await startRestEdge(runtime, { KUBECONFIG: tenancy.cluster.kubeconfigPath });
    const claim = (tenant: string) =>
      edge.call("POST /api/v1/tenants/{id}/claim", {
        path: `/api/v1/tenants/${tenant}/claim`,
        body: { workload: "app" },
      });
    const release = (tenant: string) =>
      edge.call("POST /api/v1/tenants/{id}/release", {
        path: `/api/v1/tenants/${tenant}/release?wait=true`,
        body: { workload: "app" },
      });
    const [tenant, later] = [`${runtime}-a`, `${runtime}-b`];
    // It started with a view of what was there, of which nothing is told.
    const all = await listen(edge, "");
    const claims = await listen(edge, `?type=claim&tenant=${tenant}`);
    const others = await listen(edge, "?tenant=nobody");

    assert.is((await claim(tenant)).status, 201);
    await eventually(() => claims.types().includes("claim.active"));
    // A start that is slow is reported as another change of the pending claim.
    assert.equal([...new Set(claims.types())], ["claim.pending", "claim.active"]);
    await eventually(() =>
      all.messages.some(({ type, object }) => type === "instance.modified" && object?.phase === "Running"),
    );
    for (const [kind, first] of [
      ["claim", "claim.pending"],
      ["instance", "instance.added"],
    ] as const) {
      assert.is(
        all.types().find((type) => type.startsWith(kind)),
        first,
      );
    }

    const last = all.messages.at(-1)?.id ?? "";
    await tenancy.cluster.apiServer.stop();
    await eventually(async () => (await edge.call("GET /api/v1/stats")).status === 503);
    await tenancy.cluster.apiServer.start();
    await eventually(async () => (await claim(later)).status === 201);
    await eventually(() =>
      all.messages.some(({ type, object }) => type === "claim.active" && object?.tenantId === later),
    );

    assert.is((await release(tenant)).status, 200);
    await eventually(() => claims.types().at(-1) === "claim.deleted");
    assert.equal(
      claims
        .types()
        .filter((type, index, list) => type !== list[index - 1])
        .slice(0, 3),
      ["claim.pending", "claim.active", "claim.releasing"],
    );
    await eventually(() => all.types().includes("instance.deleted"));
    assert.equal(others.messages, []);

    const again = await listen(edge, `?since=${last}`);
    const missed = all.messages.slice(all.messages.findIndex(({ id }) => id === last) + 1);
    await eventually(() => again.messages.length >= missed.length);
    assert.equal(again.messages.slice(0, missed.length), missed);
    const lost = await listen(edge, "?since=another-process-7");
    await eventually(() => lost.messages.length > 0);
    assert.is(lost.messages[0]?.type, "resync");

    assert.is(await edge.stop(), 0, edge.process.lines.join("\n"));
    assert.equal(
      await Promise.all([all, claims, others, again, lost].map(({ closed }) => closed)),
      [1001, 1001, 1001, 1001, 1001],
    );
    assert.equal(edge.problems, []);
  });
}

test("what a tenant's container printed last is told behind the key alone, and no page of another site listens", async () => {
  const secret = "token=planted-7f3a";
  edge = await startRestEdge("bun", { KUBECONFIG: tenancy.cluster.kubeconfigPath });
  await tenancy.createWorkload("crashing", {
    image: { ref: "simulated/crash:1" },
    entrypoint: { env: { LAST_WORDS: `cannot log in with ${secret}` } },
  });
  const all = await listen(edge, "");
  const claim = await edge.call("POST /api/v1/tenants/{id}/claim", {
    path: "/api/v1/tenants/careless/claim",
    body: { workload: "crashing" },
  });
  assert.is(claim.status, 500);
  assert.ok(claim.text.includes(secret), claim.text);
  await eventually(() => all.types().includes("claim.error"));
  await edge.call("POST /api/v1/tenants/{id}/release", {
    path: "/api/v1/tenants/careless/release?wait=true",
    body: { workload: "crashing" },
  });
  // The last event of the pod comes by another watch, before or after.
  await eventually(() => all.types().includes("claim.deleted"));
  const failed = all.messages.find(({ type }) => type === "claim.error");
  assert.is((failed?.object as { reason?: string } | undefined)?.reason, "CrashLooping");
  assert.not.ok(JSON.stringify(all.messages).includes("planted"), JSON.stringify(all.messages));

  const foreign = new WebSocket(`${edge.process.url.replace("http", "ws")}/ws`, { origin: "https://evil.example" });
  const answered = new Promise((resolve) => foreign.on("error", (error) => resolve(error.message)));
  assert.is(
    await Promise.race([answered, once(foreign, "open").then(() => "opened")]),
    "Unexpected server response: 403",
  );
});

test.after.each(async () => void (await edge.stop()));
test.after(() => tenancy?.stop());

test.run();
