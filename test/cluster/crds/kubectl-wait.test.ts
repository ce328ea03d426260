// @limit 600
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { claims, pools, triggers, workloads } from "../../../crds/kinds.ts";
import type { KubernetesObject } from "../../../crds/kubernetes.ts";
import type { Resource } from "../../../crds/resource.ts";
import { findBinaries } from "../../../scripts/cluster/binaries.ts";
import { versionAtLeast } from "../../../scripts/cluster/kubernetes/version-at-least.ts";
import { CONTROL_PLANE_PROGRAMS } from "../../../scripts/cluster/programs.ts";
import { kubectlFor } from "../isolation/kubectl.ts";
import { type RestEdge, startRestEdge } from "../rest/rest-edge.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("kubectl wait, get and explain");
let tenancy: Tenancy;
let edge: RestEdge;
let kubectl: (...parameters: string[]) => Promise<string>;

test.before(async () => {
  tenancy = await startTenancy("test-kubectl-wait");
  tenancy.startOperator();
  const run = await kubectlFor(tenancy.cluster.kubeconfigPath);
  kubectl = (...parameters) => run("--namespace", NAMESPACE, ...parameters);
  edge = await startRestEdge("bun", { KUBECONFIG: tenancy.cluster.kubeconfigPath });
});
test.after(async () => {
  await edge?.stop();
  await tenancy?.stop();
});

interface Standing extends KubernetesObject {
  status?: { conditions?: { type: string; status: string; lastTransitionTime: string; reason: string }[] };
}

const wait = (what: string, condition: string) =>
  kubectl("wait", what, `--for=condition=${condition}`, "--timeout=120s");

/** As `kubectl` would read it, without the types of ours. */
async function condition(resource: Resource<KubernetesObject>, name: string, type: string) {
  const object: Standing = await tenancy.client.get(resource, { namespace: NAMESPACE, name });
  const found = object.status?.conditions?.filter((entry) => entry.type === type) ?? [];
  assert.is(found.length, 1, `${name}: ${JSON.stringify(object.status)}`);
  return found[0];
}

test("kubectl wait --for=condition=Ready ends for all four kinds", async () => {
  await tenancy.createWorkload("hello");
  assert.match(await wait("tw/hello", "Ready"), /condition met/);
  await tenancy.createPool("hello", { workloadRef: "hello", size: 2 });
  assert.match(await wait("tp/hello", "Ready"), /condition met/);
  const claim = await tenancy.createClaim("alice", "hello");
  assert.match(await wait(`tc/${claim.metadata.name}`, "Ready"), /condition met/);
  await tenancy.client.create(triggers, {
    metadata: { name: "hook", namespace: NAMESPACE },
    spec: { type: "webhook", workloadRef: "hello", tenant: { static: "alice" }, config: { path: "/hooks/hook" } },
  });
  assert.match(await wait("tt/hook", "Ready"), /condition met/);
});

test("a claim whose spec was changed stays Ready, about its new generation, since when it was", async () => {
  const name = "claim-alice-hello";
  const before = await condition(claims, name, "Ready");
  const patched = await tenancy.client.patch(
    claims,
    { namespace: NAMESPACE, name },
    { type: "merge", body: { spec: { resume: true } } },
  );
  const { generation: observedGeneration = 0 } = patched.metadata;
  assert.ok(observedGeneration > 1);
  await wait(`tc/${name}`, "Ready");
  await tenancy.untilClaim(name, { observedGeneration });
  assert.equal({ ...before, observedGeneration }, await condition(claims, name, "Ready"));
});

test("what is wrong makes Ready false with its reason, and mended it is true, later", async () => {
  await tenancy.createWorkload("bad", { image: { ref: "simulated/hello::bad" } });
  await wait("tw/bad", "Ready=false");
  const bad = await condition(workloads, "bad", "Ready");
  assert.is(bad?.reason, "Invalid");
  const early = await tenancy.createClaim("bob", "later");
  await wait(`tc/${early.metadata.name}`, "Ready=false");
  assert.is((await condition(claims, early.metadata.name, "Ready"))?.reason, "WorkloadNotFound");
  await tenancy.client.create(triggers, {
    metadata: { name: "reserved", namespace: NAMESPACE },
    spec: { type: "webhook", workloadRef: "hello", tenant: { static: "alice" }, config: { path: "/api/hook" } },
  });
  await wait("tt/reserved", "Ready=false");

  await tenancy.createWorkload("later");
  await wait(`tc/${early.metadata.name}`, "Ready");
  const body = { spec: { image: { ref: "simulated/hello:1" } } };
  await tenancy.client.patch(workloads, { namespace: NAMESPACE, name: "bad" }, { type: "merge", body });
  await wait("tw/bad", "Ready");
  const mended = await condition(workloads, "bad", "Ready");
  assert.ok(Date.parse(mended?.lastTransitionTime ?? "") > Date.parse(bad?.lastTransitionTime ?? ""));
});

test("kubectl get tc finds claims by their workload, those of kubectl and those of the API", async () => {
  await edge.call("POST /api/v1/tenants/{id}/claim", {
    path: "/api/v1/tenants/carol/claim",
    body: { workload: "hello" },
  });
  const byLabel = await kubectl("get", "tc", "-l", "tenancy.dev/workload=hello", "-o", "name");
  const expected = ["tenancyclaim.tenancy.dev/claim-alice-hello", "tenancyclaim.tenancy.dev/claim-carol-hello"];
  assert.equal(byLabel.trim().split("\n").sort(), expected);
  const { version } = await findBinaries({ need: CONTROL_PLANE_PROGRAMS });
  if (!versionAtLeast(version, "1.31")) {
    console.log(`note: ${version} has no selectable fields of custom resources, which came with 1.31`);
    return;
  }
  for (const selector of ["spec.workloadRef=hello", "spec.workloadRef=hello,status.phase=Active"]) {
    const byField = await kubectl("get", "tc", "--field-selector", selector, "-o", "name");
    assert.equal(byField.trim().split("\n").sort(), expected);
  }
  assert.is((await kubectl("get", "tc", "--field-selector", "spec.tenantId=nobody", "-o", "name")).trim(), "");
});

test("a deleted workload that is held is Terminating and says who holds it, to kubectl and the API alike", async () => {
  await tenancy.createWorkload("held");
  await tenancy.createPool("held", { workloadRef: "held", size: 1 });
  await wait("tp/held", "Ready");
  const claim = await tenancy.createClaim("dora", "held");
  await wait(`tc/${claim.metadata.name}`, "Ready");
  const holders = /now claim claim-dora-held and pool held do: release its claims and delete its pools$/;
  const route = { path: "/api/v1/workloads/held" };
  const deleted = await edge.call("DELETE /api/v1/workloads/{name}", route);
  const { message, ...answer } = deleted.json as { message: string };
  assert.equal(answer, { status: "deleted", phase: "Terminating" });
  assert.match(message, holders);

  await wait("tw/held", "Ready=false");
  const columns = ["custom-columns=P:.status.phase,R:.status.reason,M:.status.message", "--no-headers"];
  const [phase, reason, ...words] = (await kubectl("get", "tw/held", "-o", ...columns)).trim().split(/\s+/);
  assert.equal([phase, reason], ["Terminating", "InUse"]);
  assert.match(words.join(" "), holders);
  assert.match(await kubectl("get", "tw/held"), /Terminating +InUse/);
  const shown = (await edge.call("GET /api/v1/workloads/{name}", route)).json as { status: object };
  assert.equal(shown.status, { phase, reason, message: words.join(" ") });
  await wait("tp/held", "Ready=false");
  assert.is((await condition(pools, "held", "Degraded"))?.reason, "WorkloadTerminating");

  await kubectl("delete", "tp/held");
  await tenancy.until("the pool is no longer named", async () =>
    /now claim claim-dora-held do:/.test(await kubectl("get", "tw/held", "-o", "wide")),
  );
  await kubectl("delete", `tc/${claim.metadata.name}`);
  await kubectl("wait", "tw/held", "--for=delete", "--timeout=120s");
  assert.equal(edge.problems, []);
});

test("a label of a claim that a person changes comes back", async () => {
  await kubectl("label", "tc/claim-alice-hello", "tenancy.dev/workload=other", "--overwrite");
  await tenancy.untilClaim(
    "claim-alice-hello",
    (claim) => claim?.metadata.labels?.["tenancy.dev/workload"] === "hello",
  );
});

test("kubectl explain describes every field of the four kinds", async () => {
  for (const kind of ["tenancyworkloads", "tenancypools", "tenancyclaims", "tenancytriggers"]) {
    for (const part of ["spec", "status"]) {
      const text = await tenancy.until(`${kind}.${part} is published`, () =>
        kubectl("explain", `${kind}.${part}`).catch(() => undefined),
      );
      assert.match(text, /^FIELDS:$/m, text);
      const fields = text.slice(text.indexOf("FIELDS:")).split(/^ {2,3}(?=\w+\s+<)/m);
      assert.ok(fields.length > 1, text);
      for (const field of fields.slice(1)) assert.not.match(field, /<no description>|^\S+\s+<[^\n]*\n*$/, field);
    }
  }
  assert.match(await kubectl("explain", "tenancyworkloads.spec.idle.action"), /ENUM|hibernate/);
});

test.run();
