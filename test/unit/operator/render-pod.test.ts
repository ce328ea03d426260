import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { Workload } from "../../../crds/workload.ts";
import { operatorConfig } from "../../../operator/config.ts";
import { renderPod, templateHash } from "../../../operator/pod/render-pod.ts";

const test = suite("renderPod");
const config = operatorConfig({});
const identity = { name: "inst-a-b-c", labels: { "tenancy.dev/tenant": "a" }, annotations: {} };

function workload(spec: Partial<Workload["spec"]> = {}, status?: Partial<Workload["status"]>): Workload {
  return {
    metadata: { name: "hello", uid: "u" },
    spec: { image: { ref: "i" }, ...spec },
    ...(status !== undefined && { status: { phase: "Ready", ...status } }),
  };
}

const containerOf = (of: Workload, by = config) => renderPod(of, identity, by).spec.containers[0];

test("limits are always set, and requests equal them", () => {
  const { limits, requests } = containerOf(workload())?.resources ?? {};
  assert.equal(limits, { cpu: "1", memory: "512Mi", "ephemeral-storage": "1Gi" });
  assert.equal(requests, { cpu: "1000m", memory: "524288Ki", "ephemeral-storage": "1Gi" });
});

test("requests are divided by the overcommit", () => {
  const by = operatorConfig({ TENANCY_CPU_OVERCOMMIT: "4", TENANCY_MEMORY_OVERCOMMIT: "2" });
  const { limits, requests } = containerOf(workload(), by)?.resources ?? {};
  assert.equal([limits?.cpu, requests?.cpu, requests?.memory], ["1", "250m", "262144Ki"]);
});

test("the first port is the endpoint's, without ports the health port, else 8080", () => {
  const ports = (spec: Partial<Workload["spec"]>) =>
    containerOf(workload(spec))?.ports?.map(({ containerPort }) => containerPort);
  assert.equal(ports({ network: { ports: [9, 7] } }), [9, 7]);
  assert.equal(ports({ health: { httpGet: { port: 81 } } }), [81]);
  assert.equal(ports({}), [8080]);
});

test("health gives a start-up probe once a second and a readiness probe as asked; without it there is none", () => {
  const container = containerOf(
    workload({ health: { intervalSeconds: 30, unhealthyThreshold: 2, httpGet: { path: "/h", port: 81 } } }),
  );
  assert.is(container?.startupProbe?.periodSeconds, 1);
  assert.equal(container?.readinessProbe, {
    httpGet: { path: "/h", port: 81 },
    periodSeconds: 30,
    timeoutSeconds: 5,
    failureThreshold: 2,
  });
  assert.is(container?.livenessProbe, undefined);
  assert.is(containerOf(workload())?.readinessProbe, undefined);
});

test("health without httpGet looks whether the endpoint's port takes connections", () => {
  assert.equal(containerOf(workload({ health: {}, network: { ports: [99] } }))?.readinessProbe?.tcpSocket, {
    port: 99,
  });
});

test("runAsNonRoot is left out only where the kubelet has refused the image", () => {
  assert.is(containerOf(workload())?.securityContext?.runAsNonRoot, true);
  const rooted = containerOf(workload({}, { runsAsRoot: true }))?.securityContext;
  assert.is(rooted?.runAsNonRoot, undefined);
  assert.equal([rooted?.allowPrivilegeEscalation, rooted?.capabilities], [false, { drop: ["ALL"] }]);
});

test("the template hash is the pod's, tells templates apart, and does not depend on who the pod is for", () => {
  const one = workload();
  assert.is(
    renderPod(one, identity, config).metadata.annotations?.["tenancy.dev/template-hash"],
    templateHash(one, config),
  );
  assert.is(templateHash(workload(), config), templateHash(workload(), config));
  assert.is.not(templateHash(workload(), config), templateHash(workload({ image: { ref: "j" } }), config));
  assert.is.not(templateHash(workload(), config), templateHash(workload({}, { runsAsRoot: true }), config));
});

test("the entrypoint's parts are taken over as they are", () => {
  const container = containerOf(
    workload({ entrypoint: { cmd: "/bin/x", args: ["a b", "$(c)"], env: { K: "v" }, workdir: "/w" } }),
  );
  assert.equal(
    [container?.command, container?.args, container?.env, container?.workingDir],
    [["/bin/x"], ["a b", "$(c)"], [{ name: "K", value: "v" }], "/w"],
  );
});

test.run();
