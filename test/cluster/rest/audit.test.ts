import { mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { namespaces } from "../../../crds/client/built-in-resources.ts";
import type { ApiTypes } from "../../../edge/api/openapi/schemas.ts";
import type { AuditRecord } from "../../../edge/audit/audit-record.ts";
import { eventually } from "../../eventually.ts";
import { startTenancy, type Tenancy } from "../tenancy.ts";
import { KEY, type RestEdge, startRestEdge } from "./rest-edge.ts";

const test = suite("audit log on a real API server");
const KEYS = "tenancy-keys";
let tenancy: Tenancy;
let edge: RestEdge;
let folder: string;
let path: string;

test.before(async () => {
  folder = mkdtempSync(join(tmpdir(), "tenancy-audit-"));
  path = join(folder, "audit.jsonl");
  tenancy = await startTenancy("rest-audit");
  await tenancy.client.create(namespaces, { metadata: { name: KEYS } });
  tenancy.startOperator();
  await tenancy.createWorkload("app");
  const env = { KUBECONFIG: tenancy.cluster.kubeconfigPath, TENANCY_KEYS_NAMESPACE: KEYS };
  edge = await startRestEdge("bun", { ...env, TENANCY_AUDIT: path });
});

test.after(async () => {
  await edge?.stop();
  await tenancy?.stop();
  rmSync(folder, { recursive: true });
});

async function createKey(body: object): Promise<ApiTypes["CreatedKey"]> {
  const { status, json, text } = await edge.call("POST /api/v1/keys", { body });
  assert.is(status, 201, text);
  return json as ApiTypes["CreatedKey"];
}

function linesOf(file: string): string[] {
  return readFileSync(file, "utf8").split("\n").slice(0, -1);
}

function shown({ actor, act, object, status, source, address }: AuditRecord): unknown[] {
  return [actor.id, act, object, status, ...(source === undefined ? [] : [source]), address];
}

test("the file and the API show which key did what to which tenant, and no key", async () => {
  const alice = await createKey({ name: "alice", role: "tenant", tenants: ["alice"] });
  const platform = await createKey({ name: "platform", role: "platform" });
  const claim = (tenant: string, key: string) =>
    edge.call("POST /api/v1/tenants/{id}/claim", {
      ...{ path: `/api/v1/tenants/${tenant}/claim`, key },
      body: { workload: "app", env: { SECRET: "s3cr3t-in-the-body" } },
    });
  const claimed = await claim("alice", alice.key);
  assert.is(claimed.status, 400, claimed.text);
  const joined = await edge.call("POST /api/v1/tenants/{id}/claim", {
    ...{ path: "/api/v1/tenants/alice/claim", key: alice.key },
    body: { workload: "app" },
  });
  assert.is(joined.status, 201, joined.text);
  const { instanceId: instance = "" } = joined.json as ApiTypes["Claim"];
  assert.is((await claim("bob", alice.key)).status, 404);
  const files = { path: `/api/v1/instances/${instance}/files?folder=etc`, key: platform.key };
  const { status } = await edge.call("GET /api/v1/instances/{id}/files", files);
  await edge.call("DELETE /api/v1/workloads/{name}", { path: "/api/v1/workloads/none", key: platform.key });
  await edge.call("GET /api/v1/tenants", { key: platform.key });
  const one = { path: `/api/v1/keys/${alice.id}` };
  assert.is((await edge.call("DELETE /api/v1/keys/{id}", one)).status, 200);

  const app = { tenant: "alice", workload: "app" };
  const from = "127.0.0.1";
  const expected = [
    ["root", "change", { key: alice.id }, 201, from],
    ["root", "change", { key: platform.id }, 201, from],
    [alice.id, "change", app, 400, from],
    [alice.id, "change", { ...app, instance }, 201, "cold", from],
    [alice.id, "change", { tenant: "bob" }, 404, from],
    [platform.id, "look", { instance, ...app, path: "etc" }, status, from],
    [platform.id, "change", { workload: "none" }, 404, from],
    ["root", "change", { key: alice.id }, 200, from],
  ];
  await eventually(() => linesOf(path).length >= expected.length);
  const lines = linesOf(path);
  assert.equal(
    lines.map((line) => shown(JSON.parse(line))),
    expected,
  );
  for (const secret of [KEY, alice.key, platform.key, alice.key.slice(20), "s3cr3t"])
    assert.not.ok(lines.some((line) => line.includes(secret)));

  const { json } = await edge.call("GET /api/v1/audit", { path: "/api/v1/audit?tenant=alice" });
  const { records } = json as ApiTypes["AuditLog"];
  const about = lines.map((line) => JSON.parse(line)).filter(({ object }) => object.tenant === "alice");
  assert.equal(records, about.map(({ audit: _, ...record }) => record).reverse());
  assert.is((await edge.call("GET /api/v1/audit", { key: platform.key })).status, 403);
});

test("a renamed file is left, and the path opened again without a signal", async () => {
  const touch = () => edge.call("DELETE /api/v1/workloads/{name}", { path: "/api/v1/workloads/none" });
  await touch();
  const before = linesOf(path).length;
  renameSync(path, `${path}.1`);
  let sent = 0;
  await eventually(async () => {
    await touch();
    sent += 1;
    return linesOf(`${path}.1`).length >= before && exists();
  });
  const all = () => [...linesOf(`${path}.1`), ...linesOf(path)];
  await eventually(() => all().length >= before + sent);
  for (const line of all()) assert.is(JSON.parse(line).audit, true);
});

function exists(): boolean {
  try {
    return linesOf(path).length > 0;
  } catch {
    return false;
  }
}

test("without the setting the lines are in the log, told apart by how they begin", async () => {
  const other = await startRestEdge("node", { KUBECONFIG: tenancy.cluster.kubeconfigPath });
  await other.call("DELETE /api/v1/workloads/{name}", { path: "/api/v1/workloads/none" });
  assert.is(await other.stop(), 0);
  const audited = other.process.lines.filter((line) => line.startsWith('{"audit":true'));
  assert.is(audited.length, 1);
  assert.is(JSON.parse(audited[0] ?? "").route, "/api/v1/workloads/:name");
  for (const line of other.process.lines) assert.type(JSON.parse(line), "object");
  assert.equal([edge.problems, other.problems], [[], []]);
});

test.run();
