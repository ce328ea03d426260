import { chmod, mkdtemp, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ApiError, NetworkError } from "../../../crds/client/api-error.ts";
import { configMaps, serviceAccounts } from "../../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import type { ClusterConfig } from "../../../crds/client/config/cluster-config.ts";
import { loadClusterConfig } from "../../../crds/client/config/load-cluster-config.ts";
import { pause } from "../../../scripts/cluster/process/wait-until.ts";
import { type ControlPlaneUnderTest, namespace, sharedPlane, until } from "./control-plane-under-test.ts";
import { follow } from "./following.ts";

const test = suite("identity");
let plane: ControlPlaneUnderTest;
let folder = "";
let caFile = "";

test.before(async () => {
  plane = await sharedPlane();
  folder = await mkdtemp(join(tmpdir(), "identity-"));
  caFile = plane.cluster.pki.authorityPath;
  const subject = { kind: "Group", name: "system:serviceaccounts", apiGroup: "rbac.authorization.k8s.io" };
  const roleRef = { kind: "ClusterRole", name: "cluster-admin", apiGroup: "rbac.authorization.k8s.io" };
  const binding = { metadata: { name: "accounts" }, subjects: [subject], roleRef };
  const path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
  await plane.client.request({ method: "POST", path, body: JSON.stringify(binding) });
});

test.after(() => rm(folder, { recursive: true, force: true }));

function list(client: ClusterClient): Promise<unknown> {
  return client.list(configMaps, { namespace });
}

async function failure(promise: Promise<unknown>): Promise<unknown> {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("it was accepted");
}

async function statusOf(config: ClusterConfig): Promise<number> {
  const error = await failure(list(plane.connect(config)));
  if (error instanceof ApiError) return error.status;
  throw error;
}

async function newToken(account: string): Promise<string> {
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`;
  const { body } = await plane.client.request({ method: "POST", path, body: '{"spec":{"expirationSeconds":3600}}' });
  return JSON.parse(body.toString()).status.token;
}

/** Replaces a file as the kubelet does: never is half of it there. */
async function replace(path: string, content: string): Promise<void> {
  await writeFile(`${path}.new`, content);
  await rename(`${path}.new`, path);
}

test("a client certificate is who the client is, from files and from data", async () => {
  const { server } = plane.cluster;
  const jane = await plane.cluster.clientCertificate({ user: "jane", groups: ["system:masters"] });
  const files = { clientCertificateFile: jane.certificatePath, clientKeyFile: jane.keyPath };
  await list(plane.connect({ server, caFile, ...files }));
  const caData = await readFile(caFile, "utf8");
  const clientCertificateData = await readFile(jane.certificatePath, "utf8");
  const clientKeyData = await readFile(jane.keyPath, "utf8");
  await list(plane.connect({ server, caData, clientCertificateData, clientKeyData }));
  await list(plane.connect(await loadClusterConfig({ kubeconfigPath: jane.kubeconfigPath })));
});

test("without a certificate, with an expired one and with one that may not, the API server refuses", async () => {
  const { server } = plane.cluster;
  assert.is(await statusOf({ server, caFile }), 403, "anonymous");
  const joe = await plane.cluster.clientCertificate({ user: "joe", groups: ["nobody"] });
  const error = await failure(
    list(plane.connect({ server, caFile, clientCertificateFile: joe.certificatePath, clientKeyFile: joe.keyPath })),
  );
  assert.instance(error, ApiError);
  assert.match((error as ApiError).message, /User "joe" cannot list resource "configmaps"/);
  const past = await plane.cluster.clientCertificate({ user: "jane", groups: ["system:masters"], days: -1 });
  assert.is(
    await statusOf({ server, caFile, clientCertificateFile: past.certificatePath, clientKeyFile: past.keyPath }),
    401,
  );
  assert.is(await statusOf({ server, caFile, token: "made-up" }), 401);
});

test("a server that the authority does not vouch for is not spoken to", async () => {
  const { server } = plane.cluster;
  const other = await plane.cluster.clientCertificate({ user: "not-an-authority", groups: [] });
  for (const trust of [{}, { caFile: other.certificatePath }, { caFile, tlsServerName: "other.example.com" }]) {
    const error = await failure(list(plane.connect({ server, token: "secret", ...trust })));
    assert.instance(error, NetworkError);
    assert.is((error as NetworkError).requestWasSent, false, "the token stays here");
  }
  assert.is(await statusOf({ server, token: "made-up", insecureSkipTlsVerify: true }), 401);
  assert.is(await statusOf({ server, caFile, tlsServerName: "kubernetes.default.svc", token: "made-up" }), 401);
});

test("a service account's token that rotates in its file is followed, by calls and by watches", async () => {
  const { client, proxy, cluster } = plane;
  const account = { metadata: { name: "worker", namespace } };
  await client.create(serviceAccounts, account);
  const tokenFile = join(folder, "token");
  await writeFile(tokenFile, await newToken("worker"));
  const worker = plane.connect({ server: `https://127.0.0.1:${proxy.port}`, caFile, tokenFile });
  const following = follow(worker, { timings: { backoffMs: 50, maxBackoffMs: 200 } });
  await following.informer.synced;
  const old = await readFile(tokenFile, "utf8");

  // Another account of the same name: what was signed for the first is worth nothing any more.
  await client.delete(serviceAccounts, { namespace, name: "worker" });
  await client.create(serviceAccounts, account);
  await replace(tokenFile, await newToken("worker"));
  const before = plane.connect({ server: cluster.server, caFile, token: old });
  const refused = (error: unknown) => error instanceof ApiError && error.status === 401;
  // The API server takes it for 10 s more.
  const isRefused = () => list(before).then(() => pause(200).then(() => false), refused);
  await until("the old token to be refused", isRefused);

  await list(worker);
  proxy.cut();
  await client.create(configMaps, { metadata: { name: "after-rotation", namespace } });
  await until("the object", () => following.informer.store.get(`${namespace}/after-rotation`) !== undefined);
  await following.stop();
});

test("an authority and a client certificate that rotate in their files are followed", async () => {
  const jane = await plane.cluster.clientCertificate({ user: "jane", groups: ["system:masters"] });
  const past = await plane.cluster.clientCertificate({ user: "jane", groups: ["system:masters"], days: -1 });
  const certificate = join(folder, "jane.crt");
  const key = join(folder, "jane.key");
  await writeFile(certificate, await readFile(past.certificatePath));
  await writeFile(key, await readFile(past.keyPath));
  const client = plane.connect({
    server: plane.cluster.server,
    caFile,
    clientCertificateFile: certificate,
    clientKeyFile: key,
  });
  assert.is(((await failure(list(client))) as ApiError).status, 401);
  await replace(key, await readFile(jane.keyPath, "utf8"));
  await replace(certificate, await readFile(jane.certificatePath, "utf8"));
  await list(client);
});

test("a pod's service account is used where there is no kubeconfig", async () => {
  const { client } = plane;
  await client.create(serviceAccounts, { metadata: { name: "pod", namespace } });
  const account = await mkdtemp(join(folder, "account-"));
  await writeFile(join(account, "namespace"), namespace);
  await writeFile(join(account, "token"), await newToken("pod"));
  await writeFile(join(account, "ca.crt"), await readFile(caFile));
  const { hostname, port } = new URL(plane.cluster.server);
  const env = { HOME: account, KUBERNETES_SERVICE_HOST: hostname, KUBERNETES_SERVICE_PORT: port };
  const config = await loadClusterConfig({ env, serviceAccountFolder: account });
  assert.is(config.namespace, namespace);
  await list(plane.connect(config));
});

test("an exec plugin's token and certificate are used, and asked for again after a refusal", async () => {
  const { client, cluster } = plane;
  await client.create(serviceAccounts, { metadata: { name: "plugin", namespace } });
  const command = join(folder, "plugin.sh");
  const answerPath = join(folder, "plugin.json");
  await writeFile(command, `#!/bin/sh\ncat "${answerPath}"\n`);
  await chmod(command, 0o755);
  const apiVersion = "client.authentication.k8s.io/v1";
  const answer = (status: object) =>
    replace(answerPath, JSON.stringify({ apiVersion, kind: "ExecCredential", status }));
  const byPlugin = plane.connect({ server: cluster.server, caFile, exec: { apiVersion, command } });
  await answer({ token: "made-up" });
  assert.is(((await failure(list(byPlugin))) as ApiError).status, 401);
  await answer({ token: await newToken("plugin") });
  await list(byPlugin);
  const jane = await cluster.clientCertificate({ user: "jane", groups: ["system:masters"] });
  const clientCertificateData = await readFile(jane.certificatePath, "utf8");
  const clientKeyData = await readFile(jane.keyPath, "utf8");
  await answer({ clientCertificateData, clientKeyData });
  await list(plane.connect({ server: cluster.server, caFile, exec: { apiVersion, command } }));
});

test.run();
