import { suite } from "uvu";
import * as assert from "uvu/assert";
import { secrets, serviceAccounts } from "../../../crds/client/built-in-resources.ts";
import { workloads } from "../../../crds/kinds.ts";
import type { Workload } from "../../../crds/workload.ts";
import { readImageConfig } from "../../../operator/registry/read-image-config.ts";
import { digestOf, imageOf, serving, startServer, type TestServer } from "../../unit/registry/test-registry.ts";
import { NAMESPACE, type RunningOperator, startTenancy, type Tenancy } from "../tenancy.ts";

const test = suite("the program that an image names, in the workload's status");
const filesystem = { overlayDirs: ["/data"] };
const PASSWORD = "planted-password-of-the-registry";
const BASIC = `Basic ${Buffer.from(`puller:${PASSWORD}`).toString("base64")}`;
const first = imageOf({ Entrypoint: ["/bin/app"], Cmd: ["--first"] });
const second = imageOf({ Entrypoint: ["/bin/app"], Cmd: ["--second"] });

let tenancy: Tenancy;
let operator: RunningOperator;
let registry: TestServer;
/** What the tag leads to. */
let current = first;
let isDown = false;

test.before(async () => {
  registry = await startServer((path, { authorization }) => {
    if (isDown) return { status: 503 };
    if (path.includes("/private/") && authorization !== BASIC)
      return { status: 401, headers: { "www-authenticate": 'Basic realm="registry"' } };
    return serving({ "1": current.manifest }, first, second)(path);
  });
  tenancy = await startTenancy("test-entrypoint", { nodes: false });
  operator = tenancy.startOperator({ readImageConfig });
});
test.after(async () => {
  await tenancy?.stop();
  await registry?.stop();
});

const create = (name: string, spec: Partial<Workload["spec"]> = {}): Promise<Workload> =>
  tenancy.createWorkload(name, { image: { ref: `${registry.host}/team/app:1` }, filesystem, ...spec });
const change = (name: string, spec: object) =>
  tenancy.client.patch(workloads, { namespace: NAMESPACE, name }, { type: "merge", body: { spec } });
const conditionOf = ({ status }: Workload) => status?.conditions?.find(({ type }) => type === "EntrypointKnown");
const reads = () => registry.requests.filter(({ path }) => path.includes("/manifests/")).length;

test("is read once, and again after a change of the spec; another operator takes what is there", async () => {
  await create("app");
  const known = await tenancy.untilWorkload("app", ({ status }) => status?.entrypoint !== undefined);
  assert.equal(known.status?.entrypoint, {
    ...{ image: `${registry.host}/team/app:1`, digest: first.digest, observedGeneration: 1 },
    ...{ command: ["/bin/app"], args: ["--first"] },
  });
  assert.equal([known.status?.phase, conditionOf(known)?.status], ["Ready", "True"]);
  assert.is(reads(), 1);
  await operator.stop();
  current = second;
  operator = tenancy.startOperator({ readImageConfig });
  // It has looked at all workloads when it has made one ready that is newer.
  await tenancy.createWorkload("later");
  await tenancy.untilWorkload("later", ({ status }) => status?.phase === "Ready");
  assert.is(reads(), 1);
  await change("app", { version: "2" });
  const next = await tenancy.untilWorkload("app", ({ status }) => status?.entrypoint?.digest === second.digest);
  assert.equal(next.status?.entrypoint?.args, ["--second"]);
  assert.is(next.status?.entrypoint?.observedGeneration, next.metadata.generation);
  assert.is(reads(), 2);
  await change("app", { entrypoint: { cmd: "/bin/own" } });
  const own = await tenancy.untilWorkload("app", ({ status }) => status?.entrypoint === undefined);
  assert.equal([own.status?.phase, conditionOf(own)], ["Ready", undefined]);
});

test("a registry that answers with an error leaves the workload ready, and is asked again", async () => {
  isDown = true;
  await create("waits");
  const waits = await tenancy.untilWorkload("waits", (workload) => conditionOf(workload)?.status === "False");
  assert.equal([waits.status?.phase, waits.status?.conditions?.[0]?.status], ["Ready", "True"]);
  assert.is(conditionOf(waits)?.reason, "RegistryUnreachable");
  assert.match(conditionOf(waits)?.message ?? "", /answers 503; set spec\.entrypoint\.cmd/);
  isDown = false;
  const found = await tenancy.untilWorkload("waits", ({ status }) => status?.entrypoint !== undefined);
  assert.is(conditionOf(found)?.status, "True");
});

test("with the Secrets of the ServiceAccount, which the status does not show", async () => {
  const auths = { [registry.host]: { username: "puller", password: PASSWORD } };
  await tenancy.client.create(secrets, {
    metadata: { name: "pull", namespace: NAMESPACE },
    type: "kubernetes.io/dockerconfigjson",
    stringData: { ".dockerconfigjson": JSON.stringify({ auths }) },
  });
  const account = { metadata: { name: "default", namespace: NAMESPACE }, imagePullSecrets: [{ name: "pull" }] };
  const present = await tenancy.client.list(serviceAccounts, { namespace: NAMESPACE });
  // Of the controller manager, which control planes of tests do not run.
  if (!present.items.some(({ metadata }) => metadata.name === "default"))
    await tenancy.client.create(serviceAccounts, account);
  else
    await tenancy.client.patch(serviceAccounts, account.metadata, {
      type: "merge",
      body: { imagePullSecrets: account.imagePullSecrets },
    });
  await create("closed", { image: { ref: `${registry.host}/private/app:1@${first.digest}` } });
  const found = await tenancy.untilWorkload("closed", ({ status }) => status?.entrypoint !== undefined);
  assert.equal(found.status?.entrypoint?.args, ["--first"]);
  assert.not.ok(JSON.stringify(found).includes(PASSWORD));
  assert.ok(registry.requests.some(({ path }) => path.endsWith(`/private/app/blobs/${digestOf(first.config)}`)));
});

test("with the Secrets that the workload names: one that is missing is said, and when it is there all goes on", async () => {
  const spec = { image: { ref: `${registry.host}/private/app:1`, pullSecrets: [{ name: "own" }] } };
  const secretsOf = ({ status }: Workload) => status?.conditions?.find(({ type }) => type === "PullSecretsFound");
  await create("own", spec);
  const without = await tenancy.untilWorkload("own", (workload) => conditionOf(workload)?.status === "False");
  assert.equal([without.status?.phase, secretsOf(without)?.reason], ["Ready", "PullSecretUnusable"]);
  assert.match(secretsOf(without)?.message ?? "", /spec\.image\.pullSecrets: the Secret own does not exist/);
  assert.match(conditionOf(without)?.message ?? "", /the Secret own does not exist/);
  const told = async (message: RegExp) =>
    (await tenancy.eventsOf(without.metadata.uid)).some(
      (event) => event.reason === "PullSecretUnusable" && event.type === "Warning" && message.test(event.message ?? ""),
    );
  await tenancy.until("an Event of it", () => told(/does not exist/));

  const content = JSON.stringify({ auths: { [registry.host]: { username: "puller", password: PASSWORD } } });
  const metadata = { name: "own", namespace: NAMESPACE };
  // Any event of the workload has it looked at; without one it is in 30 s.
  const touch = (at: string) =>
    tenancy.client.patch(workloads, metadata, { type: "merge", body: { metadata: { annotations: { at } } } });
  await tenancy.client.create(secrets, { metadata, type: "Opaque", stringData: { ".dockerconfigjson": content } });
  await touch("1");
  await tenancy.until("an Event of its type", () => told(/is not of the type kubernetes\.io\/dockerconfigjson/));
  await tenancy.client.delete(secrets, metadata);
  const type = "kubernetes.io/dockerconfigjson";
  await tenancy.client.create(secrets, { metadata, type, stringData: { ".dockerconfigjson": content } });
  await touch("2");
  const found = await tenancy.untilWorkload("own", ({ status }) => status?.entrypoint !== undefined);
  assert.equal([secretsOf(found)?.status, conditionOf(found)?.status], ["True", "True"]);
  assert.not.ok(JSON.stringify(found).includes(PASSWORD));
});

test.run();
