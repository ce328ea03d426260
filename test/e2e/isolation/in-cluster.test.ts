// @limit 2400
// @own-cluster
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { Agent } from "node:http";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { parseAllDocuments, stringify } from "yaml";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { type ClusterClient, createClusterClient } from "../../../crds/client/cluster-client.ts";
import { loadClusterConfig } from "../../../crds/client/config/load-cluster-config.ts";
import { createTransport, type Transport } from "../../../crds/client/transport.ts";
import type { KubernetesList, Pod } from "../../../crds/kubernetes.ts";
import { label } from "../../../crds/labels.ts";
import { pushImages } from "../../../scripts/cluster/builds/push-images.ts";
import { ensureRegistry } from "../../../scripts/cluster/builds/registry.ts";
import { downLocalCluster } from "../../../scripts/cluster/down-local-cluster.ts";
import { ECHO_HTTP_IMAGE } from "../../../scripts/cluster/images/local-images.ts";
import { versionAtLeast } from "../../../scripts/cluster/kubernetes/version-at-least.ts";
import { silent } from "../../../scripts/cluster/log.ts";
import type { TcpProxy } from "../../../scripts/cluster/process/tcp-proxy.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { type LocalCluster, upLocalCluster } from "../../../scripts/cluster/up-local-cluster.ts";
import { programImage } from "../../../scripts/images/program-images.ts";
import { readSource } from "../../../scripts/images/source.ts";
import { makeSnapshotsVolume } from "../../../scripts/start/snapshots-volume.ts";
import { chart, type Helm, startHelm } from "../../cluster/chart/helm.ts";
import { kubectlFor, type RunKubectl, validation } from "../../cluster/isolation/kubectl.ts";
import { patiently, untilReleased } from "../claims/patiently.ts";
import { namedHttp } from "../gateway/named-programs.ts";
import { createLoad, createSessions, type Load } from "../upgrade/load.ts";
import { apiForPods } from "./api-for-pods.ts";
import { startServiceProxy } from "./service-proxy.ts";

const test = suite("operator, API and gateway as pods of the cluster that they serve");
const NAME = "e2e-in-cluster";
const KEY = "in-cluster-key";
const root = join(import.meta.dirname, "../../..");

let cluster: LocalCluster;
let kubectl: RunKubectl;
let helm: Helm;
let server: TcpProxy;
let transport: Transport;
let client: ClusterClient;
let api: string;
let gateway: string;
/** Of the pods that this suite runs, in the namespace. */
const inNamespace = (...parameters: string[]) => kubectl("-n", "tenancy", ...parameters);

test.before(start);

async function start(): Promise<void> {
  cluster = await upLocalCluster({ name: NAME });
  kubectl = await kubectlFor(cluster.kubeconfigPath);
  const source = await readSource(root);
  const operator = await programImage("operator", source, silent);
  const edge = await programImage("edge", source, silent);
  const tools = await programImage("tools", source, silent);
  const registry = await ensureRegistry(NAME, silent);
  await pushImages(registry, [operator.image, edge.image, tools.image]);
  server = await apiForPods(cluster);
  helm = await startHelm(cluster.kubeconfigPath);
  const sink = await startSink(`${registry}/localhost/tenancy-operator:${source.version}`);
  await install({ ...values(registry, source.version), sink });
  await inNamespace("create", "secret", "generic", "tenancy-api-key", `--from-literal=api-key=${KEY}`);
  transport = createTransport({ config: await loadClusterConfig({ kubeconfigPath: cluster.kubeconfigPath }) });
  client = createClusterClient({ transport });
  await makeSnapshotsVolume({
    client,
    namespace: "tenancy",
    folder: cluster.volumesFolder,
    size: "10Gi",
    signal: AbortSignal.timeout(120_000),
  });
}

test.after(async () => {
  transport?.close();
  await helm?.close();
  await server?.close();
  await downLocalCluster({ name: NAME });
});

/**
 * The chart as a user would take it, with what only this cluster needs: how its pods reach the API server, and from
 * which registry its node pulls the images.
 */
function values(registry: string, version: string): object {
  const image = (name: string) => `${registry}/localhost/${name}:${version}`;
  return {
    images: { operator: image("tenancy-operator"), edge: image("tenancy-edge") },
    hostAliases: [{ ip: cluster.hostAddress, hostnames: ["kubernetes.default.svc"] }],
    env: { KUBERNETES_SERVICE_HOST: "kubernetes.default.svc", KUBERNETES_SERVICE_PORT: String(server.port) },
    operator: {
      env: {
        TENANCY_CPU_OVERCOMMIT: "20",
        TENANCY_MEMORY_OVERCOMMIT: "4",
        TENANCY_TOOLS_IMAGE: image("tenancy-tools"),
        TENANCY_SNAPSHOT_STORAGE_CLASS: "",
      },
    },
    // The cluster tells later of an edge that goes where the machine is busy.
    edge: { split: true, env: { TENANCY_STOP_DELAY: "10" } },
    frontDoor: { enabled: true, domain: "apps.example.com", replicas: 1 },
    admission: { enabled: versionAtLeast(cluster.version, "1.30") },
  };
}

/** A sink in a namespace of its own. It writes what it gets to its log. @returns the values for it */
async function startSink(image: string): Promise<object> {
  await kubectl("create", "namespace", "events");
  const program = `require("node:http").createServer(async (request, response) => {
    for await (const piece of request) process.stdout.write(piece);
    console.log();
    response.end("taken");
  }).listen(8080)`;
  const container = { name: "sink", image, command: ["node", "-e", program] };
  const pod = { apiVersion: "v1", kind: "Pod", metadata: { name: "sink" }, spec: { containers: [container] } };
  const folder = mkdtempSync(join(tmpdir(), "tenancy-sink-pod-"));
  writeFileSync(join(folder, "pod.yaml"), stringify(pod));
  await kubectl("-n", "events", "apply", "-f", join(folder, "pod.yaml"));
  rmSync(folder, { recursive: true });
  await kubectl("-n", "events", "wait", "pod/sink", "--for=condition=Ready", "--timeout=240s");
  const ip = await kubectl("-n", "events", "get", "pod", "sink", "-o", "jsonpath={.status.podIP}");
  return { enabled: true, address: `http://${ip}:8080`, events: "usage,claim.active,claim.released,audit" };
}

async function install(chosen: object): Promise<void> {
  if (versionAtLeast(cluster.version, "1.21")) {
    await helm(["install", "tenancy", chart], chosen);
    return;
  }
  // An older server knows neither the disruption budgets nor the chart, and takes the rest.
  const all = parseAllDocuments(await helm(["template", "tenancy", chart], chosen)).map((one) => one.toJS());
  const file = join(mkdtempSync(join(tmpdir(), "tenancy-in-cluster-")), "all.yaml");
  const taken = all.filter(({ kind }) => kind !== "PodDisruptionBudget");
  writeFileSync(file, taken.map((object) => stringify(object)).join("---\n"));
  await kubectl("apply", "-f", file, validation(cluster.version));
  rmSync(dirname(file), { recursive: true });
}

async function call(
  method: string,
  path: string,
  body?: unknown,
): Promise<{ status: number; json: Record<string, unknown> }> {
  const response = await fetch(`${api}/api/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json" },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, json: text.startsWith("{") ? JSON.parse(text) : { text } };
}

/** Of a replica that is not on its way out. */
async function addressOf(app: string, port = 8080): Promise<string> {
  const found = await inNamespace("get", "pods", "-l", `app.kubernetes.io/name=${app}`, "-o", "json");
  const { items } = JSON.parse(found) as KubernetesList<Pod>;
  const staying = items.find(({ metadata, status }) => metadata.deletionTimestamp === undefined && status?.podIP);
  return `http://${staying?.status?.podIP}:${port}`;
}

test("two replicas of each, and one front door, become ready, by their own probes", async () => {
  for (const name of ["tenancy-operator", "tenancy-edge", "tenancy-gateway", "tenancy-proxy"]) {
    const ready = inNamespace("rollout", "status", `deployment/${name}`, "--timeout=240s");
    await ready.catch(async (error: unknown) => {
      const pods = await inNamespace("describe", "pods", "-l", `app.kubernetes.io/name=${name}`);
      const logs = await inNamespace("logs", `deployment/${name}`).catch(String);
      throw new Error(`${error}\n${pods}\n${logs}`);
    });
  }
  api = await addressOf("tenancy-edge");
  gateway = await addressOf("tenancy-gateway");
  // A probe may have restarted one on a busy machine; that ends with 0.
  const states = "jsonpath={range .items[*].status.containerStatuses[*]}{.name}:{.lastState.terminated.exitCode} {end}";
  const ends = (await inNamespace("get", "pods", "-o", states)).trim().split(" ");
  assert.is(ends.length, 7);
  for (const end of ends) assert.match(end, /:0?$/);
});

test("a container has its program and no shell, no right to write beside its volumes, and a user that is not root", async () => {
  const look = "[process.getuid(), require('fs').readdirSync('/usr/bin').sort().join(' ')].join(' ')";
  const write = "require('fs').writeFileSync('/app/new', '')";
  for (const [name, runtime, programs] of [
    ["tenancy-operator", "node", "node"],
    ["tenancy-edge", "bun", "bun kubectl"],
  ] as const) {
    const run = (...command: string[]) => inNamespace("exec", `deployment/${name}`, "--", ...command);
    assert.is((await run(runtime, "-e", `console.log(${look})`)).trim(), `65532 ${programs}`);
    assert.match(await run(runtime, "-e", write).catch(String), /EROFS/);
    for (const shell of ["sh", "/bin/sh", "bash", "busybox"]) {
      assert.match(await run(shell, "-c", "true").catch(String), /executable file not found|no such file/, shell);
    }
  }
});

test("the API asks for the key", async () => {
  assert.is((await fetch(`${api}/api/v1/tenants`)).status, 401);
  assert.is((await call("GET", "/tenants")).status, 200);
});

test("the front door's pod reaches the API for the daemons of sandboxes, and without its address says so", async () => {
  const ask = async () => {
    const headers = { "e2b-sandbox-id": "notes--ann", "x-access-token": "wrong" };
    return fetch(`${await addressOf("tenancy-proxy", 8081)}/health`, { headers });
  };
  // The name of the Service is for a cluster with DNS.
  for (const address of [new URL(api).host, null]) {
    const data = JSON.stringify({ data: { api: address } });
    await inNamespace("patch", "configmap", "tenancy-proxy", "--type=merge", `--patch=${data}`);
    await inNamespace("rollout", "restart", "deployment/tenancy-proxy");
    await inNamespace("rollout", "status", "deployment/tenancy-proxy", "--timeout=240s");
    const response = await ask();
    const text = await response.text();
    // The front door's own answers are never of the API's type.
    assert.is(response.headers.get("x-content-type-options"), address === null ? null : "nosniff", text);
    if (address === null) assert.match(text, "TENANCY_PROXY_API");
  }
});

test("a tenant's files come back, and kubectl in the edge's pod execs and reads logs", async () => {
  await kubectl("apply", "-f", "manifests/examples/notes-workload.yaml");
  const first = await patiently(() => call("POST", "/tenants/ann/claim", { workload: "notes" }));
  assert.is(first.status, 201, JSON.stringify(first.json));
  const path = `/instances/${first.json.instanceId}`;
  const written = await call("POST", `${path}/exec`, {
    command: ["/bin/sh", "-c", "echo milk > /data/notes.txt; id -u"],
  });
  assert.is(written.json.exitCode, 0, JSON.stringify(written.json));
  assert.is((await call("GET", `${path}/logs`)).status, 200);
  const released = await untilReleased(() => call("POST", "/tenants/ann/release?wait=true", { workload: "notes" }));
  assert.is(released.status, 200, JSON.stringify(released.json));

  const second = await patiently(() => call("POST", "/tenants/ann/claim", { workload: "notes", resume: true }));
  const { claims } = (await call("GET", "/tenants/ann")).json as { claims: { source: string }[] };
  assert.is(claims[0]?.source, "cold+data", JSON.stringify(second.json));
  const read = await call("POST", `/instances/${second.json.instanceId}/exec`, { command: ["cat", "/data/notes.txt"] });
  assert.is(read.json.stdout, "milk\n", JSON.stringify(read.json));
  const listed = await call("GET", "/snapshots");
  assert.match(String(listed.json.text), '"tenantId":"ann"');
  // Written with the rights of the operator's account.
  const marked = "--for=jsonpath={.metadata.annotations.tenancy\\.dev/volume-marked}=true";
  await inNamespace("wait", "persistentvolumeclaim/tenancy-snapshots", marked, "--timeout=240s");
});

test("the sink has what became of the claim, what it used, and who made it", async () => {
  let log = "";
  await waitUntil(
    async () => {
      log = await kubectl("-n", "events", "logs", "sink");
      const told = new Set([...log.matchAll(/"type":"dev\.tenancy\.([a-z.]+)"/g)].map(([, type]) => type));
      return ["usage", "claim.active", "claim.released", "audit"].every((type) => told.has(type));
    },
    { what: "all events", limitMs: 240_000, explain: () => log },
  );
});

test("an event reaches its own tenant's container through the gateway's pod", async () => {
  const spec = {
    image: { ref: ECHO_HTTP_IMAGE },
    entrypoint: namedHttp,
    resources: { vcpus: 1, memoryMb: 64, diskGb: 1 },
    health: { httpGet: { path: "/", port: 8080 } },
    network: { ports: [8080] },
  };
  assert.is((await call("POST", "/workloads", { name: "named", spec })).status, 201);
  const trigger = { type: "webhook", workloadRef: "named", tenant: { from: "who" }, config: { path: "/hooks/named" } };
  assert.is((await call("POST", "/triggers", { name: "named", spec: trigger })).status, 201);
  await inNamespace("wait", "tenancytrigger/named", "--for=jsonpath={.status.phase}=Active", "--timeout=240s");
  const instances = new Set<string>();
  for (const who of ["dave", "erin"]) {
    let text = "";
    const deliver = async () => {
      const headers = { "content-type": "application/json" };
      const body = JSON.stringify({ who });
      const response = await fetch(`${gateway}/hooks/named`, { method: "POST", headers, body });
      text = await response.text();
      return response.status;
    };
    // The other replica may have said that it is active; this one serves it when its own watch shows it.
    const status = await waitUntil(
      async () => {
        const answered = await deliver();
        return answered !== 404 && answered;
      },
      { what: "the trigger to be served", limitMs: 60_000, explain: () => text },
    );
    assert.is(status, 200, text);
    const [claim] = (await call("GET", `/tenants/${who}`)).json.claims as { instanceId: string }[];
    assert.ok(text.startsWith(`${claim?.instanceId} `), text);
    assert.match(text, `"tenantId":"${who}"`);
    instances.add(claim?.instanceId ?? "");
  }
  assert.is(instances.size, 2);
});

test("the API's pod cannot read Secrets, and no tenant's pod holds a token", async () => {
  const { json } = await call("GET", "/tenants/ann");
  const [claim] = json.claims as { instanceId: string }[];
  const command = ["ls", "/var/run/secrets/kubernetes.io"];
  const found = await call("POST", `/instances/${claim?.instanceId}/exec`, { command });
  assert.is.not(found.json.exitCode, 0);
  const url = "--as=system:serviceaccount:tenancy:tenancy-api";
  assert.match(await inNamespace("get", "secrets", url).catch(String), "forbidden");
});

// `helm rollback`: cluster/chart/install.
test("under load: an upgrade of all pods by Helm, and the way back by kubectl, fail no request", async () => {
  // Helm and EndpointSlices need it.
  if (!versionAtLeast(cluster.version, "1.21")) return;
  const service = await startServiceProxy(client, { namespace: "tenancy", name: "tenancy-edge" });
  const load = createLoad({ authorization: `Bearer ${KEY}` });
  try {
    startClients(load, service.url);
    await untilAllWentRound(load);
    const changed = { env: { TENANCY_LOG_LEVEL: "debug" }, gateway: { replicas: 1 } };
    await helm(["upgrade", "tenancy", chart, "--reuse-values", "--wait", "--timeout=240s"], changed);
    // Helm waits for the new pods, not for the end of the old ones.
    await waitUntil(
      async () => {
        const gateways = await inNamespace("get", "pods", "-l", "app.kubernetes.io/name=tenancy-gateway", "-o", "json");
        const { items } = JSON.parse(gateways) as KubernetesList<Pod>;
        return items.filter(({ metadata }) => metadata.deletionTimestamp === undefined).length === 1;
      },
      { what: "one gateway to stay", limitMs: 240_000 },
    );
    // The operator has filled it meanwhile.
    assert.is.not(await inNamespace("get", "secret", "tenancy-snapshots", "-o", "jsonpath={.data}"), "");
    const rolled = ["tenancy-operator", "tenancy-edge"];
    for (const name of rolled) await inNamespace("rollout", "undo", `deployment/${name}`);
    for (const name of rolled) {
      await inNamespace("rollout", "status", `deployment/${name}`, "--timeout=240s");
      assert.not.match(await inNamespace("get", "deployment", name, "-o", "jsonpath={..env}"), '"TENANCY_LOG_LEVEL"');
    }
    await untilAllWentRound(load);
  } finally {
    await load.end();
    await service.stop();
  }
  console.log(`note: ${JSON.stringify(load.counts)}; the longest, in ms: ${JSON.stringify(load.longestMs)}`);
  assert.equal(load.failures, []);
});

/** Who claims and releases, who keeps files, and who reads on a connection that is kept. */
function startClients(load: Load, url: string): void {
  const sessions = createSessions(load, url);
  const check = async (tenant: string, instance: string): Promise<void> => {
    const { items } = await client.list(pods, { namespace: "tenancy", labelSelector: `${label.tenant}=${tenant}` });
    const live = items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
    const names = live.map(({ metadata }) => metadata.name);
    if (names.join() !== instance) load.failures.push(`${tenant} was given ${instance} and has ${names}`);
  };
  load.start("claims", async () => {
    const { instance } = await sessions.claim("ben", "named");
    await check("ben", instance);
    await sessions.release("ben", "named");
  });
  let lines = 0;
  load.start("files", async () => {
    const { instance } = await sessions.claim("cem", "notes", { resume: true });
    await check("cem", instance);
    const body = JSON.stringify({ command: ["/bin/sh", "-c", "echo line >> /data/lines; wc -l < /data/lines"] });
    const exec = { url: `${url}/api/v1/instances/${instance}/exec`, method: "POST", body };
    const { stdout } = JSON.parse((await load.call("exec", exec)).body.toString()) as { stdout: string };
    lines += 1;
    if (Number(stdout) !== lines) load.failures.push(`of ${lines} lines of a file there are ${stdout}`);
    await sessions.release("cem", "notes");
  });
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  load.start("reads", async () => {
    await load.call("read", { url: `${url}/api/v1/tenants/ann`, agent });
  });
}

async function untilAllWentRound({ rounds, failures }: Load): Promise<void> {
  const before = { ...rounds };
  const left = () => Object.keys(rounds).filter((name) => rounds[name] === before[name]);
  await waitUntil(() => left().length === 0 || failures.length > 0, {
    ...{ what: "every client to go round", limitMs: 240_000 },
    explain: () => left().join(", "),
  });
  assert.equal(failures, []);
}

test("the pods that replace them go on with the claims that there are", async () => {
  api = await addressOf("tenancy-edge");
  const again = await call("POST", "/tenants/ann/claim", { workload: "notes" });
  assert.is(again.json.source, "existing", JSON.stringify(again.json));
  assert.is(await inNamespace("get", "events", "--field-selector=reason=FailedPreStopHook", "-o", "name"), "");
});

test("the API server finds nothing doubtful in the policies", async () => {
  if (!versionAtLeast(cluster.version, "1.30")) return;
  const path = "jsonpath={.items[*].status.typeChecking.expressionWarnings}";
  assert.is(await kubectl("get", "validatingadmissionpolicies", "-o", path), "");
});

test.run();
