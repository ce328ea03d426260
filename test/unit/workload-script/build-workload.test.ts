// @waits
import { mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { buildRequest } from "../../../crds/builds/build-request.ts";
import { systemClock } from "../../../crds/client/clock.ts";
import { workloads } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import type { Workload, WorkloadStatus } from "../../../crds/workload.ts";
import { createApi } from "../../../edge/cli/build/api.ts";
import { buildWorkload } from "../../../edge/cli/build/build-workload.ts";
import { serveNode } from "../../../edge/serve/node.ts";
import type { Server } from "../../../edge/serve/serve.ts";
import { parseArguments } from "../../../scripts/workload/arguments.ts";
import { eventually } from "../../eventually.ts";
import { type FakeKubectl, fakeKubectl } from "../edge/fake-kubectl.ts";
import { type SnapshotsFolder, snapshotsFolder } from "../edge/snapshots-folder.ts";
import { type TestEdge, testEdge } from "../edge/test-edge.ts";
import { silentLog } from "../silent-log.ts";
import { type ServedStore, serveStore } from "../snapshots/store-server.ts";

interface Context {
  folder: string;
  volume: SnapshotsFolder;
  kubectl: FakeKubectl;
  served: ServedStore;
  edge: TestEdge;
  server: Server;
}

const test = suite<Context>("npm run workload -- build");

test.before.each(async (context) => {
  context.folder = mkdtempSync(join(tmpdir(), "tenancy-build-"));
  writeFileSync(join(context.folder, "Dockerfile"), "FROM scratch\n");
  context.volume = snapshotsFolder();
  context.kubectl = fakeKubectl();
  context.served = await serveStore(context.volume.path);
  const { contexts } = context.served;
  const { command } = context.kubectl;
  context.edge = testEdge({ kubectl: command, contexts, clock: systemClock, apiKey: "secret-key" });
  context.edge.cluster.addSnapshots();
  const listen = { hostname: "127.0.0.1", port: 0 };
  context.server = await serveNode({ handler: context.edge.handler, listen, log: silentLog });
});
test.after.each(async ({ server, kubectl, served, volume, folder }) => {
  await server.stop({ graceMs: 0 });
  await served.close();
  kubectl.remove();
  volume.remove();
  rmSync(folder, { recursive: true });
});

function build({ server, folder }: Context, { key = "secret-key", name = "app" } = {}) {
  const lines: string[] = [];
  const output: string[] = [];
  const { signal } = new AbortController();
  const log = (line: string): void => void lines.push(line);
  const api = createApi({ url: server.url, key, signal, onRetry: log });
  const onOutput = (chunk: Buffer): void => void output.push(chunk.toString());
  return { lines, output, result: buildWorkload({ api, name, folder, log, onOutput, signal }) };
}

function workloadOf({ edge }: Context): Workload {
  return edge.cluster.read(workloads, "app");
}

/** The operator's part, about what the workload asks for now. */
function setBuild(context: Context, build: NonNullable<WorkloadStatus["build"]>, image?: string): void {
  const workload = workloadOf(context);
  const request = buildRequest(workload);
  const status: WorkloadStatus = { phase: "Building", build: { request, ...build }, ...(image && { image }) };
  context.edge.cluster.add(workloads, { ...workload, status }, { hidden: true });
}

async function untilUploaded(context: Context): Promise<string> {
  const named = (): string | undefined => workloadOf(context).metadata.annotations?.[annotation.buildContext];
  await eventually(() => named() !== undefined);
  return named() ?? "";
}

test("uploads a folder, prints the builder's log once and ends with the image", async (context) => {
  const { edge, volume } = context;
  edge.cluster.addWorkload("app", { image: { dockerfile: "Dockerfile" } });
  const { lines, output, result } = build(context);
  const sha256 = await untilUploaded(context);
  assert.equal(readdirSync(join(volume.path, ".contexts/app")), [sha256]);
  setBuild(context, { state: "Pending", message: "2 builds are running" });
  await eventually(() => lines.includes("Pending: 2 builds are running"));
  edge.cluster.addBuild("brief", { exitCode: 0 });
  setBuild(context, { state: "Building", startedAt: "2026-01-01T00:00:00Z" });
  await eventually(() => output.length > 0);
  setBuild(context, { state: "Built", steps: 3, cached: 1 }, "registry/app@sha256:1");
  assert.is(await result, true);
  assert.equal(output, ["line of brief\n"]);
  assert.is(lines[0], `uploading ${context.folder}: 1 files, 1 KiB`);
  assert.ok(lines.some((line) => line.endsWith(`sha256 ${sha256}`)));
  assert.is(lines.at(-1), "built registry/app@sha256:1 (3 steps, 1 of them cached)");
});

test("prints the log of a build that ended before its log was asked for", async (context) => {
  const { edge } = context;
  edge.cluster.addWorkload("app", { image: { dockerfile: "Dockerfile" } });
  const { lines, output, result } = build(context);
  await untilUploaded(context);
  setBuild(context, { state: "Building", startedAt: "2026-01-01T00:00:00Z" });
  await eventually(() => lines.includes("Building"));
  edge.cluster.addBuild("brief", { exitCode: 0 });
  setBuild(context, { state: "Built" }, "registry/app@sha256:1");
  assert.is(await result, true);
  assert.equal(output, ["line of brief\n"]);
});

test("ends with what failed, without the log of a build before", async (context) => {
  const { edge } = context;
  edge.cluster.addWorkload("app", { image: { dockerfile: "Dockerfile" } });
  edge.cluster.addBuild("of-last-week", { exitCode: 1 });
  const { lines, output, result } = build(context);
  await untilUploaded(context);
  await eventually(() => lines.includes("Pending"));
  setBuild(context, { state: "Failed", reason: "BuildFailed", message: "step [2/3] RUN make failed" });
  assert.is(await result, false);
  assert.is(lines.at(-1), "failed, BuildFailed: step [2/3] RUN make failed");
  assert.equal(output, []);
});

test("says in the API's words what cannot be done", async (context) => {
  const { edge, folder } = context;
  const failure = async (options?: Parameters<typeof build>[1]): Promise<string> =>
    build(context, options).result.then(
      () => "done",
      (error: Error) => error.message,
    );
  assert.match(await failure({ key: "wrong" }), /wrong API key/);
  assert.match(await failure(), /workload "app" does not exist/);
  edge.cluster.addWorkload("app");
  assert.match(await failure(), /spec has image\.ref/);
  edge.cluster.addWorkload("app", { image: { dockerfile: "Dockerfile", context: { configMapRef: { name: "a" } } } });
  assert.match(await failure(), /from a ConfigMap/);
  edge.cluster.addWorkload("app", { image: { dockerfile: "other" } });
  assert.match(await failure(), /it holds no other/);
  edge.cluster.addWorkload("app", { image: { dockerfile: "Dockerfile" } });
  symlinkSync("/etc/passwd", join(folder, "link"));
  assert.match(await failure(), /the symlink "link" points at the absolute path/);
  await context.server.stop({ graceMs: 0 });
  assert.match(await failure(), /Cannot reach http:\/\/127\.0\.0\.1:\d+: /);
});

test("a refusal before the upload's end leaves no connection, which would keep the command from ending", async () => {
  const server = createServer((_request, response) => void response.writeHead(400).end('{"error":"no room"}'));
  // As other servers do, it keeps what is not whole.
  server.keepAliveTimeout = 0;
  const connections = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    connections.add(socket);
    socket.once("close", () => connections.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const api = createApi({ url, key: undefined, signal: new AbortController().signal, onRetry: () => undefined });
  async function* endless(): AsyncGenerator<Buffer> {
    yield Buffer.alloc(1024);
    await new Promise(() => undefined);
  }
  try {
    const refused = await api.json("PUT", "/", { body: () => Readable.from(endless()) }).catch((error: Error) => error);
    assert.is((refused as Error).message, "no room");
    await eventually(() => connections.size === 0);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test("reads its command line", () => {
  const url = "http://127.0.0.1:8080";
  const context = ["--context", "dir"];
  assert.equal(parseArguments(["build", "app", ...context]), {
    ...{ command: "build", name: "app", context: "dir", url, keyFile: undefined },
  });
  const all = parseArguments(["build", "app", ...context, "--url", "https://a.example/", "--key-file", "k"]);
  assert.equal(all, { command: "build", name: "app", context: "dir", url: "https://a.example", keyFile: "k" });
  for (const words of [[], ["help"], ["--help"]]) assert.equal(parseArguments(words), { command: "help" });
  for (const [words, why] of [
    [["make", "app"], /Cannot do "make"/],
    [["build", ...context], /name a workload/],
    [["build", "app"], /--context/],
    [["build", "app", "b", ...context], /Cannot make sense of "b"/],
    [["build", "app", ...context, "--url", "ftp://a"], /Cannot use --url/],
    [["build", "app", ...context, "--key", "secret"], /key/],
  ] as const) {
    assert.throws(() => parseArguments(words), why);
  }
});

test.run();
