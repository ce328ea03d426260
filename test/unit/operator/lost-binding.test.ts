import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { NetworkError } from "../../../crds/client/api-error.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims, pools, workloads } from "../../../crds/kinds.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation, label } from "../../../crds/labels.ts";
import { poolInstanceName } from "../../../crds/names.ts";
import { startPod } from "../../../operator/claim/start-pod.ts";
import { renderPod } from "../../../operator/pod/render-pod.ts";
import { testOperator } from "./test-operator.ts";

const test = suite("a binding of a warm pod whose answer is lost, while the watch lags");

test("the next try finds the pod that is bound, and binds no second one", async () => {
  const { api, context } = testOperator();
  const workload = api.add(workloads, {
    metadata: { name: "w", uid: "w-uid", generation: 1 },
    spec: { image: { ref: "i:1" }, health: { httpGet: { path: "/", port: 80 } } },
    status: { phase: "Ready", observedGeneration: 1 },
  });
  api.add(pools, { metadata: { name: "p" }, spec: { workloadRef: "w", size: 2 } });
  const names = ["a", "b"].map((suffix) => poolInstanceName({ workload: "w", suffix }));
  for (const name of names) {
    const options = { name, labels: { [label.pool]: "p", [label.poolStatus]: "ready" }, annotations: {} };
    const status = { podIP: "10.0.0.1", conditions: [{ type: "Ready", status: "True" }] };
    api.add(pods, { ...renderPod(workload, options, context.config), status } as Pod);
  }
  const claim: Claim = api.add(claims, {
    metadata: { name: "c", uid: "c-uid" },
    spec: { tenantId: "t", workloadRef: "w" },
    status: { phase: "Pending" },
  });
  api.onNext(
    "patch",
    ({ name, body }) => {
      const { metadata } = api.read(pods, name);
      const { labels, annotations } = (body as Pod).metadata;
      const bound = { ...metadata, labels: { ...metadata.labels, ...labels }, annotations };
      api.add(pods, { ...api.read(pods, name), metadata: bound } as Pod, { hidden: true });
      throw new NetworkError("the connection was cut", { requestWasSent: true });
    },
    pods,
  );
  await startPod(claim, context).catch((error: unknown) => assert.instance(error, NetworkError));
  const outcome = await startPod(claim, context);
  const bound = names.filter((name) => api.read(pods, name).metadata.annotations?.[annotation.claimUid] === "c-uid");
  assert.equal(bound, [names[0]]);
  assert.is(outcome !== undefined && "pod" in outcome && outcome.pod.metadata.name, names[0]);
});

test.run();
