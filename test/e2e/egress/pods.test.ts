// @limit 900
import type { ChildProcess } from "node:child_process";
import { spawn } from "node:child_process";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { configMaps, namespaces as namespaceResource, pods, secrets } from "../../../crds/client/built-in-resources.ts";
import { type ClusterClient, createClusterClient } from "../../../crds/client/cluster-client.ts";
import { loadClusterConfig } from "../../../crds/client/config/load-cluster-config.ts";
import { createTransport } from "../../../crds/client/transport.ts";
import type { Container, Pod } from "../../../crds/kubernetes.ts";
import { label } from "../../../crds/labels.ts";
import type { WorkloadNetwork } from "../../../crds/network.ts";
import { egressCertificates } from "../../../operator/egress/egress-certificates.ts";
import { egressNames } from "../../../operator/egress/egress-names.ts";
import { egressObjects } from "../../../operator/egress/egress-objects.ts";
import { egressRules } from "../../../operator/egress/egress-rules.ts";
import { egressSidecar, pickProxyUid, shareInitContainer } from "../../../operator/egress/egress-sidecar.ts";
import { HEALTH_PORT, PROXY_CONTAINER, TENANT_FILE } from "../../../operator/egress/layout.ts";
import { podTools } from "../../../operator/snapshots/pod-tools.ts";
import { installDebianPackages } from "../../../scripts/cluster/debian-packages.ts";
import { downLocalCluster } from "../../../scripts/cluster/down-local-cluster.ts";
import { busyboxFiles, findStaticBusybox } from "../../../scripts/cluster/images/busybox.ts";
import { programFiles } from "../../../scripts/cluster/images/program-files.ts";
import { importProxyImage, PROXY_IMAGE } from "../../../scripts/cluster/images/proxy-image.ts";
import { importImages } from "../../../scripts/cluster/images.ts";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { type LocalCluster, upLocalCluster } from "../../../scripts/cluster/up-local-cluster.ts";
import type { UpstreamSettings } from "./messages.ts";
import { reply, testProgram } from "./reply.ts";
import { upstreamCertificates } from "./upstream-certificates.ts";

const name = "egress";
const namespace = "egress-test";
const workload = "hello";
const CURL_IMAGE = "localhost/tenancy-curl:1";
const token = { name: "github", key: "token" };
const network: WorkloadNetwork = {
  access: "restricted",
  allowlist: ["allowed.example"],
  credentials: [{ domain: "api.example", headers: [{ name: "Authorization", valueFrom: { secretKeyRef: token } }] }],
};

interface Stage {
  cluster: LocalCluster;
  client: ClusterClient;
  upstream: ChildProcess;
  close(): void;
  settle(network: WorkloadNetwork): Promise<void>;
}

const test = suite<{ stage: Stage }>("egress proxy in pods");

test.before(async (context) => {
  await installDebianPackages(["curl"], () => undefined);
  const cluster = await upLocalCluster({ name });
  const base = await busyboxFiles(await findStaticBusybox(() => undefined));
  const curl = await programFiles({ programs: ["/usr/bin/curl"], files: [], base });
  await Promise.all([
    importProxyImage(name, () => undefined),
    importImages(name, [
      { name: CURL_IMAGE, files: [...base, ...curl], user: "65532:65532", command: ["sleep", "36000"] },
    ]),
  ]);
  const names = ["allowed.example", "api.example", "unlisted.example"];
  const world = await upstreamCertificates(names);
  const [command = "", ...rest] = testProgram("upstream-program.ts");
  const upstream = spawn(command, rest, { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  upstream.send({
    certificates: world.certificates,
    records: Object.fromEntries(names.map((one) => [one, [cluster.hostAddress]])),
    resolvers: [cluster.hostAddress],
    host: cluster.hostAddress,
  } satisfies UpstreamSettings);
  await reply(upstream, "the upstream servers");

  const transport = createTransport({
    config: await loadClusterConfig({ kubeconfigPath: cluster.kubeconfigPath }),
    role: "test",
  });
  const client = createClusterClient({ transport });
  await client.create(namespaceResource, { metadata: { name: namespace } });
  const rules = egressRules({ image: { ref: "i" }, network });
  assert.ok(rules);
  const domains = rules.credentials.map(({ domain }) => domain);
  const certificates = await egressCertificates({ workload, domains, now: new Date() });
  const render = (of: WorkloadNetwork) => {
    const changed = egressRules({ image: { ref: "i" }, network: of });
    assert.ok(changed);
    return egressObjects({
      ...{ workload, namespace, rules: changed, certificates, extraAuthorities: world.authority },
      openedRanges: [`${cluster.hostAddress}/32`],
    });
  };
  const { settings, leaves } = render(network);
  assert.ok(leaves);
  await client.create(configMaps, settings);
  await client.create(secrets, leaves);
  await client.create(secrets, { metadata: { name: token.name, namespace }, stringData: { token: "planted-secret" } });
  context.stage = {
    ...{ cluster, client, upstream },
    close: () => transport.close(),
    async settle(of) {
      const body = { data: render(of).settings.data };
      await client.patch(configMaps, { namespace, name: egressNames(workload).settings }, { type: "merge", body });
    },
  };
});

test.after(async ({ stage }) => {
  stage?.upstream.kill("SIGKILL");
  stage?.close();
  await downLocalCluster({ name });
});

async function createPod(stage: Stage, pod: string, { isProxied = true, hasTools = false } = {}): Promise<number> {
  const rules = egressRules({ image: { ref: "i" }, network });
  assert.ok(rules);
  const sidecar = egressSidecar({ workload, rules, image: PROXY_IMAGE, proxyUid: pickProxyUid() });
  const tools = podTools({ image: PROXY_IMAGE, overlayDirs: hasTools ? ["/data"] : [], diskGb: 1 });
  const own: Container = {
    ...{ name: "workload", image: CURL_IMAGE },
    env: isProxied ? [...sidecar.workloadEnv] : [],
    volumeMounts: [...tools.volumeMounts, ...(isProxied ? sidecar.workloadMounts : [])],
    securityContext: { runAsNonRoot: true, allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } },
  };
  const started = performance.now();
  await stage.client.create(pods, {
    metadata: { name: pod, namespace },
    spec: {
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      terminationGracePeriodSeconds: 5,
      securityContext: { seccompProfile: { type: "RuntimeDefault" } },
      dnsPolicy: "None",
      dnsConfig: { nameservers: [stage.cluster.hostAddress] },
      initContainers: isProxied
        ? shareInitContainer({ redirect: sidecar.initContainer, tools: tools.initContainers, isRestored: false })
        : tools.initContainers,
      containers: isProxied ? [sidecar.container, own] : [own],
      volumes: [...tools.volumes, ...(isProxied ? sidecar.volumes : [])],
    },
  });
  let last: Pod | undefined;
  await waitUntil(
    async () => {
      last = await stage.client.get(pods, { namespace, name: pod });
      return last.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True");
    },
    { what: `${pod} to be ready`, limitMs: 60_000, intervalMs: 20, explain: () => JSON.stringify(last?.status) },
  );
  return performance.now() - started;
}

function inPod({ cluster }: Stage, pod: string, command: readonly string[], container = "workload"): Promise<string> {
  const where = ["--kubeconfig", cluster.kubeconfigPath, "-n", namespace];
  return runCommand(cluster.kubectlPath, [...where, "exec", pod, "-c", container, "--", ...command]);
}

/** What curl says: the status and the body, or how it failed. */
async function curl(stage: Stage, pod: string, url: string, ...more: string[]): Promise<string> {
  const script = 'curl -sS -m 60 -w "\\n%{http_code}" "$@" 2>&1; echo " exit $?"';
  return inPod(stage, pod, ["sh", "-c", script, "sh", ...more, url]);
}

test("a pod with the sidecar is ready soon after one without", async ({ stage }) => {
  const bare = await createPod(stage, "bare", { isProxied: false });
  const proxied = await createPod(stage, "proxied");
  const shared = await createPod(stage, "shared", { hasTools: true });
  const tooled = await createPod(stage, "tooled", { isProxied: false, hasTools: true });
  const seconds = (ms: number) => `${(ms / 1000).toFixed(2)} s`;
  console.log(
    `note: creation to Ready: bare ${seconds(bare)}, with the proxy ${seconds(proxied)}, with snapshot tools ${seconds(tooled)}, with both ${seconds(shared)}`,
  );
  const pod = await stage.client.get(pods, { namespace, name: "shared" });
  assert.is(pod.spec.initContainers?.length, 1);
  assert.match(await inPod(stage, "shared", ["/.tenancy/busybox", "ls", "/.tenancy"]), /busybox/);
});

test("the workload reaches what it was given, with the header that it never sees, and nothing else", async ({
  stage,
}) => {
  for (const pod of ["proxied", "shared"]) {
    assert.match(await curl(stage, pod, "https://allowed.example/"), /"serverName":"allowed.example"[\s\S]*200 exit 0/);
    assert.match(
      await curl(stage, pod, "https://api.example/", "--http1.1"),
      /"authorization":"planted-secret"[\s\S]*200 exit 0/,
    );
    assert.match(await curl(stage, pod, "https://unlisted.example/"), /000 exit 35/);
    assert.match(await curl(stage, pod, "http://allowed.example/"), /000 exit 7/);
    assert.match(await curl(stage, pod, `https://${stage.cluster.hostAddress}/`, "-k"), /000 exit 35/);
    assert.match(await curl(stage, pod, "https://10.96.0.1/version", "-k"), /000 exit 35/);
  }
  const open = await curl(stage, "bare", "http://allowed.example/");
  assert.match(open, /plain\n200 exit 0/);
});

test("each refusal is one line of the sidecar's log that names the tenant, from the claim of a warm pod on", async ({
  stage,
}) => {
  const lines = async () =>
    (await logOf(stage, "proxied"))
      .split("\n")
      .filter((line) => line.includes('"msg":"egress refused or failed"'))
      .map((line) => JSON.parse(line) as { tenant: string; name: string; reason: string })
      .filter(({ name: refused }) => refused === "unlisted.example");
  // The client hears of a refusal before the log does.
  const untilLogged = (count: number) =>
    waitUntil(
      async () => {
        const found = await lines();
        return found.length >= count && found;
      },
      { what: `${count} refusals in the log`, limitMs: 60_000, intervalMs: 200 },
    );
  const warm = await untilLogged(1);
  assert.equal(
    warm.map(({ tenant, reason }) => ({ tenant, reason })),
    [{ tenant: "", reason: "not-listed" }],
  );
  const body = { metadata: { labels: { [label.tenant]: "alice" } } };
  const started = performance.now();
  await stage.client.patch(pods, { namespace, name: "proxied" }, { type: "merge", body });
  await waitUntil(async () => (await inPod(stage, "proxied", ["cat", TENANT_FILE], PROXY_CONTAINER)) === "alice", {
    what: "the tenant in the pod",
    limitMs: 180_000,
    intervalMs: 200,
  });
  console.log(
    `note: the tenant was in the sidecar ${((performance.now() - started) / 1000).toFixed(1)} s after the label`,
  );
  await curl(stage, "proxied", "https://unlisted.example/");
  const tenants = await untilLogged(2);
  assert.equal(
    tenants.map(({ tenant }) => tenant),
    ["", "alice"],
  );
});

test("a scrape of the pod's port counts each refusal", async ({ stage }) => {
  const { status } = await stage.client.get(pods, { namespace, name: "proxied" });
  const denied = async () => {
    const text = await (await fetch(`http://${status?.podIP}:${HEALTH_PORT}/metrics`)).text();
    const of = (proxy: string) =>
      Number(
        new RegExp(`^haproxy_frontend_requests_denied_total\\{proxy="${proxy}"\\} ([0-9]+)$`, "m").exec(text)?.[1],
      );
    return [of("redirect"), of("inject")];
  };
  const [redirect = 0, inject = 0] = await denied();
  assert.match(await curl(stage, "proxied", "https://unlisted.example/"), /000 exit 35/);
  assert.match(await curl(stage, "proxied", "https://api.example/", "-X", "TRACE"), /405 exit 0/);
  assert.equal(await denied(), [redirect + 1, inject + 1]);
});

function logOf({ cluster }: Stage, pod: string): Promise<string> {
  const where = ["--kubeconfig", cluster.kubeconfigPath, "-n", namespace];
  return runCommand(cluster.kubectlPath, [...where, "logs", pod, "-c", PROXY_CONTAINER]);
}

test("the secret is in none of the places that a workload or a log reaches", async ({ stage }) => {
  const where = ["--kubeconfig", stage.cluster.kubeconfigPath, "-n", namespace];
  const log = await logOf(stage, "proxied");
  assert.match(log, '"name":"unlisted.example"');
  const seen = await inPod(stage, "proxied", [
    "sh",
    "-c",
    "cat /proc/*/environ /proc/*/cmdline; env; cat /.tenancy-trust/*; ls /etc /run; mount",
  ]);
  const args = await inPod(stage, "proxied", ["sh", "-c", "cat /proc/*/cmdline"], PROXY_CONTAINER);
  const objects = await runCommand(stage.cluster.kubectlPath, [
    ...where,
    "get",
    "pods,configmaps,events",
    "-o",
    "yaml",
  ]);
  for (const text of [log, seen, args, objects]) assert.not.match(text, /planted-secret|cGxhbnRlZC1zZWNyZXQ/);
  assert.not.match(seen, /tenancy-egress/);
});

test("a changed Secret and a changed allowlist reach pods that run", async ({ stage }) => {
  const body = { stringData: { token: "rotated-secret" } };
  const started = performance.now();
  await stage.client.patch(secrets, { namespace, name: token.name }, { type: "merge", body });
  await stage.settle({ ...network, allowlist: ["unlisted.example"] });
  await waitUntil(async () => (await curl(stage, "proxied", "https://api.example/")).includes("rotated-secret"), {
    ...{ what: "the new value", limitMs: 180_000, intervalMs: 500 },
  });
  console.log(`note: a change reached a running pod after ${((performance.now() - started) / 1000).toFixed(0)} s`);
  await waitUntil(async () => / 200|\n200/.test(await curl(stage, "proxied", "https://unlisted.example/")), {
    ...{ what: "the new allowlist", limitMs: 180_000, intervalMs: 500 },
  });
  assert.match(await curl(stage, "proxied", "https://allowed.example/"), /000 exit 35/);
  const { status } = await stage.client.get(pods, { namespace, name: "proxied" });
  for (const { restartCount } of status?.containerStatuses ?? []) assert.is(restartCount, 0);
});

test("a pod ends as soon as its workload does", async ({ stage }) => {
  const where = ["--kubeconfig", stage.cluster.kubeconfigPath, "-n", namespace];
  const started = performance.now();
  await runCommand(stage.cluster.kubectlPath, [...where, "delete", "pod", "proxied", "--wait=true"]);
  console.log(
    `note: deletion of a pod with the proxy: ${((performance.now() - started) / 1000).toFixed(2)} s (sleep ignores SIGTERM; 5 s of grace)`,
  );
});

test.run();
