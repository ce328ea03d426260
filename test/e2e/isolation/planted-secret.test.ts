// @limit 1800
import type { ChildProcess } from "node:child_process";
import { createHash, createHmac, randomBytes } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { gunzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { WebSocket } from "ws";
import { pods, secrets } from "../../../crds/client/built-in-resources.ts";
import { type ClusterClient, createClusterClient } from "../../../crds/client/cluster-client.ts";
import { loadClusterConfig } from "../../../crds/client/config/load-cluster-config.ts";
import { createTransport } from "../../../crds/client/transport.ts";
import { pools, triggers } from "../../../crds/kinds.ts";
import type { Secret } from "../../../crds/kubernetes.ts";
import { label, WORKLOAD_CONTAINER } from "../../../crds/labels.ts";
import { CLAIM_SECRET_TYPE, USE_LABEL } from "../../../crds/secret-refusal.ts";
import { parseDomainPattern } from "../../../operator/egress/domain-pattern.ts";
import { leafFile } from "../../../operator/egress/egress-certificates.ts";
import { egressNames } from "../../../operator/egress/egress-names.ts";
import { HEALTH_PORT, PROXY_CONTAINER } from "../../../operator/egress/layout.ts";
import { installDebianPackages } from "../../../scripts/cluster/debian-packages.ts";
import { clusterFolder } from "../../../scripts/cluster/folders.ts";
import { busyboxFiles, findStaticBusybox } from "../../../scripts/cluster/images/busybox.ts";
import {
  ECHO_AGENT_CONTROL_IMAGE,
  ECHO_HTTP_IMAGE,
  exampleImages,
} from "../../../scripts/cluster/images/local-images.ts";
import { programFiles } from "../../../scripts/cluster/images/program-files.ts";
import { importImages } from "../../../scripts/cluster/images.ts";
import { freePort } from "../../../scripts/cluster/process/free-port.ts";
import { readIfThere } from "../../../scripts/cluster/process/read-if-there.ts";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { type LocalCluster, upLocalCluster } from "../../../scripts/cluster/up-local-cluster.ts";
import { FakeMessenger } from "../../messenger/fake-messenger.ts";
import { patiently, untilReleased } from "../claims/patiently.ts";
import { type Stack, startStack } from "../claims/stack.ts";
import { clusterOfFile, leaveCluster } from "../cluster-of-file.ts";
import { startUpstream } from "../egress/upstream.ts";
import { createPlaces, secretsIn, writingsOf } from "./planted-secret-places.ts";

const cluster = clusterOfFile("planted-secret");
const namespace = "tenancy";
const image = "localhost/tenancy-planted:1";
const random = () => randomBytes(16).toString("hex");

/** Harmless, and planted beside the secrets: workload, pool and tenant have it as their name. */
const marker = `marker-${randomBytes(4).toString("hex")}`;
/** In other characters than hex only around it, so that each has several writings, and the core is in all of them. */
const cores = {
  header: random(),
  lines: random(),
  webhook: random(),
  bot: random(),
  agent: random(),
  apiKey: random(),
  claim: random(),
  trigger: random(),
};
const values = {
  header: `Bearer ${cores.header}/+=?"&`,
  lines: `${cores.lines}\n${cores.lines}`,
  webhook: `hook ${cores.webhook}/+=?"&`,
  bot: `110201543:AA${cores.bot}`,
  agent: `agent-${cores.agent}/+=?&`,
  apiKey: `key-${cores.apiKey}/+=?&`,
  claim: `claim ${cores.claim}/+=?"&`,
  trigger: `trigger ${cores.trigger}/+=?"&`,
};
/** Those, and what the operator itself keeps secret. */
const planted: Record<string, string> = { ...cores };
/** What users write into triggers stands there for all who may read them, and nowhere else. */
const inTriggers = { guard: random() };
const showsTriggers =
  /^(objects of \S+\/tenancytriggers|answer of (GET|POST) \/api\/v1\/(triggers\S*|debug\/resources)): /;
const ownSecrets = new Set(["vault", "given", ...Object.values(egressNames(marker))]);

const test = suite("a planted secret is nowhere but in its Secret and in the sidecar");
const places = createPlaces();
const messenger = new FakeMessenger();
const logFile = join(mkdtempSync(join(tmpdir(), "tenancy-planted-")), "log");
const operatorListen = `127.0.0.1:${await freePort()}`;
const edgeMetricsListen = `127.0.0.1:${await freePort()}`;
const authorization = { authorization: `Bearer ${values.apiKey}` };
let local: LocalCluster;
let stack: Stack;
let upstream: ChildProcess;
let client: ClusterClient;
let close: () => void = () => undefined;
let apiBaseUrl: string;
let sockets: WebSocket[] = [];
let events = "";
/** The instance whose proxy last refused the marker's name. */
let refusedIn = "";

test.before(async () => {
  await installDebianPackages(["curl"], () => undefined);
  local = await upLocalCluster({ name: cluster });
  const base = await busyboxFiles(await findStaticBusybox(() => undefined));
  const curl = await programFiles({ programs: ["/usr/bin/curl"], files: [], base });
  const echo = exampleImages(base).find(({ name }) => name === ECHO_HTTP_IMAGE);
  assert.ok(echo);
  const files = [...echo.files, ...curl, { path: "data", uid: 65532, gid: 65532 }];
  await importImages(cluster, [{ ...echo, name: image, files }]);
  const names = ["allowed.example", "api.example", "lines.example", "missing.example"];
  const started = await startUpstream(local, names, { "closed.example": ["169.254.169.254"] });
  upstream = started.upstream;
  apiBaseUrl = await messenger.start();
  const env = {
    TENANCY_LOG_LEVEL: "debug",
    TENANCY_API_KEY: values.apiKey,
    TENANCY_OPERATOR_LISTEN: operatorListen,
    TENANCY_EDGE_METRICS_LISTEN: edgeMetricsListen,
    ...started.env,
  };
  stack = await startStack(cluster, env, ["--log", logFile]);
  const transport = createTransport({
    config: await loadClusterConfig({ kubeconfigPath: stack.kubeconfigPath }),
    role: "test",
  });
  close = () => transport.close();
  client = createClusterClient({ transport });
  const { header, lines, webhook, bot, agent } = values;
  await client.create(secrets, {
    metadata: { name: "vault", namespace },
    stringData: { header, lines, webhook, bot, agent, marker },
  });
  await client.create(secrets, {
    metadata: { name: "given", namespace, labels: { [USE_LABEL]: "claim" } },
    stringData: { TOKEN: values.trigger },
  });
  const socket = new WebSocket(`${stack.url.replace("http", "ws")}/ws`);
  socket.on("message", (data) => (events += `${data}\n`));
  await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
  sockets = [socket];
});

test.after(async () => {
  for (const socket of sockets) socket.terminate();
  close();
  upstream?.kill("SIGKILL");
  await stack?.interrupt();
  await messenger.stop();
  await leaveCluster(cluster);
  rmSync(dirname(logFile), { recursive: true });
});

interface Answer {
  status: number;
  text: string;
}

/** Calls the edge with the key, and keeps what it answers. */
async function call(method: string, path: string, body?: unknown): Promise<Answer> {
  const response = await fetch(`${stack.url}${path}`, {
    method,
    headers: { ...authorization, ...(body !== undefined && { "content-type": "application/json" }) },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = JSON.stringify([...response.headers]) + (await response.text());
  places.add(`answer of ${method} ${path}`, text, "x-request-id");
  return { status: response.status, text };
}

async function expectStatus(status: number, answer: Promise<Answer>): Promise<string> {
  const got = await answer;
  assert.is(got.status, status, `${got.text}\n${stack.output()}`);
  return got.text;
}

async function claim(tenant: string, workload: string, source: string): Promise<string> {
  const body = { workload, resume: true };
  const text = await expectStatus(
    201,
    patiently(() => call("POST", `/api/v1/tenants/${tenant}/claim`, body)),
  );
  assert.match(await expectStatus(200, call("GET", `/api/v1/tenants/${tenant}`)), `"source":"${source}"`);
  return /"instanceId":"([^"]+)"/.exec(text)?.[1] ?? "";
}

/** Runs a script in a container; what it writes may be anything. */
function inPod(pod: string, container: string, script: string): Promise<string> {
  return kubectl("exec", pod, "-c", container, "--", "sh", "-c", script);
}

function kubectl(...words: string[]): Promise<string> {
  return runCommand(local.kubectlPath, ["--kubeconfig", stack.kubeconfigPath, "-n", namespace, ...words]);
}

const curl = (pod: string, ...words: string[]) =>
  inPod(pod, WORKLOAD_CONTAINER, `curl -sS -m 60 -w ' %{http_code}' ${words.join(" ")} 2>&1; echo " exit $?"`);

async function deliver(path: string, body: object, key: string): Promise<Answer> {
  const text = JSON.stringify(body);
  const signature = `sha256=${createHmac("sha256", key).update(text).digest("hex")}`;
  const headers = { "content-type": "application/json", "x-hub-signature-256": signature };
  const response = await fetch(`${stack.url}${path}`, { method: "POST", headers, body: text });
  const answer = await response.text();
  places.add(`answer of the webhook ${path}`, answer, /./);
  return { status: response.status, text: answer };
}

async function until(what: string, look: () => Promise<boolean> | boolean): Promise<void> {
  await waitUntil(look, { what, limitMs: 180_000, intervalMs: 200, explain: () => stack.output() });
}

const warm = `${label.pool}=${marker}`;

const podsWith = async (labelSelector: string) => (await client.list(pods, { namespace, labelSelector })).items.length;

async function untilWarm(): Promise<void> {
  await until("a warm pod", async () => (await podsWith(`${warm},${label.poolStatus}=ready`)) > 0);
}

async function untilTrigger(name: string, phase: string, detail = /(?:)/): Promise<void> {
  await until(`trigger ${name} to be ${phase}`, async () => {
    const { status } = await client.get(triggers, { namespace, name });
    return status?.phase === phase && detail.test(JSON.stringify(status));
  });
}

/** Says the marker in its log before it goes on. */
const entrypoint = (program: string) => ({
  cmd: "/bin/sh",
  args: ["-c", `echo started as $MARKER; exec ${program}`],
  env: { MARKER: marker },
});

async function addLogs(when: string): Promise<void> {
  const { items } = await client.list(pods);
  for (const { metadata, spec } of items.filter(({ status }) => status?.phase === "Running")) {
    const { name, namespace: where = "" } = metadata;
    const isOurs = metadata.labels?.[label.workload]?.includes(marker) ?? false;
    for (const container of [...(spec.initContainers ?? []), ...spec.containers].map((one) => one.name)) {
      const text = await kubectl("-n", where, "logs", name, "-c", container);
      const isHeard =
        (isOurs && container === WORKLOAD_CONTAINER) || (container === PROXY_CONTAINER && name === refusedIn);
      // The others have nothing to say; that they were asked is that kubectl had no error.
      places.add(`log of ${name} ${container}, ${when}`, text, isHeard ? marker : /(?:)/);
    }
  }
  assert.ok(places.has(`log of ${refusedIn} ${PROXY_CONTAINER}, ${when}`));
}

test("the search finds a text in each of its writings, wherever in a longer text it is", () => {
  const value = `${random()}/+=?"`;
  for (let before = 0; before < 6; before++) {
    for (let after = 0; after < 6; after++) {
      const whole = Buffer.from(`${"a".repeat(before)}${value}${"b".repeat(after)}`);
      for (const text of [
        whole.toString("latin1"),
        whole.toString("base64"),
        whole.toString("base64url"),
        whole.toString("hex"),
        encodeURIComponent(whole.toString()),
        JSON.stringify({ whole: whole.toString() }),
        whole.toString("hex").replaceAll(/../g, "%$&"),
      ]) {
        assert.is(secretsIn(`x ${text} y`, { value }).length, 1, text);
      }
    }
  }
  assert.equal(secretsIn(random(), { value }), []);
  for (const writing of writingsOf(value)) assert.ok(writing.length > 20);
});

test("a claim's life from a warm pod: requests with the header, refused ones, and ones that fail", async () => {
  const credential = (domain: string, key: string) => ({
    domain,
    headers: [{ name: "Authorization", valueFrom: { secretKeyRef: { name: "vault", key } } }],
  });
  const spec = {
    image: { ref: image },
    resources: { vcpus: 1, memoryMb: 64, diskGb: 1 },
    entrypoint: entrypoint("/bin/serve-echo-http"),
    filesystem: { overlayDirs: ["/data"] },
    network: {
      access: "restricted",
      allowlist: ["allowed.example", `${marker}.example`],
      ports: [8080],
      credentials: [
        credential("api.example", "header"),
        credential("lines.example", "lines"),
        credential("closed.example", "header"),
        credential("missing.example", "none"),
      ],
    },
  };
  await expectStatus(201, call("POST", "/api/v1/workloads", { name: marker, spec }));
  await client.create(pools, { metadata: { name: marker, namespace }, spec: { workloadRef: marker, size: 1 } });
  await untilWarm();
  for (const [name, key] of [
    [egressNames(marker).authority, "ca.key"],
    [egressNames(marker).leaves, leafFile(parseDomainPattern("api.example"))],
  ] as const) {
    const pem = Buffer.from((await client.get(secrets, { namespace, name })).data?.[key] ?? "", "base64").toString();
    const [, line = ""] = /BEGIN PRIVATE KEY-----\n\S+\n(\S{40,})/.exec(pem) ?? [];
    assert.ok(line.length >= 40);
    planted[`key of ${name}`] = line;
  }

  const instance = await claim(marker, marker, "pool");
  const hash = createHash("sha256").update(values.header).digest("hex");
  assert.match(await curl(instance, "https://api.example/authorization-hash"), new RegExp(`${hash} 200 exit 0`));
  assert.match(await curl(instance, "https://allowed.example/"), /"serverName":"allowed.example".* 200 exit 0/);
  for (const [words, says] of [
    [["https://api.example/", "-X", "TRACE"], / 405 exit 0/],
    [["https://api.example/", "-H", `'host: ${marker}.test'`], / 421 exit 0/],
    [["https://closed.example/"], / 403 exit 0/],
    [["https://lines.example/"], / 503 exit 0/],
    [["https://missing.example/"], / 503 exit 0/],
    [[`https://${marker}-unlisted.example/`, "--resolve", `${marker}-unlisted.example:443:192.0.2.1`], / 000 exit 35/],
  ] as const) {
    const said = await curl(instance, ...words);
    assert.match(said, says);
    places.add(`what curl got of ${words[0]}`, said, /exit \d/);
  }
  refusedIn = instance;
  await inPod(instance, WORKLOAD_CONTAINER, `echo ${marker} > /data/kept`);
  places.add("metrics of the operator with a pool", await metricsOf(operatorListen), marker);
});

test("calls with a wrong key are refused, and one that looks like it", async () => {
  for (const key of ["wrong", `${values.apiKey}x`, values.apiKey.slice(1)]) {
    const response = await fetch(`${stack.url}/api/v1/tenants/${marker}`, {
      headers: { authorization: `Bearer ${key}` },
    });
    assert.is(response.status, 401);
    places.add("answer to a wrong key", JSON.stringify([...response.headers]) + (await response.text()), "error");
  }
  await expectStatus(400, call("POST", `/api/v1/tenants/${marker}/claim`, { workload: marker, other: 1 }));
});

test("webhooks: one that is taken, ones that are not, one whose Secret is gone", async () => {
  const hook = (path: string, key: string, more: object = {}) => ({
    type: "webhook",
    workloadRef: marker,
    tenant: { static: marker },
    config: { path, secretRef: { name: "vault", key } },
    ...more,
  });
  const deny = { type: "allowlist", config: { tenantIds: ["nobody"], denyMessage: marker } };
  // Nobody listens there.
  const headers = { authorization: `Bearer ${inTriggers.guard}` };
  const guard = { type: "api", config: { url: `http://127.0.0.1:${await freePort()}/`, headers } };
  const agentSpec = {
    image: { ref: ECHO_AGENT_CONTROL_IMAGE },
    entrypoint: entrypoint("/bin/serve-agent /bin/echo-agent-control"),
    network: { access: "none", ports: [8080] },
  };
  await expectStatus(201, call("POST", "/api/v1/workloads", { name: `agent-${marker}`, spec: agentSpec }));
  const driverOptions = { tokenSecretRef: { name: "vault", key: "agent" }, timeoutSeconds: 60 };
  const agent = { workloadRef: `agent-${marker}`, driver: "driver-b", driverOptions };
  for (const [name, spec] of Object.entries({
    hook: hook("/hooks/taken", "webhook"),
    denied: hook("/hooks/denied", "webhook", { guards: [deny] }),
    agent: hook("/hooks/agent", "webhook", agent),
    // Its container speaks no WebSocket.
    confused: hook("/hooks/confused", "webhook", { ...agent, workloadRef: marker }),
    guarded: hook("/hooks/guarded", "webhook", { guards: [guard] }),
    lost: hook("/hooks/lost", "nothing"),
  })) {
    await expectStatus(201, call("POST", "/api/v1/triggers", { name: `${name}-${marker}`, spec }));
    await untilTrigger(`${name}-${marker}`, name === "lost" ? "Error" : "Active");
  }
  const taken = await deliver("/hooks/taken", { text: marker }, values.webhook);
  assert.is(taken.status, 200, taken.text);
  assert.match(taken.text, marker);
  assert.is((await deliver("/hooks/taken", { text: "forged" }, "other")).status, 401);
  assert.is((await deliver("/hooks/denied", { text: marker }, values.webhook)).status, 403);
  assert.is((await deliver("/hooks/guarded", { text: marker }, values.webhook)).status, 403);
  const asked = await deliver("/hooks/agent", { text: marker }, values.webhook);
  assert.is(asked.status, 200, asked.text);
  assert.ok((await deliver("/hooks/confused", { text: marker }, values.webhook)).status >= 500);
});

test("a bot: one message that is answered, then a token that is refused, then no server", async () => {
  const bot = messenger.bot(values.bot);
  const spec = {
    type: "messenger",
    workloadRef: marker,
    tenant: { static: marker },
    config: {
      botTokenSecretRef: { name: "vault", key: "bot" },
      updateTypes: ["message"],
      pollTimeoutSeconds: 1,
      apiBaseUrl,
    },
  };
  await expectStatus(201, call("POST", "/api/v1/triggers", { name: `bot-${marker}`, spec }));
  await untilTrigger(`bot-${marker}`, "Active");
  bot.write({ chat: { id: 7, type: "private" }, text: marker });
  await until("the reply", () => bot.sent.length > 0);
  places.add("reply to the message", JSON.stringify(bot.sent), marker);
  messenger.renewToken(values.bot, "110201543:AAother");
  await untilTrigger(`bot-${marker}`, "Error");
  places.add("status with a refused token", await kubectl("get", "tt", `bot-${marker}`, "-o", "yaml"), marker);
  messenger.renewToken("110201543:AAother", values.bot);
  await untilTrigger(`bot-${marker}`, "Active");
  await messenger.stop();
  await untilTrigger(`bot-${marker}`, "Error");
});

test("released with an archive, restored before and after the start", async () => {
  await addLogs("before the release");
  for (const source of ["pool+data", "cold+data"]) {
    const release = () => call("POST", `/api/v1/tenants/${marker}/release?wait=true`, { workload: marker });
    await expectStatus(200, untilReleased(release));
    if (source === "cold+data") {
      await client.delete(pools, { namespace, name: marker });
      await until("the pool's pod to go", async () => (await podsWith(warm)) === 0);
    } else {
      await untilWarm();
    }
    const instance = await claim(marker, marker, source);
    assert.is((await inPod(instance, WORKLOAD_CONTAINER, "cat /data/kept")).trim(), marker);
    await curl(instance, "https://api.example/authorization-hash");
    const refused = `${marker}-unlisted.example`;
    await curl(instance, `https://${refused}/`, "--resolve", `${refused}:443:192.0.2.1`);
    refusedIn = instance;
  }
  const folder = join(local.volumesFolder, "snapshots", marker);
  for (const file of readdirSync(folder)) {
    const bytes = readFileSync(join(folder, file));
    if (file.endsWith(".tar.gz")) places.add(`archive ${file}`, gunzipSync(bytes).toString("latin1"), marker);
    else places.add(`file ${file} beside the archive`, bytes.toString("latin1"), /(?:)/);
  }
  assert.ok(readdirSync(folder).some((file) => file.endsWith(".tar.gz")));
});

test("a claim call with secrets, equal ones that join it, and ones that are refused", async () => {
  const workload = `inputs-${marker}`;
  const spec = {
    image: { ref: image },
    entrypoint: { ...entrypoint("/bin/serve-echo-http"), start: "OnClaim" },
    network: { access: "restricted", allowlist: ["allowed.example"], ports: [8080] },
  };
  await expectStatus(201, call("POST", "/api/v1/workloads", { name: workload, spec }));
  const bring = (more: object) =>
    patiently(() => call("POST", `/api/v1/tenants/${marker}/claim`, { workload, env: { OWN: marker }, ...more }));
  const secrets = { TOKEN: values.claim };
  const instance = /"instanceId":"([^"]+)"/.exec(await expectStatus(201, bring({ secrets })))?.[1] ?? "";
  await expectStatus(201, bring({ secrets }));
  await expectStatus(409, bring({ secrets: { ...secrets, OTHER: values.claim } }));
  await expectStatus(409, bring({ secrets: { TOKEN: `${values.claim}x` } }));
  await expectStatus(400, bring({ secrets: { "not a name": values.claim } }));
  await expectStatus(400, bring({ secrets: { TOKEN: [values.claim] } }));
  const environments = await inPod(instance, WORKLOAD_CONTAINER, "cat /proc/*/environ 2> /dev/null; true");
  assert.is(secretsIn(environments, { claim: cores.claim }).length, 1, "it has come to its program");
  const beside = "cat /proc/*/environ /proc/*/cmdline /proc/*/mountinfo; cat /run/tenancy/* 2> /dev/null; true";
  places.add(
    "processes and mounts of the sidecar beside it",
    await inPod(instance, PROXY_CONTAINER, beside),
    "haproxy",
  );
});

test("a trigger that gives a Secret to its claims", async () => {
  const workload = `inputs-${marker}`;
  const tenant = `given-${marker}`;
  const spec = {
    ...{ type: "webhook", workloadRef: workload, tenant: { static: tenant } },
    config: { path: "/hooks/given", secretRef: { name: "vault", key: "webhook" } },
    claim: { inputs: { secretRef: { name: "given" } } },
  };
  await expectStatus(201, call("POST", "/api/v1/triggers", { name: tenant, spec }));
  await untilTrigger(tenant, "Active");
  const answer = await deliver("/hooks/given", { text: marker }, values.webhook);
  assert.is(answer.status, 200, answer.text);
  const instance = await instanceOf(tenant, workload);
  const environments = await inPod(instance, WORKLOAD_CONTAINER, "cat /proc/*/environ 2> /dev/null; true");
  assert.is(secretsIn(environments, { trigger: cores.trigger }).length, 1, "it has come to its program");
});

async function instanceOf(tenant: string, workload = tenant): Promise<string> {
  const { items } = await client.list(pods, {
    namespace,
    labelSelector: `tenancy.dev/tenant=${tenant},tenancy.dev/workload=${workload}`,
  });
  assert.is(items.length, 1);
  return items[0]?.metadata.name ?? "";
}

test("the workload's container: environment, processes, files, mounts", async () => {
  const instance = await instanceOf(marker);
  for (const [what, script, control] of [
    ["environment", "env; cat /proc/*/environ", marker],
    ["command lines", "cat /proc/*/cmdline", "serve-echo-http"],
    ["mounts", "cat /proc/*/mountinfo; ls -laR /data /.tenancy-trust /etc /tmp", "ca-bundle.pem"],
    [
      "files",
      "find / -type f ! -path '/proc/*' ! -path '/sys/*' ! -path /bin/busybox -exec cat {} + 2> /dev/null; true",
      marker,
    ],
  ] as const) {
    places.add(`${what} of the workload's container`, await inPod(instance, WORKLOAD_CONTAINER, script), control);
  }
  const port = await inPod(instance, WORKLOAD_CONTAINER, `curl -sS http://127.0.0.1:${HEALTH_PORT}/metrics`);
  places.add("metrics of the sidecar", port, "haproxy_process_");
});

test("the sidecar has the value in its environment and its mount, and in no command line", async () => {
  const instance = await instanceOf(marker);
  const inSidecar = (script: string) => inPod(instance, PROXY_CONTAINER, script);
  places.add("command lines of the sidecar", await inSidecar("cat /proc/*/cmdline"), "haproxy.cfg");
  // What was searched for elsewhere is found where it has to be.
  assert.is(secretsIn(await inSidecar("cat /proc/*/environ"), { header: cores.header }).length, 1);
  assert.is(secretsIn(await inSidecar("cat /etc/tenancy-egress/values/*/*"), { header: cores.header }).length, 1);
});

test("every object of every resource that the API server lists", async () => {
  const seen: string[] = [];
  for (const { path, resource } of await listedResources()) {
    const list = JSON.parse((await client.request({ method: "GET", path })).body.toString()) as { items: Secret[] };
    const mayHold = ({ metadata, type }: Secret) =>
      path === "/api/v1/secrets" &&
      metadata.namespace === namespace &&
      (ownSecrets.has(metadata.name) || type === CLAIM_SECRET_TYPE);
    const kept = list.items.filter((item) => !mayHold(item));
    const text = JSON.stringify(kept);
    if (text.includes(marker)) seen.push(resource);
    places.add(`objects of ${path}`, text, /^\[/);
    if (path !== "/api/v1/secrets") continue;
    const own = JSON.stringify(list.items.filter(mayHold));
    assert.equal(
      secretsIn(own, { ...planted, marker }).map((one) => one.split(",")[0]),
      [...Object.keys(planted).filter((one) => one !== "apiKey"), "marker"],
    );
  }
  for (const one of [
    ...["pods", "configmaps", "events", "networkpolicies"],
    ...["tenancyworkloads", "tenancyclaims", "tenancytriggers"],
  ]) {
    assert.ok(seen.includes(one), `${one}: ${seen}`);
  }
  console.log(`note: resources whose objects held the marker: ${seen.join(" ")}`);
});

/** By discovery, of every group and version. */
async function listedResources(): Promise<{ path: string; resource: string }[]> {
  const get = async (path: string) => JSON.parse((await client.request({ method: "GET", path })).body.toString());
  const { groups } = (await get("/apis")) as { groups: { versions: { groupVersion: string }[] }[] };
  const roots = [
    "/api/v1",
    ...groups.flatMap(({ versions }) => versions.map(({ groupVersion }) => `/apis/${groupVersion}`)),
  ];
  const found: { path: string; resource: string }[] = [];
  for (const root of roots) {
    const { resources } = (await get(root)) as { resources: { name: string; verbs: string[] }[] };
    for (const { name, verbs } of resources)
      if (verbs.includes("list")) found.push({ path: `${root}/${name}`, resource: name });
  }
  assert.ok(found.some(({ path }) => path === "/api/v1/secrets"));
  assert.ok(found.length > 40, `${found.length}`);
  return found;
}

test("logs of all containers, of operator and edge at debug level, and the command lines of this machine", async () => {
  await addLogs("in the end");
  for (const program of ["operator", "edge"]) {
    const lines = readFileSync(logFile, "utf8")
      .split("\n")
      .filter((line) => line.includes(`"program":"${program}"`));
    places.add(`log of the ${program}`, lines.join("\n"), marker);
    if (program === "edge")
      assert.ok(
        lines.some((line) => line.includes('"level":20')),
        "debug lines",
      );
  }
  places.add("all that npm start wrote", stack.output(), "ready in");
  for (const file of readdirSync(join(clusterFolder(cluster), "log"))) {
    const text = readFileSync(join(clusterFolder(cluster), "log", file), "utf8");
    places.add(`log of the cluster's ${file}`, text, /(?:)/);
  }
  const commands = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => readIfThere(`/proc/${pid}/cmdline`) ?? "");
  places.add("command lines of this machine", commands.join("\n"), cluster);
});

test("every GET route of the edge, the dump among them, its events, and the metrics of both programs", async () => {
  const document = JSON.parse((await call("GET", "/api/v1/openapi.json")).text.replace(/^.*?\]\]/, ""));
  const instance = await instanceOf(marker);
  const command = ["/.tenancy/busybox", "sh", "-c", `: ${marker}; exec /.tenancy/busybox sleep 3600`];
  const started = await expectStatus(
    200,
    call("POST", `/api/v1/instances/${instance}/processes`, { command, background: true }),
  );
  const [, pid = ""] = /"pid":(\d+)/.exec(started) ?? [];
  const created = await expectStatus(201, call("POST", "/api/v1/keys", { name: marker, role: "reader" }));
  const [, keyId = ""] = /"id":"(\w+)"/.exec(created) ?? [];
  const named: Record<string, string> = {
    ...{ instances: instance, triggers: `bot-${marker}`, files: "data/kept", processes: pid, keys: keyId },
  };
  const versions = await expectStatus(200, call("GET", `/api/v1/tenants/${marker}/snapshots/${marker}/versions`));
  const [, newest] = /"version":"(\w+)"/.exec(versions) ?? [];
  const spec = { workloadRef: marker, size: 1 };
  await expectStatus(201, call("POST", "/api/v1/pools", { name: marker, spec }));
  const paths = Object.entries(document.paths as Record<string, object>)
    .filter(([path, operations]) => "get" in operations && !/\/(ws|attach|terminal)$/.test(path))
    .map(([path]) => path.replace("{workload}", marker))
    .map((path) => path.replace(/(\w+)\/\{[^}]+\}/g, (_, kind: string) => `${kind}/${named[kind] ?? marker}`))
    .map((path) => path.replace(/\/diff$/, `/diff?from=${newest}`));
  assert.ok(paths.includes("/api/v1/debug/resources") && paths.length > 10, paths.join(" "));
  // A list of files has their names.
  const general = /\/(health|stats|session|history(\/claims)?|usage|openapi.json|docs|files|diff\?from=\w+)$/;
  // The workload's image is not built.
  const ofBuilds = /\/build(\/logs)?$/;
  for (const path of paths) {
    const text = await expectStatus(ofBuilds.test(path) ? 409 : 200, call("GET", path));
    if (!general.test(path)) assert.match(text, marker, path);
  }
  places.add("events of /ws", events, marker);
  for (const [program, listen, control] of [
    ["operator", operatorListen, "tenancy_pool_claims_total"],
    ["edge", edgeMetricsListen, "tenancy_gateway_events_total"],
  ] as const) {
    places.add(`metrics of the ${program}`, await metricsOf(listen), control);
  }
});

async function metricsOf(listen: string): Promise<string> {
  return (await fetch(`http://${listen}/metrics`)).text();
}

test("nothing of that holds any of the secrets", () => {
  console.log(`note: ${places.size} places were searched for ${Object.keys(planted).length} secrets`);
  assert.equal(places.hits(planted), []);
  const shown = places.hits(inTriggers);
  assert.ok(shown.length > 2);
  assert.equal(
    shown.filter((one) => !showsTriggers.test(one)),
    [],
  );
  // The same search finds the marker wherever that is the control.
  const marked = places.hits({ marker });
  const expected = places.controlledBy(marker);
  assert.ok(expected.length > 0);
  assert.equal(
    expected.filter((name) => !marked.some((hit) => hit.startsWith(`${name}: `))),
    [],
  );
  console.log(`note: ${marked.length} of them hold the marker, ${expected.length} had to`);
});

test.run();
