import { test } from "uvu";
import * as assert from "uvu/assert";
import { configMaps, secrets } from "../../../crds/client/built-in-resources.ts";
import type { DeleteOptions } from "../../../crds/client/cluster-client.ts";
import { workloads } from "../../../crds/kinds.ts";
import type { ConfigMap, Secret } from "../../../crds/kubernetes.ts";
import type { Workload, WorkloadSpec } from "../../../crds/workload.ts";
import { egressNames, formerEgressNames } from "../../../operator/egress/egress-names.ts";
import { deleteUnusedEgress, ensureEgress } from "../../../operator/workload/ensure-egress.ts";
import { testOperator } from "../operator/test-operator.ts";

const NAME = "dot.ted";
const names = egressNames(NAME);
const former = formerEgressNames(NAME);
const ofAnother = { "tenancy.dev/managed": "true", "tenancy.dev/workload": "another" };
const own = { "tenancy.dev/managed": "true", "tenancy.dev/workload": NAME };

const without: WorkloadSpec = { image: { ref: "a" } };
const restricted: WorkloadSpec = { ...without, network: { access: "restricted", allowlist: ["a.example"] } };
const workload: Workload = {
  metadata: { name: NAME, namespace: "n", uid: "u", generation: 2 },
  spec: without,
  status: { phase: "Ready", observedGeneration: 2 },
};

/** An operator with these objects, and the workload with the spec. */
function operatorWith(
  held: { configMaps?: ConfigMap[]; secrets?: Secret[] } | undefined,
  spec: WorkloadSpec | undefined,
) {
  const { api, context } = testOperator({ env: held === undefined ? {} : { TENANCY_PROXY_IMAGE: "proxy:1" } });
  for (const object of held?.configMaps ?? []) api.add(configMaps, object);
  for (const object of held?.secrets ?? []) api.add(secrets, object);
  if (spec !== undefined) api.add(workloads, { ...workload, spec });
  const calls = () =>
    api.calls.map(({ verb, kind, name, body }) =>
      verb === "delete" ? `${kind} ${name} ${(body as DeleteOptions).uid}` : verb,
    );
  return { context, calls };
}

const made = (name: string, uid: string, labels: Record<string, string> = own) => ({ metadata: { name, uid, labels } });
const all = {
  configMaps: [made(names.settings, "s"), made(former.settings, "f")],
  secrets: [made(names.leaves, "l"), made(names.authority, "a"), made(former.authority, "o", ofAnother)],
};
const deleted = [
  `configmaps ${names.settings} s`,
  `configmaps ${former.settings} f`,
  `secrets ${names.leaves} l`,
  `secrets ${names.authority} a`,
];

test("ensureEgress: what a workload's proxy lived by goes, also where its spec was changed long ago", async () => {
  const { context, calls } = operatorWith(all, without);
  await ensureEgress(workload, context);
  assert.equal(calls(), ["get", ...deleted]);
});

test("ensureEgress: a workload without proxy of which there is nothing costs no call", async () => {
  for (const held of [undefined, {}]) {
    const { context, calls } = operatorWith(held, without);
    await ensureEgress(workload, context);
    assert.equal(calls(), []);
  }
});

test("deleteUnusedEgress: what is left of a workload that is gone goes", async () => {
  const { context, calls } = operatorWith(all, undefined);
  await deleteUnusedEgress(NAME, context);
  assert.equal(calls(), ["get", ...deleted]);
});

test("deleteUnusedEgress: a workload that has a proxy, which no watch has shown yet, keeps it", async () => {
  const { context, calls } = operatorWith(all, restricted);
  await deleteUnusedEgress(NAME, context);
  assert.equal(calls(), ["get"]);
});

test.run();
