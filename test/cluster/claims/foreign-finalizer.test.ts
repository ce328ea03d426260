import { suite } from "uvu";
import * as assert from "uvu/assert";
import { claims } from "../../../crds/kinds.ts";
import { claimName, hashedClaimName } from "../../../crds/names.ts";
import { type RestEdge, startRestEdge } from "../rest/rest-edge.ts";
import { recordSaves } from "../snapshots/recorded-saves.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("a claim that somebody else's finalizer holds after its release");
const key = { tenantId: "alice", workloadRef: "kept" };
const theirs = "example.com/stays";
let tenancy: Tenancy;
let edge: RestEdge;
let saved: string[];

test.before(async () => {
  tenancy = await startTenancy("test-foreign-finalizer");
  const recorded = await recordSaves(tenancy);
  saved = recorded.saved;
  tenancy.startOperator({ snapshots: recorded.snapshots });
  await tenancy.createWorkload("kept", { filesystem: { overlayDirs: ["/data"] } });
  edge = await startRestEdge("bun", { KUBECONFIG: tenancy.cluster.kubeconfigPath });
});
test.after(async () => {
  await edge?.stop();
  await tenancy?.stop();
});

const claim = async () => {
  const path = "/api/v1/tenants/alice/claim";
  const answer = await edge.call("POST /api/v1/tenants/{id}/claim", { path, body: { workload: "kept" } });
  assert.is(answer.status, 201, answer.text);
  return (answer.json as { instanceId: string }).instanceId;
};
const release = async () => {
  const path = "/api/v1/tenants/alice/release?wait=true";
  const answer = await edge.call("POST /api/v1/tenants/{id}/release", { path, body: { workload: "kept" } });
  return [answer.status, (answer.json as { files?: string }).files];
};
const patchFinalizers = (name: string, finalizers: string[]) =>
  tenancy.client.patch(claims, { namespace: NAMESPACE, name }, { type: "merge", body: { metadata: { finalizers } } });

test("keeps no tenant from claiming again, the files of each session are saved, and a second claim object is the tenant's one", async () => {
  const names: string[] = [];
  for (let session = 0; session < 3; session += 1) {
    const instance = await claim();
    const { items } = await tenancy.client.list(claims, { namespace: NAMESPACE });
    const current = items.find(({ status }) => status?.instanceId === instance && status.phase === "Active");
    const { name = "", finalizers = [] } = current?.metadata ?? {};
    names.push(name);
    assert.is(await claim(), instance, "a second call joins the session");
    await patchFinalizers(name, [...finalizers, theirs]);
    assert.equal(await release(), [200, "saved"]);
    assert.is(saved.at(-1), instance);
    assert.is((await release())[0], 404, "nothing is left to release");
  }
  assert.equal(names.slice(0, 2), [claimName(key), hashedClaimName(key)]);
  assert.is(new Set(names).size, 3);

  const last = await claim();
  for (const name of names) await patchFinalizers(name, []);
  for (const name of names) await tenancy.untilGone(name);
  assert.is(await claim(), last, "the session goes on when the old objects go");
  assert.equal(await release(), [200, "saved"]);
  assert.equal(edge.problems, []);
});

test("keeps no claim by kubectl waiting", async () => {
  const { metadata } = await tenancy.createClaim("bob", "kept", { finalizers: [theirs] });
  await tenancy.untilClaim(metadata.name, { phase: "Active" });
  const other = await tenancy.createClaim("bob", "kept", { name: "bobs-next" });
  await tenancy.untilClaim(other.metadata.name, { phase: "Error", reason: "Duplicate" });
  await tenancy.deleteClaim(metadata.name);
  const third = await tenancy.createClaim("bob", "kept", { name: "bobs-third" });
  await tenancy.untilClaim(third.metadata.name, { phase: "Active" });
  const { status } = await tenancy.client.get(claims, { namespace: NAMESPACE, name: metadata.name });
  assert.equal([status?.phase, status?.files], ["Released", "saved"]);
  await patchFinalizers(metadata.name, []);
  for (const name of [other.metadata.name, third.metadata.name]) await tenancy.release(name);
});

test.run();
