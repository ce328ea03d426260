// @runtimes bun node deno
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { loadClusterConfig } from "../../../crds/client/config/load-cluster-config.ts";

let folder = "";

test.before.each(async () => {
  folder = await mkdtemp(join(tmpdir(), "kubeconfig-"));
});

test.after.each(() => rm(folder, { recursive: true }));

async function write(name: string, content: string): Promise<string> {
  const path = join(folder, name);
  await mkdir(join(path, ".."), { recursive: true });
  await writeFile(path, content);
  return path;
}

/** What is set in it; fields that are left out and fields that are undefined mean the same. */
async function load(options: Parameters<typeof loadClusterConfig>[0]): Promise<unknown> {
  return JSON.parse(JSON.stringify(await loadClusterConfig(options)));
}

async function failure(options: Parameters<typeof loadClusterConfig>[0]): Promise<string> {
  try {
    await loadClusterConfig(options);
  } catch (error) {
    return (error as Error).message;
  }
  return "none";
}

function base64(text: string): string {
  return Buffer.from(text).toString("base64");
}

function kubeconfig(fields: {
  name: string;
  cluster?: string;
  user?: string;
  namespace?: string;
  current?: boolean;
}): string {
  const {
    name,
    cluster = `server: "https://${name}:6443"`,
    user = `token: token-of-${name}`,
    namespace,
    current = true,
  } = fields;
  return `
apiVersion: v1
kind: Config
${current ? `current-context: ${name}` : ""}
clusters: [{ name: ${name}, cluster: { ${cluster} } }]
users: [{ name: ${name}, user: { ${user} } }]
contexts: [{ name: ${name}, context: { cluster: ${name}, user: ${name}${namespace ? `, namespace: ${namespace}` : ""} } }]
`;
}

test("loadClusterConfig reads inline data and decodes it", async () => {
  const cluster = `server: "https://one:6443", certificate-authority-data: ${base64("CA")}, tls-server-name: api.one`;
  const user = `client-certificate-data: ${base64("CERTIFICATE")}, client-key-data: ${base64("KEY")}`;
  const kubeconfigPath = await write("config", kubeconfig({ name: "one", cluster, user, namespace: "team" }));
  assert.equal(await load({ kubeconfigPath }), {
    server: "https://one:6443",
    caData: "CA",
    tlsServerName: "api.one",
    clientCertificateData: "CERTIFICATE",
    clientKeyData: "KEY",
    namespace: "team",
  });
});

test("loadClusterConfig resolves relative files against the kubeconfig's folder", async () => {
  const cluster = `server: "https://one", certificate-authority: pki/ca.crt, insecure-skip-tls-verify: false`;
  const user = "client-certificate: ../one.crt, client-key: /keys/one.key, tokenFile: token";
  const kubeconfigPath = await write("deep/config", kubeconfig({ name: "one", cluster, user }));
  assert.equal(await load({ kubeconfigPath }), {
    server: "https://one",
    caFile: join(folder, "deep/pki/ca.crt"),
    insecureSkipTlsVerify: false,
    clientCertificateFile: join(folder, "one.crt"),
    clientKeyFile: "/keys/one.key",
    tokenFile: join(folder, "deep/token"),
  });
});

test("loadClusterConfig prefers inline data to a file beside it", async () => {
  const cluster = `server: "https://one", certificate-authority: ca.crt, certificate-authority-data: ${base64("CA")}`;
  const kubeconfigPath = await write("config", kubeconfig({ name: "one", cluster }));
  const config = await loadClusterConfig({ kubeconfigPath });
  assert.is(config.caData, "CA");
  assert.is(config.caFile, undefined);
});

test("loadClusterConfig merges the files of KUBECONFIG, of which the first counts and missing ones do not", async () => {
  const first = await write("first", `${kubeconfig({ name: "one", current: false })}\n`);
  const second = await write("second", kubeconfig({ name: "two" }));
  const third = await write(
    "third",
    kubeconfig({ name: "one", cluster: `server: "https://hidden"`, user: "token: hidden" }),
  );
  const env = { KUBECONFIG: [join(folder, "missing"), first, second, third].join(":"), HOME: folder };
  assert.equal(await load({ env }), { server: "https://two:6443", token: "token-of-two" });
  assert.equal(await load({ env, context: "one" }), { server: "https://one:6443", token: "token-of-one" });
});

test("loadClusterConfig reads ~/.kube/config where the environment names nothing", async () => {
  await write(".kube/config", kubeconfig({ name: "home" }));
  assert.equal(await load({ env: { HOME: folder, KUBECONFIG: "" } }), {
    server: "https://home:6443",
    token: "token-of-home",
  });
});

test("loadClusterConfig uses the pod's service account where there is no kubeconfig", async () => {
  await write("account/namespace", "team\n");
  const serviceAccountFolder = join(folder, "account");
  const env = { HOME: folder, KUBERNETES_SERVICE_HOST: "10.96.0.1", KUBERNETES_SERVICE_PORT: "443" };
  assert.equal(await load({ env, serviceAccountFolder }), {
    server: "https://10.96.0.1:443",
    caFile: join(folder, "account/ca.crt"),
    tokenFile: join(folder, "account/token"),
    namespace: "team",
  });
  const overIpv6 = await loadClusterConfig({
    env: { ...env, KUBERNETES_SERVICE_HOST: "fd00::1" },
    serviceAccountFolder,
  });
  assert.is(overIpv6.server, "https://[fd00::1]:443");
});

test("loadClusterConfig does not fall back to the pod's service account when a kubeconfig was asked for", async () => {
  const env = { HOME: folder, KUBERNETES_SERVICE_HOST: "10.96.0.1", KUBERNETES_SERVICE_PORT: "443" };
  const missing = join(folder, "missing");
  assert.is(await failure({ env, kubeconfigPath: missing }), `Cannot find a cluster: no kubeconfig at ${missing}`);
  assert.match(await failure({ env: { ...env, KUBECONFIG: missing } }), "Cannot find a cluster");
});

test("loadClusterConfig reads an exec plugin and where its program is", async () => {
  const user = `exec: { apiVersion: client.authentication.k8s.io/v1, command: bin/login, args: [a, b],
    env: [{ name: REGION, value: north }], installHint: get it, provideClusterInfo: true, interactiveMode: Never }`;
  const kubeconfigPath = await write("config", kubeconfig({ name: "one", user }));
  const { exec } = await loadClusterConfig({ kubeconfigPath });
  assert.equal(exec, {
    apiVersion: "client.authentication.k8s.io/v1",
    command: join(folder, "bin/login"),
    args: ["a", "b"],
    env: { REGION: "north" },
    installHint: "get it",
    provideClusterInfo: true,
  });
});

test("loadClusterConfig says what is wrong with a kubeconfig", async () => {
  const cases: [content: string, problem: RegExp][] = [
    ["clusters: [", /^Cannot read the kubeconfig .*config: .+/],
    ["clusters: 7", /^Cannot read the kubeconfig .*config: .*Expected Array/],
    ["", /it has no current-context$/],
    ["current-context: gone", /it has no context "gone", only none$/],
    [
      kubeconfig({ name: "one" }).replace("current-context: one", "current-context: two"),
      /it has no context "two", only "one"$/,
    ],
    [
      kubeconfig({ name: "one" }).replace("cluster: one", "cluster: two"),
      /names the cluster "two", which does not exist$/,
    ],
    [kubeconfig({ name: "one" }).replace("user: one", "user: two"), /names the user "two", which does not exist$/],
    [kubeconfig({ name: "one", cluster: "tls-server-name: x" }), /the cluster "one" has no server$/],
    [kubeconfig({ name: "one", cluster: "server: x, proxy-url: y" }), /needs proxy-url, which is not supported$/],
    [
      kubeconfig({ name: "one", user: "username: x, password: y" }),
      /needs a user name and password, which is not supported$/,
    ],
    [kubeconfig({ name: "one", user: "as: root" }), /needs impersonation, which is not supported$/],
    [kubeconfig({ name: "one", user: "auth-provider: { name: x }" }), /needs auth-provider, which is not supported$/],
    [
      kubeconfig({ name: "one", user: "exec: { apiVersion: client.authentication.k8s.io/v1alpha1, command: x }" }),
      /its exec plugin x speaks client.authentication.k8s.io\/v1alpha1, not/,
    ],
  ];
  for (const [content, problem] of cases) {
    const kubeconfigPath = await write("config", content);
    assert.match(await failure({ kubeconfigPath }), problem);
  }
});

test("loadClusterConfig says where it looked", async () => {
  const path = join(folder, ".kube/config");
  assert.is(
    await failure({ env: { HOME: folder } }),
    `Cannot find a cluster: no kubeconfig at ${path}, and this is not a pod`,
  );
});

test.run();
