import { suite } from "uvu";
import * as assert from "uvu/assert";
import { configMaps, jobs, networkPolicies, pods, secrets, services } from "../../../crds/client/built-in-resources.ts";
import { claims, pools, workloads } from "../../../crds/kinds.ts";
import type { KubernetesObject, Pod, Service } from "../../../crds/kubernetes.ts";
import { label } from "../../../crds/labels.ts";
import type { Resource } from "../../../crds/resource.ts";
import { SNAPSHOTS_LABELS, SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import { fencedClient, NotLeadingError, type Term } from "../../../operator/leader.ts";
import { createOperatorCluster } from "../../../operator/operator-cluster.ts";
import { errorOf } from "../../error-of.ts";
import { testOperator } from "./test-operator.ts";

const test = suite("createOperatorCluster");

const named = (name: string, labels: Record<string, string> = {}, namespace = "n") => ({
  metadata: { name, namespace, labels },
});
const pod = (name: string, labels?: Record<string, string>, namespace?: string): Pod => ({
  ...named(name, labels, namespace),
  spec: { containers: [] },
});
const namesIn = (informer: { store: { values(): Iterable<KubernetesObject> } } | undefined) =>
  [...(informer?.store.values() ?? [])].map(({ metadata }) => metadata.name);

/** An operator that builds images and has proxies, and whose watches show nothing. */
function operator(term: Pick<Term, "writeTimeLeftMs"> = { writeTimeLeftMs: () => 1000 }) {
  const env = { TENANCY_REGISTRY: "r.example/built", TENANCY_PROXY_IMAGE: "proxy:1", TENANCY_BUILD_NAMESPACE: "b" };
  const { api, context } = testOperator({ env });
  api.lag = true;
  const served: Service[] = [];
  const { informers } = context;
  const client = fencedClient(api.client, term as Term);
  const serviceWatch = { put: (service: Service) => void served.push(service) };
  return {
    api,
    informers,
    served,
    cluster: createOperatorCluster({ client, namespace: "n", informers, serviceWatch }),
  };
}

test("the answer to a write is in the informer that follows the object", async () => {
  const { cluster, informers, served } = operator();
  const { builds, egress } = informers;
  await cluster(pods).create(pod("instance"));
  await cluster(pods).create(pod(SNAPSHOTS_NAME, SNAPSHOTS_LABELS));
  await cluster(pods).create(pod("build", { [label.build]: "true" }, "b"));
  assert.equal(
    [namesIn(informers.pods), namesIn(informers.helperPods), namesIn(builds?.pods)],
    [["instance"], [SNAPSHOTS_NAME], ["build"]],
  );
  // The informer of pods leaves such a one out.
  await cluster(pods).create(pod("labelled", { [label.build]: "true" }));
  assert.equal(namesIn(informers.pods), ["instance"]);
  const spec = { podSelector: {} };
  await cluster(networkPolicies).apply({ ...named("of-workload"), spec });
  await cluster(networkPolicies).apply({ ...named("of-builds", {}, "b"), spec });
  assert.equal([namesIn(informers.networkPolicies), namesIn(builds?.policies)], [["of-workload"], ["of-builds"]]);
  for (const [resource, informer] of [
    [claims, informers.claims],
    [workloads, informers.workloads],
    [pools, informers.pools],
    [jobs, builds?.jobs],
    [configMaps, egress?.configMaps],
  ] as const) {
    const object = { ...named("x"), spec: { workloadRef: "w", image: { ref: "i" } } };
    await cluster(resource as Resource<KubernetesObject>).create(object);
    assert.equal(namesIn(informer), ["x"], resource.plural);
  }
  await cluster(services).create({ ...named("service"), spec: {} });
  assert.is(served[0]?.metadata.name, "service");
});

test("no value of a Secret is stored", async () => {
  const { cluster, informers } = operator();
  await cluster(secrets).create({ ...named("s"), data: { key: "dmFsdWU=" } });
  assert.equal([...(informers.egress?.secrets.store.values() ?? [])].map(Object.keys), [["metadata"]]);
});

test("an operator that does not lead writes nothing, and reads", async () => {
  const { api, cluster, informers } = operator({ writeTimeLeftMs: () => 0 });
  api.add(pods, pod("there"));
  const there = await cluster(pods).named("there").get({ refresh: true });
  api.calls.length = 0;
  const writes = [
    () => cluster(pods).create(pod("a")),
    () => cluster(networkPolicies).apply({ ...named("b"), spec: { podSelector: {} } }),
    () =>
      cluster(pods)
        .of(there)
        .patch({ metadata: { labels: { a: "b" } } }),
    () => cluster(pods).of(there).replace(there),
    () => cluster(pods).of(there).delete(),
  ];
  for (const write of writes) assert.instance(await errorOf(write()), NotLeadingError);
  assert.equal([api.calls, namesIn(informers.pods)], [[], ["there"]]);
});

test.run();
