import { K8s, kind } from "kubernetes-fluent-client";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { configMaps, networkPolicies, pods, secrets } from "../../../crds/client/built-in-resources.ts";
import { createCluster } from "../../../crds/client/cluster.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import { workloads } from "../../../crds/kinds.ts";
import type { KubernetesObject } from "../../../crds/kubernetes.ts";
import { label } from "../../../crds/labels.ts";
import { formerPolicyName, policyName } from "../../../crds/names.ts";
import type { Resource } from "../../../crds/resource.ts";
import { applyNetworkPolicy } from "../../../operator/apply-object.ts";
import { operatorConfig } from "../../../operator/config.ts";
import { issueAuthority } from "../../../operator/egress/certificates.ts";
import { parseDomainPattern } from "../../../operator/egress/domain-pattern.ts";
import { leafFile } from "../../../operator/egress/egress-certificates.ts";
import { egressNames, formerEgressNames } from "../../../operator/egress/egress-names.ts";
import { FIELD_MANAGER } from "../../../operator/operator-cluster.ts";
import { exists, NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("names of an earlier version");
let tenancy: Tenancy;

const { egress } = operatorConfig({ TENANCY_PROXY_IMAGE: "simulated/proxy:1" });
const headers = [{ name: "Authorization", valueFrom: { secretKeyRef: { name: "vault", key: "token" } } }];
const network = {
  access: "restricted" as const,
  allowlist: ["a.example"],
  credentials: [{ domain: "api.example", headers }],
};
const leaf = leafFile(parseDomainPattern("api.example"));

test.before(async () => {
  tenancy = await startTenancy("names-upgrade", { nodes: false });
});
test.after(() => tenancy?.stop());

const at = (name: string) => ({ namespace: NAMESPACE, name });
const owned = (name: string, workload: string) => ({
  ...at(name),
  labels: { [label.managed]: "true", [label.workload]: workload },
});
const untilReady = (name: string) =>
  tenancy.until(`workload ${name} is Ready`, async () => {
    const { status, metadata } = await tenancy.client.get(workloads, at(name));
    return status?.phase === "Ready" && status.observedGeneration === metadata.generation;
  });
const untilGone = (resource: Resource<KubernetesObject>, name: string) =>
  tenancy.until(`${resource.plural} ${name} is gone`, async () => !(await exists(tenancy.client, resource, name)));

test("the authority, the settings that a pod mounts and the policy of an earlier version are taken over, and go", async () => {
  const { client } = tenancy;
  const name = "dot.ted";
  const [names, former] = [egressNames(name), formerEgressNames(name)];
  for (const part of ["settings", "leaves", "authority"] as const) assert.is.not(names[part], former[part]);
  const domains = [parseDomainPattern("api.example")];
  const authority = await issueAuthority({ workload: name, domains, now: new Date() });
  await client.create(secrets, {
    metadata: owned(former.authority, name),
    stringData: { "ca.crt": authority.certificate, "ca.key": authority.key },
  });
  await client.create(configMaps, { metadata: owned(former.settings, name), data: { "haproxy.cfg": "old" } });
  await client.create(networkPolicies, {
    metadata: owned(formerPolicyName(name), name),
    spec: { podSelector: {}, policyTypes: ["Egress"], egress: [{}] },
  });
  const own = [{ configMap: { name: former.settings } }];
  const pod = await client.create(pods, {
    metadata: owned("former-dot-ted", name),
    spec: {
      containers: [{ name: "workload", image: "simulated/hello:1" }],
      volumes: [{ name: "tenancy-egress", projected: { sources: own } }],
    },
  });

  // Before the operator, which takes what there is of no workload for left over.
  await tenancy.createWorkload(name, { network });
  const operator = tenancy.startOperator({ config: { egress } });
  await untilReady(name);
  const kept = await client.get(secrets, at(names.authority));
  assert.is(Buffer.from(kept.data?.["ca.key"] ?? "", "base64").toString(), authority.key);
  await untilGone(secrets, former.authority);
  await untilGone(networkPolicies, formerPolicyName(name));
  assert.ok(await exists(client, networkPolicies, policyName(name)));
  const current = (await client.get(configMaps, at(names.settings))).data?.["haproxy.cfg"];
  const mounted = await client.get(configMaps, at(former.settings));
  assert.is(mounted.data?.["haproxy.cfg"], current);

  await client.delete(pods, at(pod.metadata.name));
  await tenancy.until("the pod is gone", () => [...tenancy.pods.store.values()].length === 0);
  const body = { spec: { network: { allowlist: ["b.example"] } } };
  await client.patch(workloads, at(name), { type: "merge", body });
  await untilGone(configMaps, former.settings);
  await operator.stop();
});

test("workloads x and ca-x each keep their own Secrets", async () => {
  const operator = tenancy.startOperator({ config: { egress } });
  const both = ["x", "ca-x"];
  for (const name of both) await tenancy.createWorkload(name, { network });
  for (const name of both) await untilReady(name);
  const read = async () =>
    Promise.all(
      both.map(async (name) => ({
        authority: await tenancy.client.get(secrets, at(egressNames(name).authority)),
        leaves: await tenancy.client.get(secrets, at(egressNames(name).leaves)),
      })),
    );
  const before = await read();
  for (const [index, { authority, leaves }] of before.entries()) {
    assert.equal(Object.keys(authority.data ?? {}), ["ca.crt", "ca.key"]);
    assert.equal(Object.keys(leaves.data ?? {}), [leaf]);
    assert.equal(
      [authority, leaves].map(({ metadata }) => metadata.labels?.[label.workload]),
      [both[index], both[index]],
    );
  }
  // Another spec has both looked at once more.
  const body = { spec: { network: { allowlist: ["b.example"] } } };
  for (const name of both) await tenancy.client.patch(workloads, at(name), { type: "merge", body });
  for (const name of both) await untilReady(name);
  assert.equal(await read(), before);
  await operator.stop();
});

test("a network policy that an earlier version applied gets one owner, and what that version alone had set goes", async () => {
  const name = "applied-before";
  const { namespace, labels } = owned(policyName(name), name);
  // As that version did.
  await K8s(kind.NetworkPolicy).Apply({
    metadata: { namespace, name: policyName(name), labels: { ...labels, former: "true" } },
    spec: { podSelector: {}, policyTypes: ["Egress"], ingress: [{}], egress: [{}] },
  });
  const operator = tenancy.startOperator();
  await tenancy.createWorkload(name, { network: { access: "none" } });
  await untilReady(name);
  await operator.stop();

  const policy = await K8s(kind.NetworkPolicy).InNamespace(NAMESPACE).Get(policyName(name));
  assert.equal(
    policy.metadata?.managedFields?.map(({ manager }) => manager),
    ["tenancy-operator"],
  );
  assert.equal(policy.metadata?.labels, labels);
  assert.equal(policy.spec?.policyTypes, ["Ingress", "Egress"]);
  assert.is(policy.spec?.egress, undefined);
  assert.equal(policy.spec?.podSelector?.matchLabels, labels);
});

test("a policy that is deleted while its owners change is not made anew", async () => {
  const { client } = tenancy;
  const [policy] = (await client.list(networkPolicies, { namespace: NAMESPACE })).items;
  if (policy === undefined) throw new Error("there is no policy");
  const deletesAtOnce: ClusterClient = {
    ...client,
    async apply(resource, object, options) {
      const applied = await client.apply(resource, object, options);
      if (options.fieldManager === FIELD_MANAGER) await client.delete(resource, at(object.metadata.name));
      return applied;
    },
  };
  const wanted = { metadata: owned("between", "between"), spec: policy.spec };
  const cluster = createCluster({ client: deletesAtOnce, namespace: NAMESPACE, fieldManager: FIELD_MANAGER });
  const failure = await applyNetworkPolicy(wanted, { present: wanted, cluster }).catch((error) => error);
  assert.is(failure.status, 409, failure);
  assert.not.ok(await exists(client, networkPolicies, "between"));
});

test.run();
