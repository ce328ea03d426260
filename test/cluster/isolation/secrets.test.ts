import { suite } from "uvu";
import * as assert from "uvu/assert";
import {
  configMaps,
  persistentVolumeClaims,
  pods,
  secrets,
  serviceAccounts,
} from "../../../crds/client/built-in-resources.ts";
import { systemClock } from "../../../crds/client/clock.ts";
import { createCluster } from "../../../crds/client/cluster.ts";
import { workloads } from "../../../crds/kinds.ts";
import type { ConfigMap, Secret } from "../../../crds/kubernetes.ts";
import type { WorkloadSpec, WorkloadStatus } from "../../../crds/workload.ts";
import { createSecretReaders } from "../../../edge/gateway/triggers/secret-reader.ts";
import { operatorConfig } from "../../../operator/config.ts";
import { silentLog } from "../../unit/silent-log.ts";
import { NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("Secrets that workloads and triggers may not use");
let tenancy: Tenancy;
let operator: RunningOperator;

const { egress } = operatorConfig({ TENANCY_PROXY_IMAGE: "simulated/proxy:1" });

test.before(async () => {
  tenancy = await startTenancy("secrets", { nodes: false });
  operator = tenancy.startOperator({ config: { egress } });
});
test.after(() => tenancy?.stop());

async function writeSecret(name: string, more: Partial<Secret> & { labels?: Record<string, string> } = {}) {
  const { labels = {}, type = "Opaque", metadata } = more;
  await tenancy.client.create(secrets, {
    metadata: { name, namespace: NAMESPACE, labels, ...metadata },
    type,
    stringData: { value: "planted" },
  });
}

const label = (name: string, use: string | null) =>
  tenancy.client.patch(
    secrets,
    { namespace: NAMESPACE, name },
    { type: "merge", body: { metadata: { labels: { "tenancy.dev/use": use } } } },
  );

/** A workload that would send the Secret's value to a host of its author's choice. */
async function send(name: string, secret: string): Promise<void> {
  const valueFrom = { secretKeyRef: { name: secret, key: "value" } };
  await tenancy.createWorkload(name, {
    network: {
      access: "restricted",
      credentials: [{ domain: "mine.example", headers: [{ name: "x-value", valueFrom }] }],
    },
  });
}

const untilWorkload = (name: string, is: (status: WorkloadStatus) => boolean) =>
  tenancy.until(`workload ${name}`, async () => {
    const { status } = await tenancy.client.get(workloads, { namespace: NAMESPACE, name });
    return status !== undefined && is(status) && status;
  });

/** What the proxies of the workload's pods take from their volume. */
const untilListed = (name: string, isListed: boolean) =>
  tenancy.until(`values of ${name}`, async () => {
    const { items } = await tenancy.client.list(configMaps, {
      namespace: NAMESPACE,
      labelSelector: `tenancy.dev/workload=${name}`,
    });
    const list = (items as ConfigMap[])[0]?.data?.["values.list"];
    return list !== undefined && list.includes("values/") === isListed;
  });

const special: [name: string, more: Parameters<typeof writeSecret>[1], says: RegExp][] = [
  ["tenancy-api-key", {}, /Secret tenancy-api-key contains the key of the API/],
  ["ours", { labels: { "tenancy.dev/managed": "true" } }, /Secret ours belongs to the service/],
  [
    "account",
    {
      type: "kubernetes.io/service-account-token",
      metadata: { name: "account", annotations: { "kubernetes.io/service-account.name": "default" } },
    },
    /Secret account is of type kubernetes\.io\/service-account-token/,
  ],
  ["release", { type: "helm.sh/release.v1" }, /Secret release is of type helm\.sh\/release\.v1/],
  [
    "kept",
    { labels: { "tenancy.dev/use": "none" } },
    /Secret kept is not labelled tenancy\.dev\/use=(workload|trigger)/,
  ],
];

test("a workload that names one is in Error and gets no pod, and a trigger gets no value", async () => {
  const open = createSecretReaders({
    client: tenancy.client,
    cluster: createCluster({ client: tenancy.client, namespace: NAMESPACE, fieldManager: "test" }),
    namespace: NAMESPACE,
    policy: "any",
    clock: systemClock,
    log: silentLog,
  });
  const reader = open(() => undefined);
  for (const [name, more, says] of special) {
    await writeSecret(name, more);
    await send(`send-${name}`, name);
    const { message } = await untilWorkload(`send-${name}`, ({ reason }) => reason === "SecretRefused");
    assert.match(message ?? "", says);
    await untilListed(`send-${name}`, false);
    const refusal = await reader.read({ name, key: "value" }).then(
      (value) => `it read ${value}`,
      (error: Error) => error.message,
    );
    assert.match(refusal, says);
    const claim = await tenancy.createClaim("a", `send-${name}`);
    await tenancy.untilClaim(claim.metadata.name, { phase: "Error", reason: "WorkloadNotReady" });
    await tenancy.createWorkload(`mount-${name}`, { volumes: [{ mountPath: "/keys", secret: { secretName: name } }] });
    await tenancy.createWorkload(`read-${name}`, { entrypoint: { envFrom: [{ secretRef: { name } }] } });
    for (const workload of [`mount-${name}`, `read-${name}`]) {
      const status = await untilWorkload(workload, ({ reason }) => reason === "SecretRefused");
      assert.match(status.message ?? "", says);
      await tenancy.createClaim("a", workload);
      await tenancy.untilClaim(`claim-a-${workload}`, { phase: "Error", reason: "WorkloadNotReady" });
    }
  }
  const { items } = await tenancy.client.list(pods, { namespace: NAMESPACE });
  assert.equal(items, []);
  reader.close();
});

test("what takes a name later is judged anew, and no proxy takes its value", async () => {
  await send("later", "later");
  await untilWorkload("later", ({ phase }) => phase === "Ready");
  await untilListed("later", false);
  await writeSecret("later");
  await untilListed("later", true);
  await tenancy.client.delete(secrets, { namespace: NAMESPACE, name: "later" });
  await writeSecret("later", { type: "bootstrap.kubernetes.io/token" });
  await untilWorkload("later", ({ reason }) => reason === "SecretRefused");
  await untilListed("later", false);
  await tenancy.client.delete(secrets, { namespace: NAMESPACE, name: "later" });
  await writeSecret("later");
  await untilWorkload("later", ({ phase }) => phase === "Ready");
  await untilListed("later", true);
});

test("files and variables of a pod: what is missing, of the service or not labelled holds the workload", async () => {
  const metadata = (name: string, labels: Record<string, string> = {}) => ({ name, namespace: NAMESPACE, labels });
  await tenancy.client.create(configMaps, { metadata: metadata("own", { "tenancy.dev/managed": "true" }) });
  await tenancy.client.create(configMaps, { metadata: metadata("settings"), data: { a: "b" } });
  await writeSecret("keys");
  const claimOf = (name: string, labels?: Record<string, string>) =>
    tenancy.client.create(persistentVolumeClaims, {
      metadata: metadata(name, labels),
      spec: { accessModes: ["ReadOnlyMany"], resources: { requests: { storage: "1Gi" } } },
    });
  await claimOf("models");
  await claimOf("tenancy-snapshots", { "tenancy.dev/use": "workload" });
  const models = { mountPath: "/models", persistentVolumeClaim: { claimName: "models" } };
  const refused: [name: string, spec: Partial<WorkloadSpec>, reason: string, says: string][] = [
    [
      "of-the-service",
      { volumes: [{ mountPath: "/own", configMap: { name: "own" } }] },
      "SourceRefused",
      "spec.volumes[0]: ConfigMap own belongs to the service: name one of your own",
    ],
    [
      "archives",
      { volumes: [{ ...models, persistentVolumeClaim: { claimName: "tenancy-snapshots" } }] },
      "SourceRefused",
      "spec.volumes[0]: PersistentVolumeClaim tenancy-snapshots belongs to the service: name one of your own",
    ],
    [
      "absent",
      { entrypoint: { envFrom: [{ secretRef: { name: "absent" } }, { configMapRef: { name: "absent" } }] } },
      "SourceMissing",
      `spec.entrypoint.envFrom[0]: there is no Secret absent in the namespace ${NAMESPACE}: create it; spec.entrypoint.envFrom[1]: there is no ConfigMap absent in the namespace ${NAMESPACE}: create it`,
    ],
    [
      "files",
      {
        volumes: [
          { mountPath: "/etc/settings/", configMap: { name: "settings", items: [{ key: "a", path: "b" }] } },
          { mountPath: "/keys", secret: { secretName: "keys", defaultMode: 0o440 } },
          models,
          { mountPath: "/scratch", emptyDir: { sizeMb: 8 } },
        ],
        entrypoint: {
          envFrom: [{ prefix: "A_", configMapRef: { name: "settings" } }, { secretRef: { name: "keys" } }],
        },
      },
      "SourceRefused",
      "spec.volumes[2]: PersistentVolumeClaim models is not labelled tenancy.dev/use=workload: label it, or name one that is",
    ],
  ];
  for (const [name, spec, reason, says] of refused) {
    await tenancy.createWorkload(name, spec);
    assert.is((await untilWorkload(name, (status) => status.reason === reason)).message, says);
  }
  const patch = { metadata: { labels: { "tenancy.dev/use": "workload" } } };
  await tenancy.client.patch(persistentVolumeClaims, metadata("models"), { type: "merge", body: patch });
  // The operator looks again every 30 s, and when the workload changes.
  await tenancy.client.patch(workloads, metadata("files"), {
    type: "merge",
    body: { metadata: { annotations: { "example.com/looked": "again" } } },
  });
  await untilWorkload("files", ({ phase }) => phase === "Ready");
  const claim = await tenancy.createClaim("a", "files");
  const pod = await tenancy.until("the pod", async () => (await tenancy.podsOf(claim))[0]);
  const container = pod.spec.containers[0];
  assert.equal(
    pod.spec.volumes?.map(({ name, ...source }) => source),
    [
      { configMap: { name: "settings", items: [{ key: "a", path: "b" }], defaultMode: 0o644 } },
      { secret: { secretName: "keys", defaultMode: 0o440 } },
      { persistentVolumeClaim: { claimName: "models", readOnly: true } },
      { emptyDir: { medium: "Memory", sizeLimit: "8Mi" } },
    ],
  );
  assert.equal(
    container?.volumeMounts?.map(({ mountPath, readOnly }) => [mountPath, readOnly]),
    [
      ["/etc/settings", true],
      ["/keys", true],
      ["/models", true],
      ["/scratch", undefined],
    ],
  );
  assert.equal(container?.envFrom, [
    { prefix: "A_", configMapRef: { name: "settings" } },
    { secretRef: { name: "keys" } },
  ]);
});

test("a server that leaves volumes of images out of pods gets none", async () => {
  await tenancy.createWorkload("image", {
    volumes: [{ mountPath: "/opt", image: { reference: "a.example/tools:2" } }],
  });
  const { message } = await untilWorkload("image", ({ reason }) => reason === "ImageVolumesUnavailable");
  assert.match(message ?? "", /switch on its feature gate ImageVolume/);
});

test("a pod has the token of an account that the operator allows, and no other one", async () => {
  for (const name of ["agents", "others"]) {
    await tenancy.client.create(serviceAccounts, { metadata: { name, namespace: NAMESPACE } });
    await tenancy.createWorkload(name, { serviceAccountName: name });
    const { message } = await untilWorkload(name, ({ reason }) => reason === "ServiceAccountRefused");
    assert.match(message ?? "", `"${name}" is not one of the ServiceAccounts that pods may have`);
  }
  await operator.stop();
  operator = tenancy.startOperator({ config: { egress, podServiceAccounts: ["agents"] } });
  await untilWorkload("agents", ({ phase }) => phase === "Ready");
  const claim = await tenancy.createClaim("a", "agents");
  const { spec } = await tenancy.until("the pod", async () => (await tenancy.podsOf(claim))[0]);
  assert.equal([spec.serviceAccountName, spec.automountServiceAccountToken], ["agents", true]);
  await untilWorkload("others", ({ reason }) => reason === "ServiceAccountRefused");
});

test("under labelled, only those that are labelled for the use", async () => {
  await operator.stop();
  operator = tenancy.startOperator({ config: { egress, secretPolicy: "labelled" } });
  await writeSecret("github");
  await send("labelled", "github");
  const { message } = await untilWorkload("labelled", ({ reason }) => reason === "SecretRefused");
  assert.match(message ?? "", "Secret github is not labelled tenancy.dev/use=workload: label it, or name one that is");
  await label("github", "trigger");
  const changes: string[] = [];
  const open = createSecretReaders({
    client: tenancy.client,
    cluster: createCluster({ client: tenancy.client, namespace: NAMESPACE, fieldManager: "test" }),
    namespace: NAMESPACE,
    policy: "labelled",
    clock: systemClock,
    log: silentLog,
  });
  const reader = open(() => void changes.push("any"));
  assert.is(await reader.read({ name: "github", key: "value" }), "planted");
  await label("github", "workload.trigger");
  await untilWorkload("labelled", ({ phase }) => phase === "Ready");
  await untilListed("labelled", true);
  assert.is(await reader.read({ name: "github", key: "value" }), "planted");
  await label("github", null);
  await untilWorkload("labelled", ({ reason }) => reason === "SecretRefused");
  await untilListed("labelled", false);
  await tenancy.until("the trigger is told", () => changes.length > 0);
  assert.match(
    await reader.read({ name: "github", key: "value" }).then(String, (error: Error) => error.message),
    "Secret github is not labelled tenancy.dev/use=trigger",
  );
  reader.close();
});

test.run();
