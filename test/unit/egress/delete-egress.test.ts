import { test } from "uvu";
import * as assert from "uvu/assert";
import { ApiError } from "../../../crds/client/api-error.ts";
import type { KubernetesObject } from "../../../crds/kubernetes.ts";
import type { Resource } from "../../../crds/resource.ts";
import type { Workload, WorkloadSpec } from "../../../crds/workload.ts";
import type { OperatorContext } from "../../../operator/context.ts";
import { egressNames, formerEgressNames } from "../../../operator/egress/egress-names.ts";
import { deleteUnusedEgress, ensureEgress } from "../../../operator/egress/ensure-egress.ts";

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

/** A context in which these objects are there, and the API server has the workload with the spec. */
function contextOf(
  held: { configMaps?: KubernetesObject[]; secrets?: KubernetesObject[] } | undefined,
  spec: WorkloadSpec | undefined,
) {
  const calls: string[] = [];
  const informerOf = (objects: KubernetesObject[] = []) => ({
    store: { get: (key: string) => objects.find(({ metadata }) => key === `n/${metadata.name}`) },
  });
  const context = {
    config: { namespace: "n" },
    informers: { egress: held && { configMaps: informerOf(held.configMaps), secrets: informerOf(held.secrets) } },
    ensuredEgress: new Map(),
    client: {
      async get() {
        calls.push("get");
        if (spec === undefined) throw new ApiError("not found", { status: 404, reason: "NotFound" });
        return { ...workload, spec };
      },
      delete: async ({ plural }: Resource<KubernetesObject>, { name }: { name: string }, { uid }: { uid: string }) =>
        void calls.push(`${plural} ${name} ${uid}`),
    },
    metrics: { forgetCertificate: () => undefined },
  } as unknown as OperatorContext;
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
  const { context, calls } = contextOf(all, without);
  await ensureEgress(workload, context);
  assert.equal(calls, ["get", ...deleted]);
});

test("ensureEgress: a workload without proxy of which there is nothing costs no call", async () => {
  for (const held of [undefined, {}]) {
    const { context, calls } = contextOf(held, without);
    await ensureEgress(workload, context);
    assert.equal(calls, []);
  }
});

test("deleteUnusedEgress: what is left of a workload that is gone goes", async () => {
  const { context, calls } = contextOf(all, undefined);
  await deleteUnusedEgress(NAME, context);
  assert.equal(calls, ["get", ...deleted]);
});

test("deleteUnusedEgress: a workload that has a proxy, which no watch has shown yet, keeps it", async () => {
  const { context, calls } = contextOf(all, restricted);
  await deleteUnusedEgress(NAME, context);
  assert.equal(calls, ["get"]);
});

test.run();
