// @own-cluster
// @limit 900
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { configMaps, namespaces, pods, secrets, serviceAccounts } from "../../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import type { Pod } from "../../../crds/kubernetes.ts";
import { annotation, CLAIM_LABEL_PREFIX, label, WORKLOAD_CONTAINER } from "../../../crds/labels.ts";
import { PROXY_CONTAINER, REDIRECT_CONTAINER } from "../../../operator/egress/layout.ts";
import { TOOLS_CONTAINER } from "../../../operator/snapshots/pods/pod-tools.ts";
import { findBinaries } from "../../../scripts/cluster/binaries.ts";
import { versionAtLeast } from "../../../scripts/cluster/kubernetes/version-at-least.ts";
import { CONTROL_PLANE_PROGRAMS } from "../../../scripts/cluster/programs.ts";
import { LAST_RELEASE, lacksHistory } from "../../e2e/upgrade/last-release.ts";
import { eventually } from "../../eventually.ts";
import { root, runPageCommands } from "../../page-commands.ts";
import { NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";
import { type AccountClient, accountClient } from "./account-client.ts";
import { kubectlFor, validation } from "./kubectl.ts";
import { reasonOf } from "./reason-of.ts";
import { fullPod, proxiedPod, renderedPods } from "./rendered-pods.ts";
import { withValues } from "./with-values.ts";
import { writeOverlay } from "./write-overlay.ts";

const test = suite("admission");
let tenancy: Tenancy;
let operator: AccountClient;
let api: AccountClient;

/** As anybody who may make pods would make one: not the operator's, and not hardened more than it must be. */
const otherPod: Pod = {
  metadata: { name: "other", namespace: NAMESPACE },
  spec: { containers: [{ name: "c", image: "simulated/hello:1" }] },
};
const restricted = "restricted-check";
const baseline = "baseline-check";

test.before(async () => {
  tenancy = await startTenancy("admission");
  const { cluster, client } = tenancy;
  const kubectl = await kubectlFor(cluster.kubeconfigPath);
  // Pod Security off, so that whatever is refused is refused by the policies.
  const overlay = await writeOverlay({ components: ["split-edge", "admission", "egress"] });
  await kubectl("apply", "-k", overlay.path);
  await overlay.remove();
  for (const [name, level] of [
    [restricted, "restricted"],
    [baseline, "baseline"],
  ] as const) {
    const labels = { "pod-security.kubernetes.io/enforce": level };
    await client.create(namespaces, { metadata: { name, labels } });
  }
  const shared = { cluster, kubectl, namespace: NAMESPACE };
  operator = await accountClient({ ...shared, account: "tenancy-operator" });
  api = await accountClient({ ...shared, account: "tenancy-api" });
  // The API server takes new policies up within seconds.
  const helper = withValues(otherPod, { "metadata.name": "tenancy-snapshots" });
  const instance = withValues(otherPod, { "metadata.labels": { [label.managed]: "true" } });
  for (const [policy, by, pod] of [
    ["tenancy-pods", client, withValues(otherPod, { "spec.hostPID": true })],
    ["tenancy-managed-pods", operator, instance],
    ["tenancy-pod-identity", client, fullPod("inst-x")],
    ["tenancy-snapshots-volume", client, helper],
  ] as const) {
    await eventually(async () => (await refusal(by, pod))?.includes(`'${policy}'`) ?? false);
  }
  await eventually(async () => (await execRefusal(api, "tenancy-operator-x")).includes("'tenancy-exec'"));
});

/** Why a pod is refused; undefined where it is not. Nothing is created. */
async function refusal(client: ClusterClient, pod: Pod): Promise<string | undefined> {
  return reasonOf(client.create(pods, pod, { dryRun: true }));
}

/** @param how another way into a pod than `exec` */
async function execRefusal(client: ClusterClient, pod: string, how = "exec?command=true&stdout=true"): Promise<string> {
  const path = `/api/v1/namespaces/${NAMESPACE}/pods/${pod}/${how}`;
  return (await reasonOf(client.request({ method: "POST", path }))) ?? "";
}

test.after(async () => {
  operator?.close();
  api?.close();
  await tenancy?.stop();
});

test("every pod that the operator makes is taken by the policies", async () => {
  for (const { what, pod } of renderedPods) assert.is(await refusal(operator, pod), undefined, what);
});

test("every pod that the operator makes passes the levels of Pod Security as documented", async () => {
  for (const { what, pod, level } of renderedPods) {
    for (const [namespace, passes] of [
      [baseline, level !== "privileged"],
      [restricted, level === "restricted"],
    ] as const) {
      const refused = await refusal(tenancy.client, withValues(pod, { "metadata.namespace": namespace }));
      console.log(`note: ${namespace} ${refused === undefined ? "takes" : "refuses"} ${what}`);
      assert.is(refused === undefined, passes, `${what}: ${refused}`);
      if (level === "privileged") assert.match(refused ?? "", /violates PodSecurity.*NET_ADMIN/);
    }
  }
});

test("operator and edge pass restricted, and the policies take them", async () => {
  const kubectl = await kubectlFor(tenancy.cluster.kubeconfigPath);
  const deployments = JSON.parse(await kubectl("-n", NAMESPACE, "get", "deployments", "-o", "json")) as {
    items: { metadata: { name: string }; spec: { template: Pod } }[];
  };
  assert.is(deployments.items.length, 3);
  for (const { metadata, spec } of deployments.items) {
    for (const namespace of [NAMESPACE, restricted]) {
      const pod = withValues(spec.template, { "metadata.name": `${metadata.name}-x`, "metadata.namespace": namespace });
      assert.is(await refusal(tenancy.client, pod), undefined, metadata.name);
    }
  }
});

type ManagedWrong = readonly [what: string, values: Record<string, unknown>, says: string];

/** One setting wrong each: what, the values, and what the refusal names. */
const managedWrongs: readonly ManagedWrong[] = [
  [
    "a container keeps its capabilities",
    { "spec.containers.0.securityContext.capabilities": undefined },
    "capabilities.drop",
  ],
  [
    "a container drops another",
    { "spec.containers.0.securityContext.capabilities.drop": ["NET_RAW"] },
    "capabilities.drop",
  ],
  [
    "an init container keeps its capabilities",
    { "spec.initContainers.0.securityContext.capabilities": undefined },
    "capabilities.drop",
  ],
  ["a container adds one", { "spec.containers.0.securityContext.capabilities.add": ["CHOWN"] }, "capabilities.add"],
  [
    "privilege escalation is not ruled out",
    { "spec.containers.0.securityContext.allowPrivilegeEscalation": undefined },
    "allowPrivilegeEscalation",
  ],
  [
    "privilege escalation is allowed",
    { "spec.containers.0.securityContext.allowPrivilegeEscalation": true },
    "allowPrivilegeEscalation",
  ],
  [
    "an init container may escalate",
    { "spec.initContainers.0.securityContext.allowPrivilegeEscalation": undefined },
    "allowPrivilegeEscalation",
  ],
  ["no security context at all", { "spec.containers.0.securityContext": undefined }, "capabilities.drop"],
  ["no seccomp profile", { "spec.securityContext": undefined }, "seccompProfile"],
  [
    "seccomp off for one container",
    { "spec.containers.0.securityContext.seccompProfile": { type: "Unconfined" } },
    "seccompProfile",
  ],
  ["the token is mounted", { "spec.automountServiceAccountToken": true }, "automountServiceAccountToken"],
  ["the token is not ruled out", { "spec.automountServiceAccountToken": undefined }, "automountServiceAccountToken"],
  ["the operator's account", { "spec.serviceAccountName": "tenancy-operator" }, "serviceAccountName"],
  ["service links", { "spec.enableServiceLinks": true }, "enableServiceLinks"],
  ["service links by default", { "spec.enableServiceLinks": undefined }, "enableServiceLinks"],
  ["one view of all processes", { "spec.shareProcessNamespace": true }, "shareProcessNamespace"],
  ["no limits", { "spec.containers.0.resources": undefined }, "resources.limits"],
  ["no memory limit", { "spec.containers.0.resources": { limits: { cpu: "1" } } }, "resources.limits"],
  ["no cpu limit", { "spec.containers.0.resources": { limits: { memory: "64Mi" } } }, "resources.limits"],
  ["an init container without limits", { "spec.initContainers.0.resources": undefined }, "resources.limits"],
  [
    "a volume claim to write to",
    { "spec.volumes.9": { name: "v", persistentVolumeClaim: { claimName: "c" } } },
    "spec.volumes",
  ],
  [
    "the archives",
    { "spec.volumes.9": { name: "v", persistentVolumeClaim: { claimName: "tenancy-snapshots" } } },
    "spec.volumes",
  ],
  ...["tenancy-api-key", "tenancy-object-storage"].flatMap((name): ManagedWrong[] => [
    [
      `the Secret ${name} as a volume`,
      { "spec.volumes.9": { name: "v", secret: { secretName: name } } },
      "spec: a managed pod may not read",
    ],
    [
      `the Secret ${name} as variables`,
      { "spec.containers.0.envFrom": [{ secretRef: { name } }] },
      "spec: a managed pod may not read",
    ],
  ]),
  [
    "another kind of volume",
    { "spec.volumes.9": { name: "v", nfs: { server: "10.0.0.1", path: "/" } } },
    "spec.volumes",
  ],
  [
    "a token by volume",
    {
      "spec.serviceAccountName": "default",
      "spec.volumes.9": { name: "v", projected: { sources: [{ serviceAccountToken: { path: "t" } }] } },
    },
    "spec.volumes",
  ],
  ["a node of its own choice", { "spec.nodeName": "simulated-1" }, "spec.nodeName"],
  ["the cluster's own priority", { "spec.priorityClassName": "system-node-critical" }, "spec.priorityClassName"],
  ...[
    {},
    { key: "node-role.kubernetes.io/control-plane" },
    { key: "node.kubernetes.io/network-unavailable", effect: "NoSchedule" },
    { key: "node.kubernetes.io/not-ready", effect: "NoSchedule" },
    { key: "node.cilium.io/agent-not-ready" },
  ].map(
    (taint): ManagedWrong => [
      `tolerates ${JSON.stringify(taint)}`,
      { "spec.tolerations": [{ operator: "Exists", ...taint }] },
      "spec.tolerations",
    ],
  ),
  ["a folder of the node", { "spec.volumes.9": { name: "v", hostPath: { path: "/" } } }, "hostPath|spec.volumes"],
  ["the node's network", { "spec.hostNetwork": true }, "hostNetwork"],
  ["the node's processes", { "spec.hostPID": true }, "hostPID"],
  ["the node's shared memory", { "spec.hostIPC": true }, "hostIPC"],
  ["a port of the node", { "spec.containers.0.ports.0.hostPort": 8080 }, "hostPort"],
  [
    "privileged",
    {
      "spec.containers.0.securityContext.privileged": true,
      "spec.containers.0.securityContext.allowPrivilegeEscalation": undefined,
    },
    "privileged|allowPrivilegeEscalation",
  ],
];

for (const [what, values, says] of managedWrongs) {
  test(`an instance is refused: ${what}`, async () => {
    const pod = fullPod("inst-wrong");
    const volumes = pod.spec.volumes ?? [];
    const placed = Object.fromEntries(
      Object.entries(values).map(([path, value]) => [path.replace("volumes.9", `volumes.${volumes.length}`), value]),
    );
    const refused = (await refusal(operator, withValues(pod, placed))) ?? "taken";
    assert.match(refused, new RegExp(`denied request: [^:]*(${says})`), refused);
  });
}

const otherWrongs: readonly [what: string, values: Record<string, unknown>, says: string][] = [
  ["the node's network", { "spec.hostNetwork": true }, "hostNetwork"],
  ["the node's processes", { "spec.hostPID": true }, "hostPID"],
  ["the node's shared memory", { "spec.hostIPC": true }, "hostIPC"],
  ["a port of the node", { "spec.containers.0.ports": [{ containerPort: 1, hostPort: 1 }] }, "hostPort"],
  ["a folder of the node", { "spec.volumes": [{ name: "v", hostPath: { path: "/" } }] }, "hostPath"],
  ["privileged", { "spec.containers.0.securityContext": { privileged: true } }, "privileged"],
  [
    "a capability",
    { "spec.containers.0.securityContext": { capabilities: { add: ["SYS_ADMIN"] } } },
    "capabilities.add",
  ],
  [
    "/proc as it is",
    { "spec.containers.0.securityContext": { procMount: "Unmasked" }, "spec.hostUsers": false },
    "procMount",
  ],
  ["a sysctl", { "spec.securityContext": { sysctls: [{ name: "kernel.shm_rmid_forced", value: "0" }] } }, "sysctls"],
  ["seccomp off for the pod", { "spec.securityContext": { seccompProfile: { type: "Unconfined" } } }, "seccompProfile"],
  [
    "seccomp off for a container",
    { "spec.containers.0.securityContext": { seccompProfile: { type: "Unconfined" } } },
    "seccompProfile",
  ],
  [
    "AppArmor off",
    { "spec.containers.0.securityContext": { appArmorProfile: { type: "Unconfined" } } },
    "appArmorProfile",
  ],
  ["an SELinux type", { "spec.securityContext": { seLinuxOptions: { type: "spc_t" } } }, "seLinuxOptions"],
  [
    "NET_ADMIN under our name, in no instance",
    { "spec.initContainers": [netAdmin("tenancy-redirect")] },
    "capabilities.add",
  ],
];

for (const [what, values, says] of otherWrongs) {
  test(`another pod is refused: ${what}`, async () => {
    const refused = await refusal(tenancy.client, withValues(otherPod, values));
    assert.match(refused ?? "taken", new RegExp(`'tenancy-pods' .* denied request: [^:]*(${says})`));
  });
}

test("another pod without any of that is taken", async () => {
  assert.is(await refusal(tenancy.client, otherPod), undefined);
});

/**
 * One setting wrong each of a pod with the proxy, whose sidecar is its first container: what, the values, and what the
 * refusal names.
 */
const proxiedWrongs: readonly [what: string, values: Record<string, unknown>, says: string][] = [
  [
    "NET_ADMIN in the sidecar",
    { "spec.containers.0.securityContext.capabilities.add": ["NET_ADMIN"] },
    "capabilities.add",
  ],
  [
    "NET_ADMIN in the workload's container",
    { "spec.containers.1.securityContext.capabilities.add": ["NET_ADMIN"] },
    "capabilities.add",
  ],
  [
    "another capability for the redirect",
    { "spec.initContainers.0.securityContext.capabilities.add": ["NET_ADMIN", "SYS_PTRACE"] },
    "capabilities.add",
  ],
  ["a redirect that stays", { "spec.initContainers.0.restartPolicy": "Always" }, "capabilities.add"],
  [
    "a sidecar that may escalate",
    { "spec.containers.0.securityContext.allowPrivilegeEscalation": true },
    "allowPrivilegeEscalation",
  ],
  ["a sidecar without limits", { "spec.containers.0.resources": undefined }, "resources.limits"],
  [
    "processes that the workload shares with the sidecar",
    { "spec.shareProcessNamespace": true },
    "shareProcessNamespace",
  ],
  [
    "a token beside the proxy's settings",
    {
      "spec.serviceAccountName": "default",
      "spec.volumes.settings.projected.sources.0": { serviceAccountToken: { path: "t" } },
    },
    "spec.volumes",
  ],
  [
    "a folder of the node for the proxy",
    { "spec.volumes.settings": { name: "tenancy-egress", hostPath: { path: "/" } } },
    "hostPath|spec.volumes",
  ],
];

for (const [what, values, says] of proxiedWrongs) {
  test(`an instance with the proxy is refused: ${what}`, async () => {
    const pod = proxiedPod("inst-wrong");
    assert.equal(
      [pod.spec.containers.map(({ name }) => name), pod.spec.initContainers?.map(({ name }) => name)],
      [[PROXY_CONTAINER, WORKLOAD_CONTAINER], [REDIRECT_CONTAINER]],
    );
    const settings = pod.spec.volumes?.findIndex(({ name }) => name === "tenancy-egress");
    const placed = Object.fromEntries(
      Object.entries(values).map(([path, value]) => [path.replace("volumes.settings", `volumes.${settings}`), value]),
    );
    const refused = (await refusal(operator, withValues(pod, placed))) ?? "taken";
    assert.match(refused, new RegExp(`denied request: [^:]*(${says})`), refused);
  });
}

test("only the operator makes an instance with the proxy", async () => {
  assert.match(
    (await refusal(tenancy.client, proxiedPod("inst-theirs"))) ?? "taken",
    /metadata\.labels: only the operator/,
  );
});

function netAdmin(name: string, securityContext: object = {}): object {
  return {
    name,
    image: "simulated/hello:1",
    resources: { limits: { cpu: "1", memory: "64Mi" } },
    securityContext: {
      allowPrivilegeEscalation: false,
      capabilities: { drop: ["ALL"], add: ["NET_ADMIN"] },
      ...securityContext,
    },
  };
}

test("NET_ADMIN is for our init containers alone, by name, without any other capability, and never for one that stays", async () => {
  const withFirst = (container: object) => withValues(fullPod("inst-redirect"), { "spec.initContainers.0": container });
  assert.is(await refusal(operator, withFirst(netAdmin("tenancy-redirect"))), undefined);
  for (const [what, container] of [
    ["another name", netAdmin("redirect")],
    ["the tools, which unpack what tenants saved", netAdmin(TOOLS_CONTAINER)],
    [
      "two capabilities",
      netAdmin("tenancy-redirect", { capabilities: { drop: ["ALL"], add: ["NET_ADMIN", "SYS_ADMIN"] } }),
    ],
    ["another capability", netAdmin("tenancy-redirect", { capabilities: { drop: ["ALL"], add: ["SYS_ADMIN"] } })],
    ["one that stays", { ...netAdmin("tenancy-redirect"), restartPolicy: "Always" }],
  ] as const) {
    assert.match(
      (await refusal(operator, withFirst(container))) ?? "taken",
      /denied request: [^:]*capabilities\.add/,
      what,
    );
  }
  const asWorkload = withValues(fullPod("inst-redirect"), { "spec.containers.0": netAdmin("tenancy-redirect") });
  assert.match((await refusal(operator, asWorkload)) ?? "taken", /denied request: [^:]*capabilities\.add/);
});

test("Pod Security baseline takes no container with NET_ADMIN", async () => {
  const pod = withValues(fullPod("inst-redirect"), { "spec.initContainers.0": netAdmin("tenancy-redirect") });
  const refused = await refusal(tenancy.client, withValues(pod, { "metadata.namespace": baseline }));
  assert.match(refused ?? "taken", /violates PodSecurity "baseline.*NET_ADMIN/);
});

test("the names of these init containers are a parameter", async () => {
  const pod = withValues(fullPod("inst-redirect"), { "spec.initContainers.0": netAdmin("our-redirect") });
  assert.match((await refusal(operator, pod)) ?? "taken", /capabilities\.add/);
  const reference = { namespace: NAMESPACE, name: "tenancy-admission" };
  const body = { data: { "net-admin-init-containers": "tenancy-redirect,our-redirect" } };
  await tenancy.client.patch(configMaps, reference, { type: "merge", body });
  await eventually(async () => (await refusal(operator, pod)) === undefined);
});

test("an instance has the ServiceAccounts that the parameters name, with their token, and no other one", async () => {
  const withAccount = (name: string) =>
    withValues(fullPod("inst-account"), {
      "spec.serviceAccountName": name,
      "spec.automountServiceAccountToken": true,
    });
  for (const name of ["agents", "other"])
    await tenancy.client.create(serviceAccounts, { metadata: { name, namespace: NAMESPACE } });
  assert.match((await refusal(operator, withAccount("agents"))) ?? "taken", /automountServiceAccountToken/);
  const reference = { namespace: NAMESPACE, name: "tenancy-admission" };
  const body = { data: { "pod-service-accounts": "agents,more" } };
  await tenancy.client.patch(configMaps, reference, { type: "merge", body });
  await eventually(async () => (await refusal(operator, withAccount("agents"))) === undefined);
  for (const name of ["default", "other", "tenancy-operator"])
    assert.match((await refusal(operator, withAccount(name))) ?? "taken", /denied request: .*service account/);
});

test("parameters of an earlier release refuse no instance", async () => {
  const reference = { namespace: NAMESPACE, name: "tenancy-admission" };
  const write = (values: Record<string, string | null>) =>
    tenancy.client.patch(configMaps, reference, { type: "merge", body: { data: values } });
  const { data = {} } = await tenancy.client.get(configMaps, reference);
  const added = ["pod-service-accounts", "service-secrets"];
  const planted = withValues(fullPod("inst-planted"), {
    "spec.containers.0.envFrom": [{ secretRef: { name: "tenancy-sink" } }],
  });
  await write(Object.fromEntries(added.map((name) => [name, null])));
  await eventually(async () => (await refusal(operator, planted)) === undefined);
  assert.is(await refusal(operator, fullPod("inst-earlier")), undefined);
  await write(Object.fromEntries(added.map((name) => [name, data[name] ?? ""])));
  await eventually(async () => (await refusal(operator, planted)) !== undefined);
});

test("only the operator makes an instance", async () => {
  assert.match(
    (await refusal(tenancy.client, fullPod("inst-theirs"))) ?? "taken",
    /metadata\.labels: only the operator/,
  );
  const annotated = withValues(otherPod, { "metadata.annotations": { [annotation.claimUid]: "stolen" } });
  assert.match((await refusal(tenancy.client, annotated)) ?? "taken", /metadata\.annotations: only the operator/);
});

test("nobody but the operator changes whose an instance is or what it runs; the edge marks its use", async () => {
  const reference = { namespace: NAMESPACE, name: "inst-alice" };
  await operator.create(pods, fullPod(reference.name));
  const change = (client: ClusterClient, body: object, subresource?: "status") =>
    reasonOf(client.patch(pods, reference, { type: "merge", body, ...(subresource && { subresource }) }));
  const labels = (values: object) => ({ metadata: { labels: values } });
  const annotations = (values: object) => ({ metadata: { annotations: values } });

  const otherLabels = [
    labels({ [label.managed]: null }),
    labels({ [label.managed]: "false" }),
    labels({ [label.tenant]: null }),
    labels({ [label.tenant]: "mallory" }),
    labels({ [label.workload]: "other" }),
    labels({ [label.pool]: "mine" }),
    labels({ [`${CLAIM_LABEL_PREFIX}team`]: "mine" }),
  ];
  const otherAnnotations = [
    annotations({ [annotation.claimUid]: "stolen" }),
    annotations({ [annotation.overlayDirs]: null }),
  ];
  for (const body of otherLabels)
    assert.match((await change(tenancy.client, body)) ?? "taken", /metadata\.labels: only the operator/);
  for (const body of otherAnnotations)
    assert.match((await change(tenancy.client, body)) ?? "taken", /metadata\.annotations: only the operator/);
  const image = [{ op: "replace", path: "/spec/containers/0/image", value: "theirs:1" }];
  const replaced = await reasonOf(tenancy.client.patch(pods, reference, { type: "json", body: image }));
  assert.match(replaced ?? "taken", /spec: only the operator/);
  for (const body of [...otherLabels, ...otherAnnotations]) {
    assert.match((await change(api, body)) ?? "taken", /cannot patch resource "pods"/);
    assert.match((await change(api, body, "status")) ?? "taken", /only the operator|accounts of this namespace/);
  }
  const used = annotations({ [annotation.lastActivity]: new Date().toISOString() });
  assert.is(await change(api, used, "status"), undefined);
  assert.is(await change(tenancy.client, used), undefined);
  const byStatus = await change(tenancy.client, labels({ [label.tenant]: "mallory" }), "status");
  assert.match(byStatus ?? "taken", /metadata\.labels: only the operator/);
  assert.is(await change(tenancy.client, annotations({ note: "mine" })), undefined);
  assert.is(await change(operator, labels({ [label.tenant]: "bob" })), undefined);
});

test("a container that is put beside a running instance is hardened too", async () => {
  const reference = { namespace: NAMESPACE, name: "inst-debugged" };
  await operator.create(pods, fullPod(reference.name));
  const add = (securityContext: object) =>
    reasonOf(
      tenancy.client.request({
        method: "PATCH",
        path: `/api/v1/namespaces/${NAMESPACE}/pods/${reference.name}/ephemeralcontainers`,
        contentType: "application/strategic-merge-patch+json",
        body: JSON.stringify({
          spec: { ephemeralContainers: [{ name: "debug", image: "busybox:1", securityContext }] },
        }),
      }),
    );
  assert.match((await add({})) ?? "taken", /denied request: [^:]*capabilities\.drop/);
  assert.match((await add({ privileged: true })) ?? "taken", /denied request: [^:]*(privileged|capabilities\.drop)/);
  assert.is(await add({ allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } }), undefined);
});

test("the archives are mounted by the operator's helper pod alone", async () => {
  const helper = renderedPods.find(({ pod }) => pod.metadata.name === "tenancy-snapshots")?.pod;
  assert.ok(helper);
  assert.is(await refusal(operator, helper), undefined);
  // Its annotation, which nobody but the operator sets, is refused by another policy.
  const unmarked = withValues(helper, { "metadata.annotations": undefined });
  assert.match(
    (await refusal(tenancy.client, unmarked)) ?? "taken",
    /holds the files of all tenants; only the pod tenancy-snapshots/,
  );
  const renamed = withValues(unmarked, { "metadata.name": "reader" });
  for (const client of [operator, tenancy.client])
    assert.match(
      (await refusal(client, renamed)) ?? "taken",
      /holds the files of all tenants; only the pod tenancy-snapshots/,
    );
  const impostor = withValues(otherPod, { "metadata.name": "tenancy-snapshots" });
  assert.match((await refusal(tenancy.client, impostor)) ?? "taken", /sends the files of all tenants to the pod/);
});

test("no container is put beside the archives, nor one that reads the Secret beside another", async () => {
  const helper = renderedPods.find(({ pod }) => pod.metadata.name === "tenancy-snapshots")?.pod;
  assert.ok(helper);
  await operator.create(pods, helper);
  await tenancy.client.create(pods, withValues(otherPod, { "metadata.name": "other-debugged" }));
  const add = (pod: string, container: object) =>
    reasonOf(
      tenancy.client.request({
        method: "PATCH",
        path: `/api/v1/namespaces/${NAMESPACE}/pods/${pod}/ephemeralcontainers`,
        contentType: "application/strategic-merge-patch+json",
        body: JSON.stringify({ spec: { ephemeralContainers: [{ name: "debug", image: "busybox:1", ...container }] } }),
      }),
    );
  try {
    for (const container of [{}, { volumeMounts: [{ name: "snapshots", mountPath: "/archives" }] }]) {
      assert.match((await add("tenancy-snapshots", container)) ?? "taken", /holds the files of all tenants/);
    }
    const reader = { envFrom: [{ secretRef: { name: "tenancy-snapshots" } }] };
    assert.match((await add("other-debugged", reader)) ?? "taken", /opens the files of all tenants; only the pod/);
    assert.is(await add("other-debugged", {}), undefined);
  } finally {
    await operator.delete(pods, { namespace: NAMESPACE, name: "tenancy-snapshots" });
  }
});

for (const name of ["tenancy-snapshots", "tenancy-snapshots-names"]) {
  const env = [{ name: "V", valueFrom: { secretKeyRef: { name, key: "token" } } }];
  for (const [what, values] of [
    ["as a volume", { "spec.volumes": [{ name: "v", secret: { secretName: name } }] }],
    [
      "by a driver of volumes",
      { "spec.volumes": [{ name: "v", csi: { driver: "files.example", nodePublishSecretRef: { name } } }] },
    ],
    ["projected", { "spec.volumes": [{ name: "v", projected: { sources: [{ secret: { name } }] } }] }],
    ["as variables", { "spec.containers.0.envFrom": [{ secretRef: { name } }] }],
    ["as a variable", { "spec.containers.0.env": env }],
  ] as const) {
    test(`no other pod than the helper pod reads the Secret ${name} ${what}`, async () => {
      for (const client of [operator, tenancy.client]) {
        const reader = withValues(otherPod, { "metadata.name": "reader", ...values });
        assert.match((await refusal(client, reader)) ?? "taken", /opens the files of all tenants; only the pod/);
      }
    });
  }
}

test("accounts of the namespace exec into instances, never into operator or edge, nor into the helper pod", async () => {
  for (const client of [operator, api]) {
    for (const pod of ["tenancy-operator-5d-x", "tenancy-edge-5d-x", "tenancy-snapshots", "other"])
      assert.match(await execRefusal(client, pod), /may exec into instances, not into/);
    assert.match(await execRefusal(client, "inst-none"), /not found/);
  }
  assert.match(await execRefusal(tenancy.client, "tenancy-operator-5d-x"), /not found/);
});

test("as docs/how-to/upgrade.md says, the last release execs into its helper pod under its own policy, on the way up and back", async () => {
  if (await lacksHistory()) {
    console.log("note: this checkout has no history with the last release");
    return;
  }
  const { stdout } = await promisify(execFile)("git", ["rev-parse", "--absolute-git-dir"], { cwd: root });
  const asSaid = (end: string, folder: string) =>
    runPageCommands("docs/how-to/upgrade.md", new RegExp(`git show ${LAST_RELEASE.slice(0, 7)}:\\S+ ${end}`), {
      ...{ folder, kubeconfigPath: tenancy.cluster.kubeconfigPath },
      environment: { GIT_DIR: stdout.trim() },
    });
  const kubectl = await kubectlFor(tenancy.cluster.kubeconfigPath);
  const untilHelper = async (answer: RegExp): Promise<void> => {
    for (const client of [operator, api])
      await eventually(async () => answer.test(await execRefusal(client, "tenancy-snapshots")));
    // Nor does the older policy let anybody into the rest.
    for (const client of [operator, api])
      for (const pod of ["tenancy-operator-5d-x", "tenancy-edge-5d-x", "other"])
        assert.match(await execRefusal(client, pod), /may exec into instances/);
  };
  const [admitted, refused] = [/not found/, /may exec into instances, not into/];
  const components = ["split-edge", "admission", "egress"];

  const [today, up] = [
    await writeOverlay({ components }),
    await writeOverlay({ components, patchFiles: ["exec-before.yaml"] }),
  ];
  await asSaid("> exec-before\\.yaml", up.path);
  await kubectl("apply", "-k", up.path);
  await untilHelper(admitted);
  await kubectl("apply", "-k", today.path);
  await untilHelper(refused);
  await asSaid("\\| kubectl apply", root);
  await untilHelper(admitted);
  await kubectl("apply", "-k", today.path);
  await untilHelper(refused);
  for (const { remove } of [today, up]) await remove();
});

test("nor do they attach to those or forward their ports, where somebody gives them the right to", async () => {
  const kubectl = await kubectlFor(tenancy.cluster.kubeconfigPath);
  const resources = "--resource=pods/attach,pods/portforward";
  await kubectl("-n", NAMESPACE, "create", "role", "streams", "--verb=create", resources);
  const accounts = ["operator", "api"].map((name) => `--serviceaccount=${NAMESPACE}:tenancy-${name}`);
  await kubectl("-n", NAMESPACE, "create", "rolebinding", "streams", "--role=streams", ...accounts);
  for (const client of [operator, api]) {
    for (const how of ["attach?stdout=true", "portforward?ports=8080"]) {
      await eventually(async () => !(await execRefusal(client, "inst-none", how)).includes("cannot create resource"));
      assert.match(await execRefusal(client, "inst-none", how), /not found/);
      assert.match(await execRefusal(client, "tenancy-operator-5d-x", how), /may exec into instances, not into/);
    }
  }
});

test("an account that may create Secrets creates only those of claims", async () => {
  const create = (client: ClusterClient, type: string, owner?: string, name = "claim-0123456789abcdef") => {
    const owners = owner === undefined ? [] : [{ apiVersion: `tenancy.dev/v1`, kind: owner, name: "x", uid: "x" }];
    const metadata = { namespace: NAMESPACE, name, ownerReferences: owners };
    const ofAccount = { "kubernetes.io/service-account.name": "tenancy-operator" };
    const annotations = type.includes("service-account") ? ofAccount : {};
    return reasonOf(client.create(secrets, { metadata: { ...metadata, annotations }, type }, { dryRun: true }));
  };
  assert.is(await create(api, "tenancy.dev/claim", "TenancyClaim"), undefined);
  for (const name of ["tenancy-proxy-keys", "claim-alice", "claim-0123456789abcdef0"])
    assert.match((await create(api, "tenancy.dev/claim", "TenancyClaim", name)) ?? "taken", /16 hexadecimal digits/);
  assert.match((await create(api, "tenancy.dev/claim")) ?? "taken", /belong to a claim/);
  assert.match((await create(api, "tenancy.dev/claim", "TenancyWorkload")) ?? "taken", /belong to a claim/);
  for (const type of ["Opaque", "kubernetes.io/service-account-token"])
    assert.match((await create(api, type, "TenancyClaim")) ?? "taken", /only Secrets of the type tenancy.dev\/claim/);
  for (const client of [tenancy.client, operator]) assert.is(await create(client, "Opaque"), undefined);
});

test("an account that may only create Secrets is held to it, one that may change them all is not", async () => {
  const { cluster } = tenancy;
  const kubectl = await kubectlFor(cluster.kubeconfigPath);
  const here = (...words: string[]) => kubectl("-n", NAMESPACE, ...words);
  await here("create", "serviceaccount", "deployer");
  const account = `--serviceaccount=${NAMESPACE}:deployer`;
  await here("create", "rolebinding", "deployer", "--role=deployer", account);
  const deployer = await accountClient({ cluster, kubectl, namespace: NAMESPACE, account: "deployer" });
  const release = { namespace: NAMESPACE, name: "sh.helm.release.v1.tenancy.v1" };
  const create = () => deployer.create(secrets, { metadata: release, type: "helm.sh/release.v1" }, { dryRun: true });
  const become = async (verbs: string, said: string) => {
    await here("delete", "role", "deployer", "--ignore-not-found");
    await here("create", "role", "deployer", `--verb=${verbs}`, "--resource=secrets");
    await eventually(async () => ((await reasonOf(create())) ?? "taken").includes(said));
  };
  try {
    await become("create", "only Secrets of the type tenancy.dev/claim");
    await become("create,patch", "taken");
  } finally {
    deployer.close();
  }
});

test("another namespace is not held to any of it", async () => {
  const pod = withValues(fullPod("inst-else"), { "metadata.namespace": baseline, "spec.enableServiceLinks": true });
  assert.is(await refusal(tenancy.client, pod), undefined);
});

test("without its parameters every pod is refused, and no Secret", async () => {
  const reference = { namespace: NAMESPACE, name: "tenancy-admission" };
  await tenancy.client.delete(configMaps, reference);
  await eventually(async () => (await refusal(operator, fullPod("inst-late"))) !== undefined);
  const secret = { metadata: { namespace: NAMESPACE, name: "any" }, type: "Opaque" };
  assert.is(await reasonOf(tenancy.client.create(secrets, secret, { dryRun: true })), undefined);
});

const older = suite("admission on a server before 1.30");

older("the overlay is refused, and says which kind the server does not know", async () => {
  tenancy = await startTenancy("admission");
  const kubectl = await kubectlFor(tenancy.cluster.kubeconfigPath);
  const reason = await kubectl("apply", "-k", "manifests/overlays/with-admission", validation(version)).catch(String);
  assert.match(reason, 'no matches for kind "ValidatingAdmissionPolicy"');
});
older.after(() => tenancy?.stop());

const { version } = await findBinaries({ need: CONTROL_PLANE_PROGRAMS });
if (versionAtLeast(version, "1.30")) test.run();
else older.run();
