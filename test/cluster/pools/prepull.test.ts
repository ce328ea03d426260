import { suite } from "uvu";
import * as assert from "uvu/assert";
import { networkPolicies, nodes, pods } from "../../../crds/client/built-in-resources.ts";
import { type Informer, startInformer } from "../../../crds/client/watch/informer.ts";
import { workloads } from "../../../crds/kinds.ts";
import type { Node, Pod } from "../../../crds/kubernetes.ts";
import { label } from "../../../crds/labels.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("images that nodes pull before a pod needs them");
const NODES = 12;
const workload = (name: string) => ({ namespace: NAMESPACE, name });

let tenancy: Tenancy;
let pulling: Informer<Pod, never>;
let most = 0;
const everOn = new Set<string>();
const ending = new AbortController();

test.before(async () => {
  tenancy = await startTenancy("test-prepull", { nodes: { nodes: NODES, readyAfterMs: 300 } });
  const { items } = await tenancy.client.list(nodes);
  for (const [place, { metadata }] of items.entries()) {
    const labels = place < 4 ? { pool: "gpu" } : {};
    // A new node is tainted as not ready, until the controller manager sees that it is. No workload tolerates the other.
    const taints = place < NODES - 1 ? [] : [{ key: "example.com/other", effect: "NoSchedule" }];
    await tenancy.client.patch(nodes, metadata, { type: "merge", body: { metadata: { labels }, spec: { taints } } });
  }
  pulling = startInformer({
    ...{ client: tenancy.client, namespace: NAMESPACE, signal: ending.signal },
    ...{ resource: pods, labelSelector: label.prepull, indexes: {} },
    onChange({ object }) {
      most = Math.max(most, pulling?.store.size ?? 0);
      if (object.spec.nodeName !== undefined) everOn.add(object.spec.nodeName);
    },
  });
  tenancy.startOperator({ config: { watchNodes: true } });
});
test.after(async () => {
  ending.abort();
  await pulling?.done;
  await tenancy?.stop();
});

test("each node that may run the workload pulls its image, a few at a time, and nothing stays", async () => {
  await tenancy.createWorkload("wide", { image: { ref: "simulated/hello:1", prePull: true } });
  const { status } = await tenancy.untilWorkload("wide", ({ status }) => status?.images?.pulled === NODES - 1);
  assert.equal([status?.images?.nodes, status?.images?.failed], [NODES - 1, []]);
  assert.is(everOn.size, NODES - 1);
  assert.ok(most >= 1 && most <= 5, `${most} at a time`);
  await tenancy.until("no pod that pulls", () => pulling.store.size === 0);
  const { spec } = await tenancy.client.get(networkPolicies, workload("tenancy-prepull"));
  assert.equal([spec.ingress, spec.egress, spec.policyTypes], [undefined, undefined, ["Ingress", "Egress"]]);
});

test("an image that cannot be pulled is named with its nodes, and only those of the workload are asked", async () => {
  await tenancy.createWorkload("missing", {
    image: { ref: "simulated/missing:1", prePull: true },
    scheduling: { nodeSelector: { pool: "gpu" } },
  });
  const { status } = await tenancy.untilWorkload("missing", ({ status }) => status?.images?.failed.length === 4);
  assert.equal([status?.images?.nodes, status?.images?.pulled], [4, 0]);
  assert.ok(status?.images?.failed.every(({ message }) => message !== ""));
  // The workload works all the same.
  assert.is(status?.phase, "Ready");
});

test("a changed image is pulled again, and a new node pulls it too", async () => {
  everOn.clear();
  await tenancy.client.patch(workloads, workload("wide"), {
    ...{ type: "merge", body: { spec: { image: { ref: "simulated/hello:2" } } } },
  });
  await tenancy.untilWorkload(
    "wide",
    ({ status }) => status?.images?.image === "simulated/hello:2" && status.images.pulled === NODES - 1,
  );
  assert.is(everOn.size, NODES - 1);
  const images = [{ names: ["docker.io/simulated/hello:2"], sizeBytes: 1 }];
  await tenancy.client.create(nodes, { metadata: { name: "late" }, status: { images } } as Node);
  await tenancy.client.patch(nodes, { name: "late" }, { type: "merge", body: { spec: { taints: [] } } });
  const { status } = await tenancy.untilWorkload("wide", ({ status }) => status?.images?.nodes === NODES);
  assert.ok(status?.images?.pulledOn.includes("late"));
});

test("the pods end with what asked for them", async () => {
  await tenancy.client.patch(workloads, workload("missing"), {
    ...{ type: "merge", body: { spec: { image: { prePull: null } } } },
  });
  await tenancy.untilWorkload("missing", ({ status }) => status?.images === undefined);
  await tenancy.until("no pod that pulls", () => pulling.store.size === 0);
});

test.run();
