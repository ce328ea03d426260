import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation, claimLabels, finalizer, label } from "../../../crds/labels.ts";
import { hasEditedPod } from "../../../operator/claim/claim-pods.ts";
import { startWatches } from "../../../operator/controller.ts";
import { markChanges } from "../../../operator/pod/pod-identity.ts";
import { createPodController } from "../../../operator/pool/member-controller.ts";
import { testOperator } from "./test-operator.ts";
import { running, unprobedPod } from "./unprobed-program.ts";

const test = suite("edited pods");
const NAME = "inst-w-a";

function claimOf(tenantId: string, status: Claim["status"] = { phase: "Pending" }): Claim {
  const spec = { tenantId, workloadRef: "w" };
  const metadata = { name: `c-${tenantId}`, uid: `${tenantId}-uid`, finalizers: [finalizer.release] };
  return { metadata: { ...metadata, labels: claimLabels(spec) }, spec, status };
}

function marksOf(tenant: string) {
  return {
    labels: {
      ...{ [label.managed]: "true", [label.workload]: "w" },
      ...{ [label.tenant]: tenant, [label.binding]: `${tenant}-uid.0` },
    },
    annotations: {
      ...{ [annotation.claimUid]: `${tenant}-uid`, [annotation.claim]: `c-${tenant}` },
      ...{ [annotation.incarnation]: "0", [annotation.source]: "cold+data" },
    },
  };
}

/** A pod that is being made for a claim, under an operator that follows it. */
function operator() {
  const { api, context } = testOperator();
  const controller = createPodController(context);
  const queue = new Set<string>();
  for (const tenant of ["a", "b"]) api.add(claims, claimOf(tenant));
  api.add(pods, unprobedPod(running, { name: NAME, uid: "u", ...marksOf("a") }));
  startWatches([controller], { add: (_, key) => void queue.add(key) });
  return {
    api,
    context,
    edit(change: Pick<Pod["metadata"], "labels" | "annotations">) {
      const pod = api.read(pods, NAME);
      api.add(pods, { ...pod, metadata: { ...pod.metadata, ...change } });
    },
    async settle() {
      for (let runs = 0; queue.size > 0 && runs < 20; runs += 1) {
        const [key = ""] = queue;
        queue.delete(key);
        await controller.reconcile(key, { signal: new AbortController().signal });
      }
      assert.is(queue.size, 0);
    },
    marks: () => api.read(pods, NAME).metadata,
  };
}

test("a pod whose every mark is edited to those of another claim is given back to its own", async () => {
  const { edit, settle, marks, context } = operator();
  edit(marksOf("b"));
  await settle();
  assert.equal([marks().labels, marks().annotations], [marksOf("a").labels, marksOf("a").annotations]);
  assert.is(context.editedPods.size, 0);
});

test("a pod that loses every mark gets them back", async () => {
  const { edit, settle, marks, context } = operator();
  edit({ labels: {}, annotations: {} });
  await settle();
  assert.equal([marks().labels, marks().annotations], [marksOf("a").labels, marksOf("a").annotations]);
  assert.is(context.editedPods.size, 0);
});

test("an edited incarnation is taken back", async () => {
  const { edit, settle, marks, context } = operator();
  edit({ annotations: { ...marksOf("a").annotations, [annotation.incarnation]: "7" } });
  await settle();
  assert.equal([marks().labels, marks().annotations], [marksOf("a").labels, marksOf("a").annotations]);
  assert.is(context.editedPods.size, 0);
});

test("the labels of a claim are put back, and others of their kind go", async () => {
  const { api, edit, settle, marks, context } = operator();
  const claim = claimOf("a");
  api.add(claims, { ...claim, spec: { ...claim.spec, labels: { team: "red" } } });
  const own = { ...marksOf("a").labels, "claim.tenancy.dev/team": "red", mine: "y" };
  for (const labels of [
    { ...own, "claim.tenancy.dev/team": "blue" },
    { ...own, "claim.tenancy.dev/more": "x" },
    { ...marksOf("a").labels, mine: "y" },
  ]) {
    edit({ labels });
    await settle();
    assert.equal(marks().labels, own);
    assert.is(context.editedPods.size, 0);
  }
});

test("labels that were edited while no operator saw it are put back too", () => {
  const owner = claimOf("a");
  owner.spec.labels = { team: "red" };
  const labels = { ...marksOf("a").labels, "claim.tenancy.dev/team": "blue", "claim.tenancy.dev/more": "x" };
  const pod = unprobedPod(running, { name: NAME, uid: "u", ...marksOf("a"), labels });
  const put = { "claim.tenancy.dev/team": "red", "claim.tenancy.dev/more": null };
  assert.equal(markChanges(pod, { owner }), { labels: put });
});

test("a warm pod does not keep a label that only claims give", async () => {
  const { api, context } = operator();
  const controller = createPodController(context);
  const labels = { [label.managed]: "true", [label.workload]: "w", [label.pool]: "p" };
  const warm = (more: object) => unprobedPod(running, { name: "inst-warm", uid: "w", labels: { ...labels, ...more } });
  const queue = new Set<string>();
  api.add(pods, warm({}));
  startWatches([controller], { add: (_, key) => void queue.add(key) });
  api.add(pods, warm({ "claim.tenancy.dev/team": "red" }));
  assert.ok(queue.has("n/inst-warm"));
  await controller.reconcile("n/inst-warm", { signal: new AbortController().signal });
  assert.equal(api.read(pods, "inst-warm").metadata.labels, labels);
});

test("an edit of a person's own copy of a pod, as kubectl debug makes one, holds up nothing", async () => {
  const { api, settle, context } = operator();
  const { annotations } = marksOf("a");
  const copy = (tenant: string) =>
    unprobedPod(running, { name: "debugger", uid: "d", annotations, labels: { [label.tenant]: tenant } });
  for (const tenant of ["x", "y"]) api.add(pods, copy(tenant));
  await settle();
  assert.equal(api.read(pods, "debugger").metadata.labels, { [label.tenant]: "y" });
  assert.not(hasEditedPod(api.read(claims, "c-a"), context));
});

test.run();
