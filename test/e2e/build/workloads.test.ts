// @limit 2700
// @own-cluster
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { isNotFound } from "../../../crds/client/api-error.ts";
import { jobs, pods } from "../../../crds/client/built-in-resources.ts";
import { type ClusterClient, createClusterClient } from "../../../crds/client/cluster-client.ts";
import { loadClusterConfig } from "../../../crds/client/config/load-cluster-config.ts";
import { createTransport } from "../../../crds/client/transport.ts";
import { workloads } from "../../../crds/kinds.ts";
import type { Job, KubernetesList, Pod } from "../../../crds/kubernetes.ts";
import type { Workload, WorkloadSpec } from "../../../crds/workload.ts";
import { ensureBuilds } from "../../../scripts/cluster/builds/ensure-builds.ts";
import { REGISTRY } from "../../../scripts/cluster/builds/registry.ts";
import { findProcess } from "../../../scripts/cluster/cluster-state.ts";
import { downLocalCluster } from "../../../scripts/cluster/down-local-cluster.ts";
import { clusterFolder } from "../../../scripts/cluster/folders.ts";
import { AUTHORITIES, builderImage } from "../../../scripts/cluster/images/builder-image.ts";
import { findStaticBusybox } from "../../../scripts/cluster/images/busybox.ts";
import { importImages } from "../../../scripts/cluster/images.ts";
import { stopProcess } from "../../../scripts/cluster/process/stop-process.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { upLocalCluster } from "../../../scripts/cluster/up-local-cluster.ts";
import { testAtOnce } from "../../at-once.ts";
import { rawTar } from "../../unit/archive/raw-tar.ts";
import { dockerArchive } from "../claims/image-files.ts";
import { type Stack, startStack, WITH_BUILDS } from "../claims/stack.ts";
import { type ContextFiles, contextArchive } from "./context-archive.ts";
import { type GitServer, startGitServer } from "./git-server.ts";

const NAME = "e2e-build";
const NAMESPACE = "tenancy";
const BUILDS = "tenancy-builds";
const BASE = "localhost/tenancy-busybox:1";
/** The builder's image, but for whom it trusts: who signed the certificate of the test's repository. */
const BUILDER = "localhost/tenancy-builder:e2e";
const TOKEN = "token-of-the-repository";
/** A machine that has compiled nothing yet compiles BuildKit. */
const BUILDER_LIMIT_MS = 30 * 60_000;
const BUILD_LIMIT_MS = 600_000;
/** Does not block this process: Bun closes a connection whose request has not come after 8 to 12 s. */
const compressed = promisify(gzip);
const test = suite("workloads whose image is built");
let stack: Stack;
let git: GitServer;
/** For what is looked at often: a kubectl is 40 ms and more of processor time. */
let client: ClusterClient;
let close: () => void = () => undefined;

test.before(async () => {
  const { hostAddress } = await upLocalCluster({ name: NAME, log: console.log });
  git = await startGitServer({ address: hostAddress, token: TOKEN });
  stack = await startStack(NAME, {
    ...WITH_BUILDS,
    TENANCY_BUILDER_IMAGE: BUILDER,
    TENANCY_BUILD_PRIVATE_RANGES: `${hostAddress}/32`,
    TENANCY_BUILD_CONTEXT_LIMIT: "4Mi",
    TENANCY_BUILD_MEMORY: "1Gi",
    // One of them for the build that never ends.
    TENANCY_BUILD_CONCURRENCY: "3",
    TENANCY_BUILD_TIMEOUT: "120",
  });
  const transport = createTransport({
    config: await loadClusterConfig({ kubeconfigPath: stack.kubeconfigPath }),
    role: "test",
  });
  close = () => transport.close();
  client = createClusterClient({ transport });
  await waitUntil(() => /^ok builder image/m.test(stack.output()), {
    ...{ what: "the builder's image", limitMs: BUILDER_LIMIT_MS, intervalMs: 200, explain: stack.output },
  });
  const made = await builderImage(console.log);
  if ("because" in made) throw new Error(`Cannot build images here: ${made.because}`);
  const files = made.files.map((entry) =>
    entry.path === AUTHORITIES ? { ...entry, content: Buffer.from(git.authority) } : entry,
  );
  await importImages(NAME, [{ ...made, name: BUILDER, files }]);
});
test.after(async () => {
  close();
  await stack?.interrupt();
  await git?.close();
  await downLocalCluster({ name: NAME });
});

/** A page, and the web server that serves it. */
function serving(text: string, more: readonly string[] = []): Record<string, string> {
  return {
    Dockerfile: [
      `FROM ${BASE}`,
      "COPY page /www/index.html",
      ...more,
      // The kubelet reports a root image that it does not run only after 15 s.
      "USER 65532",
      `CMD ["/bin/busybox", "httpd", "-f", "-p", "8080", "-h", "/www"]`,
    ].join("\n"),
    page: text,
  };
}

function specOf(image: Partial<WorkloadSpec["image"]>): object {
  return {
    image: { dockerfile: "Dockerfile", ...image },
    resources: { memoryMb: 64 },
    network: { ports: [8080] },
    health: { intervalSeconds: 1, httpGet: { path: "/", port: 8080 } },
  };
}

async function create(name: string, image: Partial<WorkloadSpec["image"]> = {}, more: object = {}): Promise<void> {
  const { status, body } = await stack.call("POST", "/workloads", { name, spec: { ...specOf(image), ...more } });
  assert.is(status, 201, JSON.stringify(body));
}

/** A workload whose context is a ConfigMap of its name. */
async function createFrom(name: string, files: Readonly<Record<string, string>>): Promise<void> {
  const literals = Object.entries(files).map(([file, text]) => `--from-literal=${file}=${text}`);
  await stack.kubectl("create", "configmap", name, ...literals);
  await create(name, { context: { configMapRef: { name } } });
}

async function change(name: string, files: Readonly<Record<string, string>>): Promise<void> {
  await stack.kubectl("patch", "configmap", name, "--type=merge", "-p", JSON.stringify({ data: files }));
}

async function upload(name: string, archive: Buffer): Promise<{ status: number; text: string }> {
  const headers = { "content-type": archive[0] === 0x1f ? "application/gzip" : "application/x-tar" };
  const url = `${stack.url}/api/v1/workloads/${name}/context`;
  let said = "";
  return waitUntil(
    async () => {
      const answer = await fetch(url, { method: "PUT", headers, body: new Uint8Array(archive) });
      said = await answer.text();
      // The pod of the volume that keeps them may not be there yet.
      return answer.status !== 503 && { status: answer.status, text: said };
    },
    { what: "the upload", limitMs: 120_000, intervalMs: 500, explain: () => said },
  );
}

async function put(name: string, files: ContextFiles): Promise<void> {
  const { status, text } = await upload(name, await compressed(contextArchive(files)));
  assert.is(status, 200, text);
}

async function read(name: string): Promise<Workload | undefined> {
  return client.get(workloads, { namespace: NAMESPACE, name }).catch((error: unknown) => {
    if (isNotFound(error)) return undefined;
    throw error;
  });
}

/** Waits until the status of a workload is as told. */
async function until(name: string, is: (status: NonNullable<Workload["status"]>) => boolean): Promise<Workload> {
  let last: Workload | undefined;
  return waitUntil(
    async () => {
      last = await read(name);
      return last?.status !== undefined && is(last.status) && last;
    },
    { what: name, limitMs: BUILD_LIMIT_MS, intervalMs: 200, explain: () => JSON.stringify(last?.status, null, 2) },
  );
}

const isReady = ({ phase, build }: NonNullable<Workload["status"]>) => phase === "Ready" && build?.state === "Built";

async function pageOf(tenant: string, workload: string): Promise<string> {
  const { status, body } = await stack.claim(tenant, { workload });
  assert.is(status, 201, JSON.stringify(body));
  const { host, port } = body.endpoint as { host: string; port: number };
  return (await fetch(`http://${host}:${port}/`)).text();
}

function inBuilds(...words: string[]): Promise<string> {
  return stack.kubectl("-n", BUILDS, ...words);
}

async function jobsOf(name?: string): Promise<Job[]> {
  const labelSelector = `tenancy.dev/build=true${name === undefined ? "" : `,tenancy.dev/workload=${name}`}`;
  return (await client.list(jobs, { namespace: BUILDS, labelSelector })).items;
}

const isUnfinished = ({ status }: Job) => !status?.conditions?.some(({ type }) => /^(Complete|Failed)$/.test(type));

/** Waits until a step of a build is under way. */
async function untilStep(name: string, step: string): Promise<void> {
  const log = async () => (await fetch(`${stack.url}/api/v1/workloads/${name}/build/logs`)).text();
  await waitUntil(async () => (await log()).includes(step), {
    ...{ what: `step ${step} of ${name}`, limitMs: BUILD_LIMIT_MS, intervalMs: 200 },
  });
}

async function buildExample(): Promise<void> {
  await stack.kubectl("apply", "-f", "manifests/examples/built-workload.yaml");
  assert.is(await pageOf("ann", "greeter"), "built in the cluster\n");
  const { status } = (await read("greeter")) as Workload;
  assert.match(status?.image ?? "", /^10\.231\.\d+\.1:\d+\/built\/greeter@sha256:[0-9a-f]{64}$/);
  const shown = await stack.kubectl("get", "pods", "-l", "tenancy.dev/workload=greeter", "-o", "json");
  const images = (JSON.parse(shown) as KubernetesList<Pod>).items.flatMap(({ spec }) =>
    spec.containers.map(({ image }) => image),
  );
  assert.equal(images, [status?.image]);
}

async function buildTree(): Promise<void> {
  await create("tree", { dockerfile: "docker/Dockerfile", args: { BASE, GREETING: 'all "of" you' } });
  const missing = await until("tree", ({ build }) => build?.reason === "ContextMissing");
  assert.match(missing.status?.message ?? "", /npm run workload -- build tree --context DIR/);
  await put("tree", {
    "docker/Dockerfile": [
      "ARG BASE",
      "FROM $BASE AS first",
      "ARG GREETING",
      "COPY src /src",
      "RUN mkdir /www && cat /src/a /src/deep/b > /www/index.html && echo $GREETING >> /www/index.html",
      "RUN chown 12:34 /www/index.html",
      "FROM $BASE",
      "COPY --from=first /www /www",
      "COPY . /www/context",
      `CMD ["/bin/busybox", "httpd", "-f", "-p", "8080", "-h", "/www"]`,
    ].join("\n"),
    ".dockerignore": "left-out\n",
    "left-out": "not in the image",
    "src/a": "a\n",
    "src/deep/b": "b\n",
  });
  const first = await until("tree", isReady);
  assert.is(await pageOf("ann", "tree"), 'a\nb\nall "of" you\n');
  assert.is(first.status?.build?.steps, 5);
  assert.is(first.status?.build?.cached, 0);
  const { body: claimed } = await stack.claim("ann", { workload: "tree" });
  const owner = { command: ["stat", "-c", "%u:%g", "/www/index.html"] };
  const found = await stack.call("POST", `/instances/${claimed.instanceId}/exec`, owner);
  assert.is(found.body.stdout, "12:34\n", JSON.stringify(found.body));
  const { endpoint } = claimed as { endpoint: { host: string } };
  for (const [path, status] of Object.entries({ "src/deep/b": 200, "left-out": 404 })) {
    assert.is((await fetch(`http://${endpoint.host}:8080/context/${path}`)).status, status, path);
  }

  assert.ok((await stack.call("POST", "/workloads/tree/build")).status < 300);
  const key = first.status?.build?.key;
  const again = await until("tree", (status) => status.build?.key !== key && isReady(status));
  assert.is(again.status?.build?.steps, 5);
  assert.is(again.status?.build?.cached, 5);
  const { status, body } = await stack.call("GET", "/workloads/tree/build");
  assert.is(status, 200);
  assert.is(body.state, "Built");
  assert.is(body.digest, again.status?.build?.digest);
  assert.is(body.cached, 5);
  const logs = await (await fetch(`${stack.url}/api/v1/workloads/tree/build/logs?follow=true`)).text();
  assert.match(logs, /CACHED/);
  await readPrograms();
}

/** From the cluster's registry: the programs of an image that was built, and of one that the registry mirrors. */
async function readPrograms(): Promise<void> {
  const filesystem = { overlayDirs: ["/data"] };
  const spec = { filesystem };
  await client.patch(workloads, { namespace: NAMESPACE, name: "tree" }, { type: "merge", body: { spec } });
  const { status } = await until("tree", ({ entrypoint }) => entrypoint !== undefined);
  assert.is(status?.entrypoint?.digest, status?.build?.digest);
  assert.equal(status?.entrypoint?.command, []);
  assert.equal(status?.entrypoint?.args, ["/bin/busybox", "httpd", "-f", "-p", "8080", "-h", "/www"]);
  const metadata = { name: "mirrored", namespace: NAMESPACE };
  await client.create(workloads, { metadata, spec: { image: { ref: BASE }, filesystem } });
  const mirrored = await until("mirrored", ({ entrypoint }) => entrypoint !== undefined);
  assert.match(mirrored.status?.entrypoint?.digest ?? "", /^sha256:[0-9a-f]{64}$/);
}

async function buildByCommand(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-context-"));
  const build = async () => {
    const words = ["scripts/bootstrap.mjs", "scripts/workload.ts", "build", "by-hand"];
    const child = execFile(process.execPath, [...words, "--context", folder, "--url", stack.url]);
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream?.on("data", (text: string) => (output += text));
    const [code] = (await once(child, "close")) as [number | null];
    return { code, output };
  };
  try {
    await create("by-hand");
    const files = { ...serving("packed"), secret: "not in the image", ".dockerignore": "secret\n" };
    for (const [path, text] of Object.entries(files)) writeFileSync(join(folder, path), text);
    const first = await build();
    assert.is(first.code, 0, first.output);
    assert.match(first.output, /COPY page \/www\/index\.html/);
    assert.match(first.output, /^built 10\..*\/built\/by-hand@sha256:[0-9a-f]{64} \(1 steps, 0 of them cached\)$/m);
    assert.is(await pageOf("ann", "by-hand"), "packed");
    const image = (await read("by-hand"))?.status?.image;
    assert.is((await build()).code, 0);
    assert.is((await read("by-hand"))?.status?.image, image);
    assert.is((await jobsOf("by-hand")).length, 1);
    writeFileSync(join(folder, "Dockerfile"), `FROM ${BASE}\nRUN echo told; exit 4`);
    const failed = await build();
    assert.is(failed.code, 1, failed.output);
    assert.match(failed.output, /told/);
    assert.match(failed.output, /failed, BuildFailed: .*exit code: 4/);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function failStep(): Promise<void> {
  await createFrom("failing", { Dockerfile: `FROM ${BASE}\nRUN seq 1 50; echo no such header; exit 3` });
  const { status } = await until("failing", ({ phase, reason }) => phase === "Error" && reason === "BuildFailed");
  assert.match(
    status?.message ?? "",
    /step \[2\/2\] RUN seq 1 50; .* failed: process .* exit code: 3\n32\n(.*\n)*50\nno such header/,
  );
  assert.is(status?.image, undefined);
  const logs = await (await fetch(`${stack.url}/api/v1/workloads/failing/build/logs`)).text();
  assert.match(logs, /no such header/);
  const claimed = await stack.claim("ann", { workload: "failing" });
  assert.is(claimed.status, 500);
  assert.match(claimed.body.error ?? "", /no such header/);
  // It would fail in the same way: it is not tried again until something of it is another.
  assert.is((await jobsOf("failing")).length, 1);
  await change("failing", serving("mended"));
  await until("failing", isReady);
  assert.is(await pageOf("ann", "failing"), "mended");
}

async function keepServing(): Promise<void> {
  await createFrom("changing", serving("one"));
  assert.is(await pageOf("ann", "changing"), "one");
  const first = (await read("changing"))?.status?.image;
  await change("changing", serving("two"));
  const second = await until("changing", (status) => status.image !== first && isReady(status));
  assert.is(await pageOf("bob", "changing"), "two");
  assert.is(await pageOf("ann", "changing"), "one");
  await change("changing", serving("three", ["RUN exit 1"]));
  const { status } = await until("changing", ({ build }) => build?.reason === "BuildFailed");
  assert.is(status?.phase, "Ready");
  assert.is(status?.image, second.status?.image);
  const condition = status?.conditions?.find(({ type }) => type === "Built");
  assert.is(condition?.status, "False");
  assert.is(condition?.reason, "BuildFailed");
  assert.is(await pageOf("carl", "changing"), "two");
}

async function useLoaded(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-loaded-base-"));
  try {
    const busybox = await findStaticBusybox(() => undefined);
    const archive = await dockerArchive(join(folder, "docker"), {
      busybox,
      text: "of the base",
      name: "own-base:latest",
    });
    const words = ["scripts/bootstrap.mjs", "scripts/cluster.ts", "load", archive, "--name", NAME];
    const ref = (await promisify(execFile)(process.execPath, words)).stdout.trim();
    assert.match(ref, /^own-base:[0-9a-f]{12}$/);
    await createFrom("on-loaded", { Dockerfile: `FROM ${ref}\nCOPY page /www/page.html`, page: "on top" });
    assert.is(await pageOf("ann", "on-loaded"), "of the base");
    const { endpoint } = (await stack.claim("ann", { workload: "on-loaded" })).body as { endpoint: { host: string } };
    assert.is(await (await fetch(`http://${endpoint.host}:8080/page.html`)).text(), "on top");
    await create("loaded", {}, { image: { ref }, entrypoint: { start: "OnClaim" } });
    assert.is(await pageOf("ann", "loaded"), "of the base");
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function refuseHostile(): Promise<void> {
  await create("hostile");
  const dockerfile = { name: "Dockerfile", content: Buffer.from(`FROM ${BASE}`) };
  const hostile: [what: string, archive: Buffer][] = [
    ["leads upwards", rawTar([dockerfile, { name: "../escape", content: Buffer.from("x") }])],
    ["an absolute path", rawTar([dockerfile, { name: "/etc/passwd", content: Buffer.from("x") }])],
    ["a link out of it", rawTar([dockerfile, { name: "link", type: "2", target: "../../etc/passwd" }])],
    ["an absolute link", rawTar([dockerfile, { name: "link", type: "2", target: "/etc/passwd" }])],
    ["a device", rawTar([dockerfile, { name: "disk", type: "4" }])],
    [
      "through a link",
      rawTar([dockerfile, { name: "a", type: "2", target: "b" }, { name: "a/file", content: Buffer.from("x") }]),
    ],
    ["a bomb", await compressed(rawTar([dockerfile, { name: "zeros", content: Buffer.alloc(20 * 1024 * 1024) }]))],
    ["cut off", (await compressed(contextArchive(serving("page")))).subarray(0, -20)],
    ["no archive", Buffer.from("just some words, and far from a tar archive".repeat(50))],
  ];
  for (const [what, archive] of hostile) {
    const { status, text } = await upload("hostile", archive);
    assert.ok(status === 400 || status === 413, `${what}: ${status} ${text}`);
    assert.match(text, /"error":"/, what);
  }
  const large = await upload("hostile", rawTar([{ name: "large", content: Buffer.alloc(5 * 1024 * 1024, 1) }]));
  assert.is(large.status, 413, large.text);
  const untouched = (await read("hostile")) as Workload;
  assert.is(untouched.metadata.annotations?.["tenancy.dev/build-context"], undefined);
  assert.equal(await jobsOf("hostile"), []);
}

async function beginEndless(): Promise<void> {
  await createFrom("endless", { Dockerfile: `FROM ${BASE}\nRUN while true; do sleep 1; done` });
  await untilStep("endless", "RUN while true");
}

async function timeOut(): Promise<void> {
  const { status } = await until("endless", ({ reason }) => reason === "BuildTimeout");
  assert.is(status?.phase, "Error");
  assert.match(status?.message ?? "", /120 s.*TENANCY_BUILD_TIMEOUT/s);
  await waitUntil(async () => (await jobsOf("endless")).every((job) => !isUnfinished(job)), {
    ...{ what: "its Job to end", limitMs: 60_000, intervalMs: 200 },
  });
}

async function deleteBuilding(): Promise<void> {
  await createFrom("leaving", { Dockerfile: `FROM ${BASE}\nRUN sleep 3600` });
  await untilStep("leaving", "RUN sleep 3600");
  assert.is((await stack.call("DELETE", "/workloads/leaving")).status, 200);
  await waitUntil(async () => (await read("leaving")) === undefined && (await jobsOf("leaving")).length === 0, {
    ...{ what: "workload and Job to go", limitMs: 120_000, intervalMs: 200 },
  });
  const left = async () =>
    (await client.list(pods, { namespace: BUILDS, labelSelector: "tenancy.dev/workload=leaving" })).items;
  await waitUntil(async () => (await left()).length === 0, { what: "the pod to go", limitMs: 60_000, intervalMs: 200 });
}

async function buildRepository(): Promise<void> {
  const below = (text: string) =>
    Object.fromEntries(Object.entries(serving(text)).map(([path, file]) => [`app/${path}`, file]));
  const first = await git.commit(below("first"));
  await create("cloned", { context: { git: { url: git.url, path: "app", ref: "main" } } });
  const closed = await until("cloned", ({ build }) => build?.reason === "ContextMissing");
  assert.match(closed.status?.message ?? "", /the repository cannot be fetched.*image\.context\.git/s);

  const { host } = new URL(git.url);
  const opens = [`--from-literal=token=${TOKEN}`, `--from-literal=host=${host}`];
  await inBuilds("create", "secret", "generic", "repository", ...opens);
  const context = { git: { url: git.url, path: "app", ref: "main", secretRef: { name: "repository" } } };
  const changed = await stack.call("PUT", "/workloads/cloned", { name: "cloned", spec: specOf({ context }) });
  assert.is(changed.status, 200, JSON.stringify(changed.body));
  await stack.kubectl("annotate", "tenancyworkload/cloned", "tenancy.dev/rebuild=with the token");
  const built = await until("cloned", isReady);
  assert.is(built.status?.build?.commit, first);
  assert.is(await pageOf("ann", "cloned"), "first");

  const second = await git.commit(below("second"));
  await stack.kubectl("annotate", "tenancyworkload/cloned", "--overwrite", "tenancy.dev/rebuild=again");
  await until("cloned", (status) => status.build?.commit === second && isReady(status));
  assert.is(await pageOf("bob", "cloned"), "second");
}

testAtOnce(test, [
  ["a build that never ends begins", beginEndless],
  ["the example, applied by kubectl: a claim waits for the image, and its pod runs the digest", buildExample],
  [
    "two stages, a tree, arguments and owners; the second build has every step from the cache; state and log by the API",
    buildTree,
  ],
  ["a step that fails: the workload and the claim say which and why, and it is not tried again by itself", failStep],
  ["a new context: the old image serves until the new one is there, and after a build that failed", keepServing],
  ["a repository that asks for a token: its commit is built, and a later one when somebody asks", buildRepository],
  ["npm run workload -- build: packs a folder, shows the log, and ends as the build does", buildByCommand],
  ["a loaded image is a base under its own name, and its own program starts with a claim", useLoaded],
  ["contexts that lead out, hold devices, or are bombs: refused, and nothing of them is kept", refuseHostile],
  ["a workload that is deleted while it is built: Job, pod and workload go", deleteBuilding],
]);

test("a registry that is down when the image is pushed: it says so, and tries again when it is back", async () => {
  await createFrom("pushed", serving("pushed", ["RUN sleep 5"]));
  await untilStep("pushed", "RUN sleep 5");
  const registry = findProcess(clusterFolder(NAME), REGISTRY);
  assert.ok(registry);
  await stopProcess(registry.identity, { name: REGISTRY, graceMs: 0 });
  const { status } = await until("pushed", ({ build }) => build?.reason === "RegistryRefused");
  assert.match(status?.build?.message ?? "", /could not be pushed.*tried again after/s);
  await ensureBuilds(NAME, { log: () => undefined });
  await until("pushed", isReady);
  assert.is(await pageOf("ann", "pushed"), "pushed");
});

// Last, since it takes the longest; it has gone on beside all the others.
test("a build that never ends is ended, and says how to give it more time", timeOut);

test.run();
