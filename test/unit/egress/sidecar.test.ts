import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { WorkloadNetwork } from "../../../crds/network.ts";
import { egressRules } from "../../../operator/egress/egress-rules.ts";
import { egressSidecar, pickProxyUid, shareInitContainer } from "../../../operator/egress/egress-sidecar.ts";
import { redirectScript } from "../../../operator/egress/redirect-script.ts";
import { podTools, TOOLS_FOLDER } from "../../../operator/snapshots/pods/pod-tools.ts";

const test = suite("egressSidecar");
const header = (name: string, secret: string, key: string) => ({
  name,
  valueFrom: { secretKeyRef: { name: secret, key } },
});
const credentials = [
  { domain: "api.example", headers: [header("A", "one", "a"), header("B", "one", "b"), header("C", "two", "a")] },
];

function sidecar(network: WorkloadNetwork, proxyUid = 1234567890) {
  const rules = egressRules({ image: { ref: "i" }, network: { access: "restricted", ...network } });
  if (rules === undefined) throw new Error("no rules");
  return egressSidecar({ workload: "hello", rules, image: "proxy", proxyUid });
}

test("the redirect runs as root with NET_ADMIN and nothing else, the proxy as its own user with nothing", () => {
  const { initContainer, container } = sidecar({ allowlist: ["a.b"] });
  assert.equal(initContainer.securityContext?.capabilities, { drop: ["ALL"], add: ["NET_ADMIN"] });
  assert.is(initContainer.securityContext?.runAsUser, 0);
  assert.equal(container.securityContext, {
    runAsUser: 1234567890,
    runAsGroup: 1234567890,
    runAsNonRoot: true,
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ["ALL"] },
  });
  for (const { resources, securityContext } of [initContainer, container]) {
    assert.ok(resources?.limits?.memory && resources.limits.cpu && resources.requests?.memory);
    assert.is(securityContext?.allowPrivilegeEscalation, false);
  }
});

test("nothing of the allowlist is in the pod, so a change of it changes no template", () => {
  assert.equal(sidecar({ allowlist: ["a.b"], credentials }), sidecar({ allowlist: ["c.d", "*.e.f"], credentials }));
  assert.is.not(JSON.stringify(sidecar({ credentials })), JSON.stringify(sidecar({ allowlist: ["a.b"] })));
});

test("the workload's container gets the trust bundle and its variables only with credentials, and no other volume", () => {
  const without = sidecar({ allowlist: ["a.b"] });
  assert.equal([without.workloadEnv, without.workloadMounts], [[], []]);
  const { workloadEnv, workloadMounts } = sidecar({ credentials });
  assert.equal(workloadMounts, [{ name: "tenancy-trust", mountPath: "/.tenancy-trust", readOnly: true }]);
  const names = workloadEnv.map(({ name }) => name).join(" ");
  assert.is(
    names,
    "SSL_CERT_FILE NODE_EXTRA_CA_CERTS REQUESTS_CA_BUNDLE CURL_CA_BUNDLE GIT_SSL_CAINFO AWS_CA_BUNDLE DENO_CERT",
  );
  assert.ok(workloadEnv.every(({ value }) => value === "/.tenancy-trust/ca-bundle.pem"));
});

test("the sidecar mounts the keys that headers name and no other, and never the authority's", () => {
  const { volumes } = sidecar({ credentials });
  const sources = volumes.find(({ name }) => name === "tenancy-egress")?.projected?.sources ?? [];
  assert.is(sources.length, 5);
  assert.equal(sources[3]?.secret, {
    name: "one",
    optional: true,
    items: [
      { key: "a", path: "values/one/a" },
      { key: "b", path: "values/one/b" },
    ],
  });
  assert.equal(sources[4]?.secret, { name: "two", optional: true, items: [{ key: "a", path: "values/two/a" }] });
  assert.not.match(JSON.stringify(volumes), /tenancy-egress-ca/);
});

test("the sidecar alone mounts the pod's tenant, which follows the label, and nothing else of the pod", () => {
  const { volumes, container, workloadMounts, initContainer } = sidecar({ credentials });
  const sources = volumes.find(({ name }) => name === "tenancy-pod")?.projected?.sources;
  const item = { path: "tenant", fieldRef: { fieldPath: "metadata.labels['tenancy.dev/tenant']" } };
  assert.equal(sources, [{ downwardAPI: { items: [item] } }]);
  assert.ok(container.volumeMounts?.some(({ name }) => name === "tenancy-pod"));
  for (const mounts of [workloadMounts, initContainer.volumeMounts ?? []])
    assert.not.ok(mounts.some(({ name }) => name === "tenancy-pod"));
});

test("each pod's proxy has a user that no image can know", () => {
  const picked = new Set(Array.from({ length: 100 }, pickProxyUid));
  assert.ok(picked.size > 90);
  for (const uid of picked) assert.ok(uid >= 1_000_000_000 && uid < 2 ** 31);
  for (const uid of [0, -1, 1.5, Number.NaN]) assert.throws(() => redirectScript({ proxyUid: uid }), /Cannot redirect/);
});

test("the redirect and the snapshot tools share an init container, but not where files are restored", () => {
  const redirect = sidecar({ credentials }).initContainer;
  const tools = (restoreAs?: { uid: number; gid: number }) =>
    podTools({ image: "tools", overlayDirs: ["/data"], diskGb: 1, restoreAs }).initContainers;
  assert.equal(shareInitContainer({ redirect, tools: [], isRestored: false }), [redirect]);

  const [shared, ...others] = shareInitContainer({ redirect, tools: tools(), isRestored: false });
  assert.is(others.length, 0);
  assert.equal(shared?.securityContext, redirect.securityContext);
  const script = shared?.command?.at(-1) ?? "";
  assert.ok(script.startsWith(redirect.command?.at(-1) ?? "none"));
  assert.ok(script.endsWith(tools()[0]?.command?.at(-1) ?? "none"));
  assert.ok(shared?.volumeMounts?.some(({ mountPath }) => mountPath === TOOLS_FOLDER));

  const restoring = tools({ uid: 7, gid: 7 });
  assert.equal(shareInitContainer({ redirect, tools: restoring, isRestored: true }), [redirect, ...restoring]);
});

test.run();
