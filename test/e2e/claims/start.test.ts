// @limit 2400
// @own-cluster
import { exec, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { withClusterLock } from "../../../scripts/cluster/cluster-state.ts";
import { installDebianPackages } from "../../../scripts/cluster/debian-packages.ts";
import { clusterFolder } from "../../../scripts/cluster/folders.ts";
import { findStaticBusybox } from "../../../scripts/cluster/images/busybox.ts";
import { pause, waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { testAtOnce } from "../../at-once.ts";
import { listProcesses } from "../processes.ts";
import { dockerArchive, ociLayout } from "./image-files.ts";
import { type Stack, startStack } from "./stack.ts";

const NAME = "e2e-start";
/** Signals that come closer together count as one. */
const NEXT_SIGNAL_MS = 1200;
const test = suite("npm start");
let stack: Stack;

test.before(async () => {
  await installDebianPackages(["curl"], console.log);
  stack = await startStack(NAME);
});

interface Claimed {
  instanceId: string;
  source: string;
  endpoint: { host: string; port: number };
}

async function claim(tenantId: string, workload: string): Promise<Claimed> {
  const { status, body } = await stack.claim(tenantId, { workload });
  assert.is(status, 201, JSON.stringify(body));
  return body as unknown as Claimed;
}

async function createWorkload(name: string, image: string, rest: object = {}): Promise<void> {
  const spec = { image: { ref: image }, resources: { memoryMb: 64 }, ...rest };
  const { status, body } = await stack.call("POST", "/workloads", { name, spec });
  assert.is(status, 201, JSON.stringify(body));
}

test("prints a claim as JSON, and lines that work as they stand", async () => {
  const [json = "{}"] = /\{[\s\S]*?\n\}/.exec(stack.output()) ?? [];
  assert.is(JSON.parse(json).tenantId, "alice");
  assert.is(JSON.parse(json).phase, "Active");
  const lines = [...stack.output().matchAll(/^.*?: +(curl .*)$/gm)].map(([, line]) => line ?? "");
  assert.is(lines.length, 4);
  const answers: string[] = [];
  for (const line of lines)
    answers.push((await promisify(exec)(`${line} --silent --show-error --fail-with-body`)).stdout);
  assert.match(answers[0] ?? "", /hello/i);
  assert.is(JSON.parse(answers[1] ?? "").phase, "Active");
  assert.is(JSON.parse(answers[2] ?? "").length, 2);
  assert.is(JSON.parse(answers[3] ?? "").status, "released");
});

test("the address of alice's instance wakes it, as browsers resolve it", async () => {
  const [, address = ""] = /^alice's instance: +(\S+)$/m.exec(stack.output()) ?? [];
  assert.match(address, /^http:\/\/hello--alice\.localhost:\d+\/$/);
  // The lines before have released her claim.
  const { stdout } = await promisify(exec)(`curl --silent --show-error --fail-with-body ${address}`);
  assert.match(stdout, /hello/i);
  assert.is((await stack.release("alice", "hello")).status, 200);
});

test("a claimed pod answers HTTP, two tenants have two pods, and kubectl shows both claims", async () => {
  const [erin, frank] = await Promise.all([claim("erin", "hello"), claim("frank", "hello")]);
  const pages = await Promise.all(
    [erin, frank].map(async ({ endpoint }) => (await fetch(`http://${endpoint.host}:${endpoint.port}/`)).text()),
  );
  assert.match(pages[0] ?? "", new RegExp(erin.instanceId));
  assert.match(pages[1] ?? "", new RegExp(frank.instanceId));
  const shown = await stack.kubectl("get", "tenancy");
  assert.match(shown, /claim-erin-hello\s+erin\s+hello\s+Active\s+cold/);
  assert.match(shown, /hello\s+localhost\/tenancy-hello:1\s+none\s+Ready/);
});

async function startAsRoot(): Promise<void> {
  await createWorkload("rooted", "localhost/tenancy-hello-root:1", { network: { ports: [8080] } });
  const { instanceId, endpoint } = await claim("erin", "rooted");
  // It has a port and no health check, so it listens.
  assert.ok((await fetch(`http://${endpoint.host}:${endpoint.port}/`)).ok);
  const status = await stack.kubectl("exec", instanceId, "--", "cat", "/proc/1/status");
  assert.match(status, /^Uid:\s+0/m);
  assert.match(status, /^CapEff:\s+0000000000000000$/m);
  assert.match(status, /^NoNewPrivs:\s+1$/m);
}

async function explainNoStart(): Promise<void> {
  await createWorkload("missing", "localhost/does-not-exist:1");
  await createWorkload("crashing", "localhost/tenancy-crash:1", { network: { ports: [8080] } });
  // The kubelet's pauses between restarts are longer than a claim call waits.
  const [missing, crashing] = await Promise.all(
    ["missing", "crashing"].map((workload) => stack.claim("erin", { workload })),
  );
  assert.is(missing?.status, 500);
  assert.match(
    missing?.body.error ?? "",
    /localhost\/does-not-exist:1 cannot be pulled.*fix the workload's spec\.image\.ref/s,
  );
  assert.match(missing?.body.error ?? "", /"npm run cluster -- load FILE\.tar --name e2e-start" loads one/);
  assert.is(crashing?.status, 500);
  const described = await stack.kubectl("describe", "tenancyclaim", "claim-erin-crashing");
  assert.match(described, /CrashLooping/);
  assert.match(described, /keeps exiting.*exit code 1/s);
  assert.match(described, /fix the workload's spec\.entrypoint, or the program in its image, then claim again/);
}

/** A workload without health and ports, of a program that ends with 3 after so many seconds. */
async function createShortLived(name: string, seconds: number): Promise<void> {
  const args = ["-c", `echo 'no configuration' >&2; sleep ${seconds}; exit 3`];
  await createWorkload(name, "localhost/tenancy-hello:1", { entrypoint: { cmd: "/bin/sh", args } });
}

async function endTooSoon(): Promise<void> {
  await createShortLived("soon-over", 1);
  const { status, body } = await stack.claim("erin", { workload: "soon-over" });
  if (status === 201) {
    // A kubelet on a busy machine reports the end seconds late.
    console.log("note: the kubelet reported the end of soon-over only after 2 s");
    await untilNotReady("soon-over");
    return;
  }
  assert.is(status, 500, JSON.stringify(body));
  assert.match(body.error ?? "", /keeps exiting; last: exit code 3 \(no configuration\)/);
  const claim = JSON.parse(await stack.kubectl("get", "tc/claim-erin-soon-over", "-o", "json"));
  assert.equal([claim.status.phase, claim.status.reason], ["Error", "CrashLooping"]);
  const steps = (claim.status.timeline as { step: string }[]).map(({ step }) => step);
  assert.equal([steps.includes("Active"), steps.at(-1)], [false, "Error"]);
}

/** Waits until erin's Active claim says that its program has ended. */
async function untilNotReady(workload: string): Promise<void> {
  const ready = '{.status.phase} {.status.conditions[?(@.type=="Ready")]}';
  let said = "";
  await waitUntil(
    async () => {
      said = await stack.kubectl("get", `tc/claim-erin-${workload}`, "-o", `jsonpath=${ready}`);
      return said.includes('"status":"False"');
    },
    // Each look is a kubectl.
    { what: "a claim that is not Ready", limitMs: 240_000, intervalMs: 500, explain: () => said },
  );
  assert.match(said, /^Active .*exit code 3 \(no configuration\)/);
  assert.match(said, /"reason":"(ProgramEnded|CrashLooping)"/);
}

async function endUnderTenant(): Promise<void> {
  await createShortLived("over-later", 10);
  await claim("erin", "over-later");
  await untilNotReady("over-later");
  // Events are sent after the status was written.
  const named = ["--field-selector", "involvedObject.name=claim-erin-over-later"];
  const shown = ["-o", 'jsonpath={range .items[*]}{.reason}: {.message}{"\\n"}{end}'];
  let events = "";
  await waitUntil(
    async () => {
      events = await stack.kubectl("get", "events", ...named, ...shown);
      return /^ProgramEnded: .*exit code 3 \(no configuration\)/m.test(events);
    },
    { what: "an Event of that", limitMs: 240_000, intervalMs: 500, explain: () => events },
  );
  assert.is((await stack.release("erin", "over-later")).status, 200);
}

async function nameField(): Promise<void> {
  const health = { httpGet: { path: "/" } };
  const shell = (script: string) => ({ cmd: "/bin/busybox", args: ["sh", "-c", script] });
  const cases: [name: string, spec: object, says: RegExp][] = [
    [
      "greedy",
      { health, resources: { memoryMb: 16 }, entrypoint: shell("sleep 1; exec busybox tail /dev/zero") },
      /out of memory, its limit is 16 MB .*fix the workload's spec\.resources\.memoryMb/,
    ],
    [
      "nameless",
      { health, entrypoint: { cmd: "no-such-program" } },
      /there is no program "no-such-program" in the container: fix the workload's spec\.entrypoint\.cmd/,
    ],
    [
      "hidden",
      { health, filesystem: { overlayDirs: ["/bin"] } },
      /there is no program "\/bin\/serve-hello" in the container: overlay directory "\/bin" hides .*spec\.filesystem\.overlayDirs/,
    ],
  ];
  await Promise.all(
    cases.map(async ([name, spec, says]) => {
      await createWorkload(name, "localhost/tenancy-hello:1", spec);
      const { status, body } = await stack.claim("erin", { workload: name });
      assert.is(status, 500, name);
      assert.match(body.error ?? "", says);
    }),
  );
}

async function explainDeafness(): Promise<void> {
  const explain = async (name: string, filesystem: object) => {
    const health = { httpGet: { path: "/", port: 8081 } };
    await createWorkload(name, "localhost/tenancy-hello:1", { filesystem, health, network: { ports: [8080] } });
    const says =
      /connection refused on port 8081 \(spec\.health\.httpGet\.port\); the workload declares 8080; the pod listens on port 8080/;
    let said = "";
    await waitUntil(
      async () => {
        const { status, body } = await stack.call("POST", "/tenants/erin/claim", { workload: name });
        said = `${status} ${body.error}`;
        return says.test(said);
      },
      { what: "the reason", limitMs: 240_000, explain: () => said },
    );
    assert.match(said, /^504 /);
    assert.is((await stack.release("erin", name)).status, 200);
  };
  // With the operator's tools in the pod, and by the image's own cat.
  await Promise.all([explain("deaf", { overlayDirs: ["/data"] }), explain("deaf-alone", { overlayDirs: [] })]);
}

async function load(image: string): Promise<string> {
  const words = ["scripts/bootstrap.mjs", "scripts/cluster.ts", "load", image, "--name", NAME];
  return (await promisify(execFile)(process.execPath, words)).stdout.trim();
}

async function pageOf(tenant: string, workload: string): Promise<string> {
  const { endpoint } = await claim(tenant, workload);
  return (await fetch(`http://${endpoint.host}:${endpoint.port}/`)).text();
}

async function loadOwnImage(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-own-image-"));
  const health = { httpGet: { path: "/" } };
  try {
    const busybox = await findStaticBusybox(() => undefined);
    const archive = await dockerArchive(join(folder, "docker"), {
      busybox,
      text: "from docker",
      name: "own-app:latest",
    });
    const saved = await load(archive);
    assert.match(saved, /^own-app:[0-9a-f]{12}$/);
    const layout = join(folder, "My_Layout");
    const digest = await ociLayout(layout, { busybox, text: "from a layout" });
    const unnamed = await load(layout);
    assert.is(unnamed, `localhost/my-layout:${digest.slice("sha256:".length).slice(0, 12)}`);
    const tar = join(folder, "other.tar");
    await promisify(execFile)("tar", ["-cf", tar, "-C", layout, "."]);
    assert.match(await load(tar), /^localhost\/other:[0-9a-f]{12}$/);

    await createWorkload("own-docker", saved, { health });
    await createWorkload("own-layout", unnamed, { health });
    assert.is(await pageOf("erin", "own-docker"), "from docker");
    assert.is(await pageOf("erin", "own-layout"), "from a layout");
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Without a health check each of its pods is ready for a moment. */
async function degradePool(): Promise<void> {
  const ends = (script: string) => ({ entrypoint: { cmd: "/bin/sh", args: ["-c", script] } });
  const image = "localhost/tenancy-hello:1";
  await createWorkload("brief", image, ends("exit 3"));
  const made = await stack.call("POST", "/pools", { name: "brief", spec: { workloadRef: "brief", size: 2 } });
  assert.is(made.status, 201, JSON.stringify(made.body));
  const wait = (condition: string) =>
    stack.kubectl("wait", "tenancypool/brief", `--for=condition=${condition}`, "--timeout=400s");
  await wait("Degraded");
  const message = await stack.kubectl("get", "tp/brief", "-o", "jsonpath={.status.phase} {.status.message}");
  // A slow machine gives up on a pod that is not ready in time before its kubelet says that it keeps exiting.
  assert.match(message, /^Degraded .*(keeps exiting|has ended and is started again); last: exit code 3/);
  const ofPools = ["--field-selector", "involvedObject.kind=TenancyPool"];
  const events = await waitUntil(
    async () => {
      const read = JSON.parse(await stack.kubectl("get", "events", ...ofPools, "-o", "json")) as {
        items: { reason: string; type: string }[];
      };
      // On a busy machine a pod that was ready for a moment may not be again for 30 s.
      const words = read.items
        .filter(({ reason }) => reason !== "PodLost")
        .map(({ reason, type }) => `${type} ${reason}`);
      return words.length > 0 && words;
    },
    { what: "the Event, which is written after the condition", limitMs: 60_000, intervalMs: 500 },
  );
  assert.equal(events, ["Warning PodsFail"]);
  const spec = { image: { ref: image }, resources: { memoryMb: 64 }, ...ends("exec sleep 100000") };
  const mended = await stack.call("PUT", "/workloads/brief", { name: "brief", spec });
  assert.is(mended.status, 200, JSON.stringify(mended.body));
  await wait("Ready");
  assert.match(await stack.kubectl("get", "tp/brief", "-o", "jsonpath={.status.conditions[2]}"), /"status":"False"/);
}

testAtOnce(test, [
  ["a pool whose program ends at once is Degraded with an Event, and Ready when the workload is mended", degradePool],
  ["an image that runs as root gets its pod without runAsNonRoot, and capabilities dropped all the same", startAsRoot],
  [
    "an image that does not exist, and one that crashes: an error that says what to do, on the claim as in kubectl describe",
    explainNoStart,
  ],
  ["a program that exits with 3 after a second is never Active, without a health check too", endTooSoon],
  ["a program that ends under an Active claim makes the claim not Ready, with its exit code", endUnderTenant],
  [
    "a program that takes too much memory, one that is not there and one that an overlay hides: each names the field to change",
    nameField,
  ],
  [
    "a health check of the wrong port: the 504 says what is refused, what is declared and where the pod listens",
    explainDeafness,
  ],
  [
    "an image of one's own is loaded from docker's archive or an OCI layout, and a claim runs on what load prints",
    loadOwnImage,
  ],
]);

test("behind a full quota claims take the places of warm pods, and the next one waits until another is released", async () => {
  await stack.kubectl("create", "quota", "full", "--hard=pods=1");
  const used = await waitUntil(
    async () => {
      const counted = await stack.kubectl("get", "quota", "full", "-o", "jsonpath={.status.used.pods}");
      const there = (await stack.kubectl("get", "pods", "-o", "name")).trim().split("\n").length;
      return Number(counted) === there && there;
    },
    { what: "the controller that counts to have seen all pods", limitMs: 60_000, intervalMs: 100 },
  );
  await stack.kubectl("patch", "quota", "full", "--type=merge", `--patch={"spec":{"hard":{"pods":"${used}"}}}`);
  // The pool has two pods.
  for (const tenant of ["grace", "gina"]) await claim(tenant, "hello");
  const waiting = claim("ivan", "hello");
  waiting.catch(() => undefined);
  const message = await waitUntil(
    async () => (await stack.call("GET", "/tenants/ivan/claims/hello")).body.message || undefined,
    { what: "the claim to say what it waits for", limitMs: 60_000, intervalMs: 100 },
  );
  assert.match(String(message), /^place 1 of 1 in the queue for room in quota "full" \(pods\): /);
  assert.is((await stack.release("grace", "hello")).status, 200);
  assert.is((await waiting).source, "cold");
  await stack.kubectl("delete", "quota", "full");
});

test("release?wait=true answers when pod and claim are gone", async () => {
  const { instanceId } = await claim("heidi", "hello");
  assert.is((await stack.release("heidi", "hello")).status, 200);
  assert.not.match(await stack.kubectl("get", "pods", "-o", "name"), new RegExp(instanceId));
  assert.not.match(await stack.kubectl("get", "tenancyclaims", "-o", "name"), /heidi/);
});

async function untilPrinted(output: () => string, expected: RegExp): Promise<void> {
  await waitUntil(() => expected.test(output()), { what: `${expected}`, limitMs: 60_000, explain: output });
}

test("an edge and an operator that are killed are started again, and the cluster stays as it is", async () => {
  const cluster = await stack.kubectl("get", "namespace", "tenancy", "-o", "jsonpath={.metadata.uid}");
  for (const [program, command] of [
    ["edge", "edge/main.ts"],
    ["operator", "operator.mjs"],
  ] as const) {
    process.kill(stack.pidOf(command), "SIGKILL");
    const again = new RegExp(
      ` ${program} ended: signal SIGKILL; it is started again in 0.5 s$[^]* ${program} is started again$`,
      "m",
    );
    await untilPrinted(stack.output, again);
  }
  // Until its caches are synced, the edge answers some calls and refuses others.
  await waitUntil(
    async () => (await stack.claim("ivan", { workload: "hello" }).catch(() => undefined))?.status === 201,
    { what: "the edge to answer a claim", limitMs: 120_000 },
  );
  assert.is((await stack.release("ivan", "hello")).status, 200);
  assert.is(await stack.kubectl("get", "namespace", "tenancy", "-o", "jsonpath={.metadata.uid}"), cluster);
});

/** A second npm start on the same cluster, to its end. */
async function second(env: Record<string, string>, words: string[] = []): Promise<string> {
  const command = ["scripts/bootstrap.mjs", "scripts/start.ts", "--name", NAME, ...words];
  const child = spawn(process.execPath, command, { env: { ...process.env, ...env } });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
  assert.equal(await once(child, "exit"), [1, null], output);
  return output;
}

const anyPort = {
  TENANCY_OPERATOR_LISTEN: "127.0.0.1:0",
  TENANCY_EDGE_METRICS_LISTEN: "127.0.0.1:0",
  TENANCY_PROXY_LISTEN: "127.0.0.1:0",
};

test("a second npm start is refused: on the same port before it does anything, on another since the cluster is the first one's", async () => {
  const listen = new URL(stack.url).host;
  const onPort = await second({ ...anyPort, TENANCY_LISTEN: listen });
  const edge = stack.pidOf("edge/main.ts");
  assert.ok(onPort.includes(`${listen} (TENANCY_LISTEN) by process ${edge}: `), onPort);
  const start = stack.pidOf("scripts/start.ts");
  assert.ok(onPort.includes(`Ctrl-C in its terminal, or kill ${start};`), onPort);
  assert.not.match(onPort, /-> cluster/);

  const missing = await second({ ...anyPort, TENANCY_LISTEN: "127.0.0.1:0" }, ["--load", "/no/such.tar"]);
  assert.match(missing, /^Cannot load \/no\/such\.tar: there is no such file/m);
  const onCluster = await second({ ...anyPort, TENANCY_LISTEN: "127.0.0.1:0" });
  assert.ok(onCluster.includes(`the npm start of process ${start} takes it down when it ends`), onCluster);
  assert.not.match(onCluster, /-> operator and edge/);
  assert.is((await stack.call("GET", "/workloads/hello")).status, 200);
});

test("operator and edge of an npm start that is killed stop, and the next one takes the cluster down in its place", async () => {
  const start = stack.pidOf("scripts/start.ts");
  const pids = [start, stack.pidOf("edge/main.ts"), stack.pidOf("operator.mjs")];
  process.kill(start, "SIGKILL");
  await waitUntil(() => pids.every((pid) => !existsSync(`/proc/${pid}`)), { what: "their end", limitMs: 60_000 });
  const folder = mkdtempSync(join(tmpdir(), "tenancy-own-image-"));
  try {
    const options = { busybox: await findStaticBusybox(() => undefined), text: "of the second", name: "team/hello:2" };
    stack = await startStack(NAME, {}, ["--load", await dockerArchive(join(folder, "docker"), options)]);
  } finally {
    rmSync(folder, { recursive: true });
  }
  assert.match(stack.output(), /the cluster "e2e-start" is up/);
  assert.not.match(stack.output(), /stays up at the end/);
  assert.match(stack.output(), /^ {3}image\.ref of a workload: team\/hello:2$/m);
  assert.is(await pageOf("alice", "hello"), "of the second");
});

test("Ctrl-C stops all of it, a second one says what is still being done, and nothing is left running", async () => {
  let ended: Promise<number | null> | undefined;
  // The cluster is taken down by one command at a time, so that this holds it up.
  await withClusterLock(NAME, async () => {
    ended = stack.interrupt();
    await untilPrinted(stack.output, /^-> local cluster down$/m);
    await pause(NEXT_SIGNAL_MS);
    void stack.interrupt();
    await untilPrinted(
      stack.output,
      /^still at it: local cluster down; .*\nif it hangs: npm run cluster -- down --name e2e-start$/m,
    );
  });
  assert.is(await ended, 0, stack.output());
  assert.equal(
    listProcesses().filter(({ command }) => command.includes(NAME)),
    [],
  );
  assert.not.match(readFileSync("/proc/self/mounts", "utf8"), /e2e-start/);
});

test("a third Ctrl-C ends it at once, and says what may be left", async () => {
  const name = `${NAME}-held`;
  await withClusterLock(name, async () => {
    const child = spawn(process.execPath, ["scripts/bootstrap.mjs", "scripts/start.ts", "--name", name]);
    const exited = once(child, "exit");
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk));
    await untilPrinted(() => output, /^-> cluster$/m);
    child.kill("SIGINT");
    await untilPrinted(() => output, /^to be stopped, after: cluster$/m);
    await pause(NEXT_SIGNAL_MS);
    child.kill("SIGINT");
    await untilPrinted(() => output, /^still at it: cluster; /m);
    await pause(NEXT_SIGNAL_MS);
    child.kill("SIGINT");
    assert.equal(await exited, [130, null]);
    assert.match(
      output,
      /^ended in the middle of: cluster\nwhat is left .* goes with: npm run cluster -- down --name e2e-start-held$/m,
    );
  });
  assert.not.ok(existsSync(clusterFolder(name)));
});

test.run();
