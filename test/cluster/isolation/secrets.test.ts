import { suite } from "uvu";
import * as assert from "uvu/assert";
import { configMaps, pods, secrets } from "../../../crds/client/built-in-resources.ts";
import { systemClock } from "../../../crds/client/clock.ts";
import { createCluster } from "../../../crds/client/cluster.ts";
import { workloads } from "../../../crds/kinds.ts";
import type { ConfigMap, Secret } from "../../../crds/kubernetes.ts";
import type { WorkloadStatus } from "../../../crds/workload.ts";
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
