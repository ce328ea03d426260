// The calls of E2B's SDKs over the wire, on an edge of each runtime. test/e2e/e2b has the SDKs themselves.
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { AuditRecord } from "../../../edge/audit/audit-record.ts";
import { readSandboxId } from "../../../edge/e2b/sandbox-id.ts";
import { startTenancy, type Tenancy } from "../tenancy.ts";
import { KEY, type RestEdge, startRestEdge } from "./rest-edge.ts";

const test = suite("sandboxes on a real API server");
let tenancy: Tenancy;

test.before(async () => {
  tenancy = await startTenancy("rest-sandboxes");
  tenancy.startOperator();
  await tenancy.createWorkload("app");
});
test.after(async () => {
  await tenancy?.stop();
});

async function ask({ process: { url } }: RestEdge, target: string, body?: unknown, headers: object = {}) {
  const [method = "", path = ""] = target.split(" ");
  const response = await fetch(`${url}/e2b${path}`, {
    method,
    headers: {
      ...{ "x-api-key": KEY, ...headers },
      ...(body !== undefined && { "content-type": "application/json" }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, json: text === "" ? undefined : JSON.parse(text), text };
}

for (const runtime of ["bun", "node", "deno"] as const)
  test(`${runtime}: a sandbox is created, listed, extended and killed`, async () => {
    const env = { KUBECONFIG: tenancy.cluster.kubeconfigPath, TENANCY_PROXY_TRUSTED: "127.0.0.1/32" };
    const edge = await startRestEdge(runtime, env);
    try {
      const metadata = { runtime };
      const made = await ask(
        edge,
        "POST /v2/sandboxes",
        { templateID: "app", metadata },
        { "x-forwarded-for": "192.0.2.9" },
      );
      assert.is(made.status, 201, made.text);
      const { sandboxID } = made.json as { sandboxID: string };
      const { tenantId } = readSandboxId(sandboxID) ?? {};
      const query = new URLSearchParams({ metadata: `runtime=${runtime}` });
      const listed = await ask(edge, `GET /v2/sandboxes?${query}`);
      assert.equal(
        (listed.json as (typeof made.json)[]).map((one) => one.sandboxID),
        [sandboxID],
      );
      const wrong = await ask(edge, "GET /v2/sandboxes", undefined, { "x-api-key": "wrong" });
      assert.equal([wrong.status, (wrong.json as { code: number }).code], [401, 401]);
      assert.is((await ask(edge, `POST /sandboxes/${sandboxID}/timeout`, { timeout: 600 })).status, 204);
      assert.is((await ask(edge, `POST /v2/sandboxes/${sandboxID}/connect`)).status, 200);
      assert.is((await ask(edge, `POST /sandboxes/${sandboxID}/pause`, {})).status, 400);
      assert.is((await ask(edge, `DELETE /sandboxes/${sandboxID}`)).status, 204);
      assert.is((await ask(edge, `DELETE /sandboxes/${sandboxID}`)).status, 404);
      const audit = await edge.call("GET /api/v1/audit", { path: `/api/v1/audit?tenant=${tenantId}&method=POST` });
      const { records } = audit.json as { records: AuditRecord[] };
      assert.equal(records.map(({ route, status }) => `${route} ${status}`).at(-1), "/e2b/v2/sandboxes 201");
      assert.is(records.at(-1)?.address, "192.0.2.9");
    } finally {
      await edge.stop();
    }
  });

test.run();
