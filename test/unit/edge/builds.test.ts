// @runtimes bun node deno
import { createHash, randomBytes } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { BuildContexts } from "../../../crds/builds/build-contexts.ts";
import { buildRequest } from "../../../crds/builds/build-request.ts";
import { ApiError, NetworkError } from "../../../crds/client/api-error.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { systemClock } from "../../../crds/client/clock.ts";
import { workloads } from "../../../crds/kinds.ts";
import { annotation, label } from "../../../crds/labels.ts";
import type { Workload, WorkloadSpec, WorkloadStatus } from "../../../crds/workload.ts";
import { eventually } from "../../eventually.ts";
import { rawTar } from "../archive/raw-tar.ts";
import { manualClock } from "../manual-clock.ts";
import { type ServedStore, serveStore } from "../snapshots/store-server.ts";
import { BUILD_NAMESPACE } from "./fake-cluster.ts";
import { type FakeKubectl, fakeKubectl } from "./fake-kubectl.ts";
import { type SnapshotsFolder, snapshotsFolder } from "./snapshots-folder.ts";
import { type TestEdge, testEdge } from "./test-edge.ts";

const test = suite("build routes");
const PUT = "http://edge.test/api/v1/workloads/app/context";
const built: Partial<WorkloadSpec> = { image: { dockerfile: "Dockerfile" } };
const context = rawTar([{ name: "Dockerfile", content: Buffer.from("FROM scratch\n") }]);
let volume: SnapshotsFolder;
let served: ServedStore;
let kubectl: FakeKubectl;
let edge: TestEdge;

test.before.each(async () => {
  volume = snapshotsFolder();
  served = await serveStore(volume.path);
  kubectl = fakeKubectl();
  edge = edgeOver(served.contexts, { contextLimitBytes: 1024 * 1024 });
});
test.after.each(async () => {
  await served.close();
  kubectl.remove();
  volume.remove();
});

function edgeOver(contexts: BuildContexts, options: { contextLimitBytes?: number } = {}): TestEdge {
  const made = testEdge({ kubectl: kubectl.command, clock: systemClock, contexts, ...options });
  made.cluster.addSnapshots();
  return made;
}

function digestOf(content: Buffer): string {
  return createHash("sha256").update(content).digest("hex");
}

async function upload(
  body: Buffer | ReadableStream<Uint8Array>,
  { signal, url = PUT }: { signal?: AbortSignal; url?: string } = {},
): Promise<{ status: number; json: { error?: string; sha256?: string; sizeBytes?: number } }> {
  const init: RequestInit & { duplex: "half" } = { method: "PUT", body: body as never, duplex: "half" };
  const response = await edge.handler(new Request(url, init), signal === undefined ? {} : { clientGone: signal });
  return { status: response.status, json: (await response.json()) as object };
}

/** What is on the volume of the workload's contexts. */
function kept(): string[] {
  const folder = join(volume.path, ".contexts/app");
  return existsSync(folder) ? readdirSync(folder).sort() : [];
}

function isEmpty(): boolean {
  return readdirSync(volume.path).every((name) => name === ".helper");
}

function named(): string | undefined {
  return edge.cluster.read(workloads, "app").metadata.annotations?.[annotation.buildContext];
}

function setStatus(workload: Workload, status: WorkloadStatus): void {
  edge.cluster.add(workloads, { ...workload, status }, { hidden: true });
}

test("an upload is kept under its SHA-256, and the workload names it", async () => {
  edge.cluster.addWorkload("app", built);
  for (const body of [context, gzipSync(context)]) {
    const answer = await upload(body);
    assert.equal(answer, { status: 200, json: { sha256: digestOf(body), sizeBytes: body.length } });
    assert.equal(readFileSync(join(volume.path, ".contexts/app", digestOf(body))), body);
    assert.is(named(), digestOf(body));
  }
  assert.equal(kept(), [digestOf(context), digestOf(gzipSync(context))].sort());
});

test("an upload in many pieces arrives whole", async () => {
  edge = edgeOver(served.contexts);
  edge.cluster.addWorkload("app", built);
  const large = rawTar([{ name: "data", content: randomBytes(3 * 1024 * 1024) }]);
  let at = 0;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (at >= large.length) controller.close();
      else controller.enqueue(Uint8Array.from(large.subarray(at, at + 20_000)));
      at += 20_000;
    },
  });
  assert.equal(await upload(body), { status: 200, json: { sha256: digestOf(large), sizeBytes: large.length } });
  assert.equal(kept(), [digestOf(large)]);
});

test("a workload that is built from no upload refuses one before it is read", async () => {
  edge = edgeOver({} as BuildContexts);
  const git = { url: "https://example.com/a.git" };
  const cases: [spec: Partial<WorkloadSpec> | undefined, status: number, error: RegExp][] = [
    [undefined, 404, /"app" does not exist/],
    [{}, 409, /has image\.ref and not image\.dockerfile/],
    [{ image: { dockerfile: "Dockerfile", context: { configMapRef: { name: "a" } } } }, 409, /from a ConfigMap/],
    [{ image: { dockerfile: "Dockerfile", context: { git } } }, 409, /from Git/],
  ];
  for (const [spec, status, error] of cases) {
    if (spec !== undefined) edge.cluster.addWorkload("app", spec);
    const answer = await upload(context);
    assert.is(answer.status, status);
    assert.match(answer.json.error ?? "", error);
  }
  assert.is((await upload(context, { url: PUT.replace("app", "App") })).status, 400);
});

const refused: [what: string, body: Buffer, status: number, error: RegExp][] = [
  ["of nothing", Buffer.alloc(0), 400, /tar or tar\.gz: it is cut off/],
  ["that is no archive", randomBytes(5000), 400, /body: must be a build context as tar or tar\.gz/],
  [
    "with a path upward",
    rawTar([{ name: "../etc/passwd", content: Buffer.from("x") }]),
    400,
    /entry "\.\.\/etc\/passwd" has no plain path/,
  ],
  [
    "with an absolute link",
    gzipSync(rawTar([{ name: "a/b", type: "2", target: "/etc" }])),
    400,
    /the symlink "a\/b" points at the absolute path "\/etc"/,
  ],
  ["with a device", rawTar([{ name: "dev", type: "4" }]), 400, /"dev" is a block device/],
  ["cut off", gzipSync(context).subarray(0, 50), 400, /compression is damaged or cut off/],
  ["that is too large", rawTar([{ name: "a", content: randomBytes(1024 * 1024) }]), 413, /larger than 1048576 bytes/],
  ["that is a bomb", gzipSync(rawTar([{ name: "a", content: Buffer.alloc(6e6) }])), 413, /more than 4194304 bytes/],
];

for (const [what, body, status, error] of refused) {
  test(`an archive ${what} is refused, and nothing of it stays`, async () => {
    edge.cluster.addWorkload("app", built);
    const answer = await upload(body);
    assert.is(answer.status, status, answer.json.error ?? "");
    assert.match(answer.json.error ?? "", error);
    assert.is(named(), undefined);
    await eventually(isEmpty);
  });
}

test("a client that goes in the middle leaves nothing behind", async () => {
  edge.cluster.addWorkload("app", built);
  const gone = new AbortController();
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(Uint8Array.from(context.subarray(0, 700))),
  });
  const answer = upload(body, { signal: gone.signal });
  await eventually(() => kept().length > 0);
  gone.abort();
  assert.is((await answer).status, 499);
  await eventually(isEmpty);
});

test("a body that breaks off leaves nothing behind", async () => {
  edge.cluster.addWorkload("app", built);
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(Uint8Array.from(context.subarray(0, 700))),
    pull: (controller) => controller.error(new Error("reset")),
  });
  const answer = await upload(body);
  assert.equal([answer.status, answer.json.error], [400, "body: broke off before its end"]);
  await eventually(isEmpty);
});

test("two uploads at once are both kept, and the last one to end is named", async () => {
  edge.cluster.addWorkload("app", built);
  const other = rawTar([{ name: "Dockerfile", content: Buffer.from("FROM other\n") }]);
  const answers = await Promise.all([upload(context), upload(other)]);
  assert.equal(
    answers.map(({ status }) => status),
    [200, 200],
  );
  assert.equal(kept(), [digestOf(context), digestOf(other)].sort());
  assert.ok([digestOf(context), digestOf(other)].includes(named() ?? ""));
});

test("no more than four are uploaded at once", async () => {
  edge.cluster.addWorkload("app", built);
  const gone = new AbortController();
  const slow = () => new ReadableStream<Uint8Array>({ start: (controller) => controller.enqueue(new Uint8Array(512)) });
  const first = Array.from({ length: 4 }, () => upload(slow(), { signal: gone.signal }));
  await eventually(() => kept().length === 4);
  assert.is((await upload(context)).status, 503);
  gone.abort();
  await Promise.all(first);
  assert.is((await upload(context)).status, 200);
});

test("a workload that is deleted or made anew during the upload does not name it", async () => {
  edge.cluster.addWorkload("app", built);
  edge.cluster.onNext("replace", () => {
    edge.cluster.remove(workloads, "app", { from: "api" });
    edge.cluster.addWorkload("app", built);
  });
  const anew = await upload(context);
  assert.equal([anew.status, named()], [409, undefined]);
  edge.cluster.onNext("replace", () => void edge.cluster.remove(workloads, "app", { from: "api" }));
  assert.is((await upload(context)).status, 404);
  await eventually(isEmpty);
});

test("a volume that cannot take it is said to be so", async () => {
  edge.cluster.addWorkload("app", built);
  await served.close();
  const answer = await upload(context);
  assert.is(answer.status, 503);
  assert.match(answer.json.error ?? "", /the snapshots volume cannot be reached now; try again/);
});

test("the first upload waits for the volume that the operator makes for it, half a minute at most", async () => {
  const clock = manualClock();
  edge = testEdge({ kubectl: kubectl.command, clock, contexts: served.contexts });
  edge.cluster.addWorkload("app", built);
  const none = upload(context);
  for (let waits = 0; waits < 60; waits += 1) await clock.runWhenNextIs(500);
  assert.is((await none).status, 503);
  assert.match((await none).json.error ?? "", /does not exist yet/);
  const first = upload(context);
  await eventually(() => clock.nextIn() === 500);
  edge.cluster.addSnapshots();
  await clock.runNext();
  assert.equal(await first, { status: 200, json: { sha256: digestOf(context), sizeBytes: context.length } });
});

test("a volume without room says so before the rest is sent", async () => {
  const space = async () => ({ freeBytes: 1024 * 1024, totalBytes: 1000 * 1024 * 1024 });
  const full = await serveStore(volume.path, { space });
  edge = edgeOver(full.contexts);
  edge.cluster.addWorkload("app", built);
  // It never ends: what waits for its end would never answer.
  const head = rawTar([{ name: "a", size: 2 ** 30, content: Buffer.alloc(512) }]).subarray(0, 512);
  let isCancelled = false;
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => controller.enqueue(Uint8Array.from(head)),
    async pull(controller) {
      await new Promise((resolve) => setImmediate(resolve));
      controller.enqueue(new Uint8Array(1000));
    },
    cancel() {
      isCancelled = true;
    },
  });
  try {
    const answer = await upload(body);
    assert.is(answer.status, 503);
    assert.match(answer.json.error ?? "", /no room for the build context/);
    await eventually(() => isCancelled);
    assert.equal(kept(), []);
  } finally {
    await full.close();
  }
});

test("an answer of the volume that does not come is a failure", async () => {
  const { contexts } = served;
  edge = edgeOver({
    ...contexts,
    async put(workload, content, call) {
      await contexts.put(workload, content, call);
      throw new NetworkError("the connection is cut", { requestWasSent: true });
    },
  });
  edge.cluster.addWorkload("app", built);
  assert.is((await upload(context)).status, 503);
  assert.is(named(), undefined);
});

test("how it stands with a build is about what the workload asks for now", async () => {
  const target = "GET /api/v1/workloads/app/build";
  assert.is((await edge.call(target)).status, 404);
  edge.cluster.addWorkload("app");
  assert.is((await edge.call(target)).status, 409);
  const workload = edge.cluster.addWorkload("app", built);
  assert.equal((await edge.call(target)).json, { workload: "app", state: "Pending" });
  const missing = {
    state: "Failed" as const,
    reason: "ContextMissing",
    message: "upload one",
    request: buildRequest(workload),
  };
  setStatus(workload, { phase: "Error", build: missing });
  assert.equal((await edge.call(target)).json, { workload: "app", ...missing });

  const sha256 = "0".repeat(64);
  const withContext = {
    ...workload,
    metadata: { ...workload.metadata, annotations: { [annotation.buildContext]: sha256 } },
  };
  const request = buildRequest(withContext);
  const image = `registry.example/app@sha256:${"1".repeat(64)}`;
  setStatus(withContext, { phase: "Ready", image, build: { request: buildRequest(workload), state: "Built" } });
  assert.equal((await edge.call(target)).json, { workload: "app", state: "Pending", context: sha256, image });
  const done = { request, state: "Built" as const, digest: `sha256:${"1".repeat(64)}`, steps: 6, cached: 2 };
  setStatus(withContext, { phase: "Ready", image, build: done });
  assert.equal((await edge.call(target)).json, { workload: "app", ...done, context: sha256, image });
  const shown = (await edge.call("GET /api/v1/workloads/app")).json as { status: WorkloadStatus };
  assert.equal(shown.status, { phase: "Ready", image, build: done });

  const { generation: observedGeneration = 0 } = withContext.metadata;
  const unavailable = { reason: "BuildUnavailable", message: "set TENANCY_REGISTRY" };
  setStatus(withContext, { phase: "Error", ...unavailable, observedGeneration });
  assert.equal((await edge.call(target)).json, {
    ...{ workload: "app", state: "Failed", ...unavailable },
    context: sha256,
  });
});

test("a workload that is refused for another reason than its former build has none to wait for", async () => {
  const target = "GET /api/v1/workloads/app/build";
  const workload = edge.cluster.addWorkload("app", built);
  workload.metadata.generation = 2;
  const refused = { phase: "Error" as const, reason: "EgressProxyUnavailable", message: "set TENANCY_PROXY_IMAGE" };
  const failed = { state: "Failed" as const, reason: "BuildFailed", message: "step 2", request: "of another" };
  const { reason, message } = refused;
  const cases: [status: WorkloadStatus, answer: object][] = [
    [
      { ...refused, observedGeneration: 2, build: failed },
      { state: "Failed", reason, message },
    ],
    [{ ...refused, observedGeneration: 1, build: failed }, { state: "Pending" }],
    [{ ...refused, observedGeneration: 1 }, { state: "Pending" }],
    [{ ...refused, reason: "BuildFailed", observedGeneration: 2, build: failed }, { state: "Pending" }],
  ];
  for (const [status, answer] of cases) {
    setStatus(workload, status);
    assert.equal((await edge.call(target)).json, { workload: "app", ...answer });
  }
  const request = buildRequest(workload);
  const queued = { state: "Pending" as const, reason: "Queued", request };
  setStatus(workload, { ...refused, observedGeneration: 2, build: queued });
  assert.equal((await edge.call(target)).json, { workload: "app", state: "Failed", reason, message });
  setStatus(workload, { phase: "Building", reason: "Queued", observedGeneration: 2, build: queued });
  assert.equal((await edge.call(target)).json, { workload: "app", ...queued });
  const done = { state: "Built" as const, request };
  setStatus(workload, { ...refused, observedGeneration: 2, build: done });
  assert.equal((await edge.call(target)).json, { workload: "app", ...done });
});

test("a rebuild is asked for by another annotation each time", async () => {
  const target = "POST /api/v1/workloads/app/build";
  assert.is((await edge.call(target)).status, 404);
  edge.cluster.addWorkload("app");
  assert.is((await edge.call(target)).status, 409);
  edge.cluster.addWorkload("app", built);
  const values = new Set<string | undefined>();
  for (let count = 0; count < 2; count += 1) {
    assert.equal((await edge.call(target)).json, { status: "requested", workload: "app" });
    values.add(edge.cluster.read(workloads, "app").metadata.annotations?.[annotation.rebuild]);
  }
  assert.is(values.size, 2);
  edge.cluster.onNext("replace", new ApiError("gone", { status: 404, reason: "NotFound" }));
  assert.is((await edge.call(target)).status, 404);
});

test("the log is of the newest build: of its context first, then of the build", async () => {
  const target = "GET /api/v1/workloads/app/build/logs";
  edge.cluster.addWorkload("app", built);
  assert.is((await edge.call(target)).status, 404);
  edge.cluster.addBuild("build-app-2", { createdAt: "2026-01-02T00:00:00Z" });
  edge.cluster.addBuild("build-app-1", { exitCode: 0 });
  edge.cluster.add(pods, {
    metadata: {
      ...{ name: "other", namespace: BUILD_NAMESPACE, creationTimestamp: "2026-01-03T00:00:00Z" },
      labels: { [label.workload]: "app" },
    },
    spec: { containers: [] },
  });
  const answer = await edge.call(`${target}?tail=5`);
  assert.equal([answer.status, answer.text], [200, "line of build-app-2\n"]);
  edge.cluster.addBuild("build-app-2", { createdAt: "2026-01-02T00:00:00Z", exitCode: 1 });
  await edge.call(target);
  edge.cluster.addBuild("build-app-2", { createdAt: "2026-01-02T00:00:00Z", exitCode: 0 });
  await edge.call(target);
  const containers = kubectl.calls().map((call) => call.join(" "));
  assert.equal(containers, [
    "--namespace tenancy-builds logs build-app-2 --container context --tail=5",
    "--namespace tenancy-builds logs build-app-2 --container context --tail=200",
    "--namespace tenancy-builds logs build-app-2 --container build --tail=200",
  ]);
});

test("a log that is followed right after a rebuild was asked for waits for the build to begin", async () => {
  const target = "GET /api/v1/workloads/app/build/logs";
  const clock = manualClock();
  edge = testEdge({ kubectl: kubectl.command, clock, contexts: served.contexts });
  const workload = edge.cluster.addWorkload("app", built);
  edge.cluster.addBuild("before", { exitCode: 0 });
  const waits = () => eventually(() => clock.nextIn() === 500);
  const answer = edge.call(`${target}?follow=true`);
  await waits();
  // The build before may have begun in the same second, and its pod may still be there.
  const key = "1".repeat(64);
  setStatus(workload, { phase: "Ready", build: { state: "Building", request: buildRequest(workload), key } });
  await clock.runNext();
  await waits();
  for (const context of [{ waiting: true }, { waiting: false }]) {
    edge.cluster.addBuild("brief", { key, ...context });
    await clock.runNext();
    await waits();
  }
  edge.cluster.addBuild("brief", { key, exitCode: 0 });
  await clock.runNext();
  const { status, text } = await answer;
  assert.equal([status, text], [200, "line of brief\n"]);
  // A build that failed without a log and is tried again is about to begin.
  edge.cluster.remove(pods, "brief", { namespace: BUILD_NAMESPACE });
  edge.cluster.remove(pods, "before", { namespace: BUILD_NAMESPACE });
  const failed = { state: "Failed", reason: "BuilderUnavailable", tries: 1, request: buildRequest(workload) } as const;
  setStatus(workload, { phase: "Ready", build: failed });
  const again = edge.call(`${target}?follow=true`);
  await waits();
  edge.cluster.addBuild("brief", { createdAt: "2026-01-02T00:00:00Z", exitCode: 0 });
  await clock.runNext();
  assert.is((await again).status, 200);
  // A build that does not begin is not taken for the one before it.
  setStatus(workload, { phase: "Ready", build: { state: "Pending", request: buildRequest(workload) } });
  const late = edge.call(`${target}?follow=true`);
  for (let times = 0; times < 60; times += 1) {
    await waits();
    await clock.runNext();
  }
  assert.is((await late).status, 504);
  // Without follow, what is there is answered.
  const before = edge.cluster.addWorkload("app", built);
  setStatus(before, { phase: "Ready" });
  assert.equal((await edge.call(target)).text, "line of brief\n");
});

test("a log that cannot be read is said to be so", async () => {
  const target = "GET /api/v1/workloads/app/build/logs";
  const workload = edge.cluster.addWorkload("app", built);
  setStatus(workload, { phase: "Ready", build: { state: "Built", request: buildRequest(workload) } });
  for (const [pod, status] of [
    ["gone", 404],
    ["starting", 409],
    ["no-node", 503],
  ] as const) {
    edge.cluster.addBuild(pod, { exitCode: 0 });
    assert.is((await edge.call(`${target}?follow=true`)).status, status, pod);
    edge.cluster.remove(pods, pod, { namespace: BUILD_NAMESPACE });
  }
  assert.is((await edge.call(`${target}?tail=x`)).status, 400);
});

test.run();
