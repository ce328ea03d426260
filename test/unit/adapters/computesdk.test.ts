// @runtimes bun node deno
// Whose saved files ComputeSDK's destroy erases: those of tenants that the provider has made, by the claim's label.
import { compute } from "computesdk";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { tenancy } from "../../../edge/adapters/computesdk/index.ts";

const test = suite("ComputeSDK: destroy");

/** An API that has claims with labels, and what was done with their files. */
function api() {
  const claims = new Map<string, { labels?: Record<string, string> }>();
  const calls: string[] = [];
  const fetch = async (url: string, init: RequestInit): Promise<Response> => {
    const { pathname } = new URL(url);
    const tenant = pathname.split("/")[4] ?? "";
    calls.push(`${init.method} ${pathname.replace(`/api/v1/tenants/${tenant}`, "")}`);
    if (pathname.endsWith("/claim") && !claims.has(tenant)) {
      const { labels } = JSON.parse(String(init.body)) as { labels?: Record<string, string> };
      claims.set(tenant, labels === undefined ? {} : { labels });
    }
    const claim = claims.get(tenant);
    if (pathname.endsWith("/release")) claims.delete(tenant);
    if (pathname.includes("/snapshots/")) return new Response(null, { status: 204 });
    if (claim === undefined) return Response.json({ error: "no claim" }, { status: 404 });
    return Response.json({ ...claim, tenantId: tenant, workloadRef: "app", phase: "Active", status: "released" });
  };
  const sdk = compute({ provider: tenancy({ url: "http://edge.test", workload: "app", fetch }) });
  const erased = (): boolean => calls.some((call) => call.startsWith("DELETE /snapshots"));
  return { sdk, claims, calls, erased };
}

test("the files of a tenant that the provider made are erased", async () => {
  const { sdk, calls, erased } = api();
  const { sandboxId } = await sdk.sandbox.create();
  await sdk.sandbox.destroy(sandboxId);
  assert.ok(erased(), calls.join());
});

test("the files of a tenant that the caller named stay, whatever its id", async () => {
  for (const tenant of ["ann", "computesdk-team", "computesdk-5e0c1f9a-2b6b-4c7e-9d55-0f1c6f8f8a11"]) {
    const { sdk, calls, erased } = api();
    const sandbox = await sdk.sandbox.create({ metadata: { tenant } });
    await sandbox.destroy();
    assert.ok(calls.some((call) => call.startsWith("POST /release")) && !erased(), calls.join());
  }
});

test("the files stay without the claim, and with a label that another claim was given", async () => {
  const { sdk, claims, calls, erased } = api();
  const { sandboxId } = await sdk.sandbox.create();
  const [made = ""] = sandboxId.split(":");
  const labels = claims.get(made)?.labels ?? {};
  claims.clear();
  await sdk.sandbox.destroy(sandboxId);
  claims.set("computesdk-team", { labels });
  await sdk.sandbox.destroy("computesdk-team:app");
  assert.not.ok(erased(), calls.join());
});

test.run();
