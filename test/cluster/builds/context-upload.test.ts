// @limit 300
import { spawn } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { workloads } from "../../../crds/kinds.ts";
import { annotation } from "../../../crds/labels.ts";
import { SNAPSHOTS_NAME } from "../../../crds/snapshots/store-folder.ts";
import { operatorConfig } from "../../../operator/config.ts";
import { type EdgeProcess, runtimes, startReadyEdge } from "../../unit/edge/edge-process.ts";
import { type FakeKubectl, fakeKubectl } from "../../unit/edge/fake-kubectl.ts";
import { rawTar } from "../../unit/snapshots/raw-tar.ts";
import { runHelper } from "../snapshots/simulated-helper.ts";
import { exists, NAMESPACE, startTenancy, type Tenancy } from "../tenancy.ts";
import { built, type PretendBuilders, startPretendBuilders } from "./pretend-builders.ts";

const test = suite("uploaded build contexts");
const KEY = "cluster-test-key";
const IMAGE = `sha256:${"1".repeat(64)}`;
let tenancy: Tenancy;
let builders: PretendBuilders;
let kubectl: FakeKubectl;
let helper: { stop(): Promise<void> } | undefined;

test.before(async () => {
  tenancy = await startTenancy("test-context-upload");
  builders = await startPretendBuilders(tenancy.client);
  kubectl = fakeKubectl();
  const { builds } = operatorConfig({ TENANCY_REGISTRY: "registry.example.com/built" });
  tenancy.startOperator({ config: { builds }, exec: builders.exec, contexts: builders.contexts });
});
test.after(async () => {
  kubectl?.remove();
  await helper?.stop();
  await builders?.stop();
  await tenancy?.stop();
});

function startEdge(runtime: keyof typeof runtimes): Promise<EdgeProcess> {
  return startReadyEdge(runtime, {
    KUBECONFIG: tenancy.cluster.kubeconfigPath,
    PATH: `${dirname(kubectl.command)}:${process.env.PATH}`,
    TENANCY_API_KEY: KEY,
  });
}

async function call(edge: EdgeProcess, target: string, body?: Buffer): Promise<{ status: number; json: unknown }> {
  const [method = "", path = ""] = target.split(" ");
  const response = await fetch(`${edge.url}/api/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${KEY}` },
    ...(body !== undefined && { body: new Uint8Array(body) }),
  });
  return { status: response.status, json: await response.json() };
}

async function untilHelperRuns(): Promise<void> {
  helper ??= await runHelper(tenancy, join(builders.root, SNAPSHOTS_NAME));
}

for (const runtime of Object.keys(runtimes) as (keyof typeof runtimes)[]) {
  test(`${runtime}: what is uploaded is built, and goes with its workload`, async () => {
    const name = `app-${runtime}`;
    const seen: Record<string, string>[] = [];
    builders.ends(async (_pod, files) => {
      seen.push(files);
      return built(IMAGE, { steps: 3, cached: 1 });
    });
    const edge = await startEdge(runtime);
    await tenancy.createWorkload(name, { image: { dockerfile: "Dockerfile" } });
    await tenancy.untilWorkload(name, ({ status }) => status?.build?.reason === "ContextMissing");
    await untilHelperRuns();
    const refused = await call(edge, `PUT /workloads/${name}/context`, rawTar([{ name: "/etc/passwd" }]));
    assert.equal(refused, {
      status: 400,
      json: { error: 'body: must be a build context as tar or tar.gz: entry "/etc/passwd" has an absolute path' },
    });

    const large = randomBytes(6 * 1024 * 1024);
    const context = rawTar([
      { name: "./", type: "5" },
      { name: "./Dockerfile", content: Buffer.from("FROM scratch\n") },
      { name: "./large", content: large },
    ]);
    const sha256 = createHash("sha256").update(context).digest("hex");
    const uploaded = await call(edge, `PUT /workloads/${name}/context`, context);
    assert.equal(uploaded, { status: 200, json: { sha256, sizeBytes: context.length } });
    const { metadata, status } = await tenancy.untilWorkload(name, ({ status }) => status?.phase === "Ready");
    assert.is(metadata.annotations?.[annotation.buildContext], sha256);
    assert.is(status?.image, `registry.example.com/built/${name}@${IMAGE}`);
    assert.is(seen.length, 1);
    assert.is(seen[0]?.Dockerfile, "FROM scratch\n");
    assert.is(seen[0]?.large?.length, large.toString("utf8").length);
    const build = (await call(edge, `GET /workloads/${name}/build`)).json as Record<string, unknown>;
    const { state, digest, context: named, image } = build;
    assert.equal(
      { state, digest, named, image },
      { state: "Built", digest: IMAGE, named: sha256, image: status?.image },
    );
    const log = await fetch(`${edge.url}/api/v1/workloads/${name}/build/logs`, {
      headers: { authorization: `Bearer ${KEY}` },
    });
    assert.match(await log.text(), new RegExp(`^line of build-${name}-`));

    assert.is((await call(edge, `POST /workloads/${name}/build`)).status, 200);
    await tenancy.until("another build", async () => seen.length === 2);
    await tenancy.untilWorkload(name, ({ status }) => status?.build?.state === "Built");
    assert.equal(builders.stored(name), [sha256]);
    await tenancy.client.delete(workloads, { namespace: NAMESPACE, name });
    await tenancy.until("its end", async () => !(await exists(tenancy.client, workloads, name)));
    assert.equal(builders.stored(name), []);
    edge.child.kill("SIGTERM");
    assert.is(await edge.exited, 0);
  });
}

test("the command packs a folder, uploads it and ends as the build does", async () => {
  const edge = await startEdge("node");
  const folder = mkdtempSync(join(tmpdir(), "tenancy-command-"));
  const files = { Dockerfile: "FROM scratch\n", ".dockerignore": "left-out\n", "left-out": "x", kept: "y" };
  for (const [name, content] of Object.entries(files)) writeFileSync(join(folder, name), content);
  const seen: Record<string, string>[] = [];
  builders.ends(async (_pod, files) => {
    seen.push(files);
    return seen.length === 1
      ? built(IMAGE)
      : { message: "state=Failed\ncode=2\nstep=[2/2] RUN make\nerror=exit code: 2\n", exitCode: 1 };
  });
  await tenancy.createWorkload("command", { image: { dockerfile: "Dockerfile" } });
  await untilHelperRuns();
  const run = async (): Promise<{ code: number; said: string }> => {
    const words = [
      "--import",
      "tsx",
      "scripts/workload.ts",
      "build",
      "command",
      "--context",
      folder,
      "--url",
      edge.url,
    ];
    const child = spawn(process.execPath, words, { env: { ...process.env, TENANCY_API_KEY: KEY } });
    let said = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (said += chunk));
    const code = await new Promise<number>((resolve) => child.once("close", (ended) => resolve(ended ?? -1)));
    return { code, said };
  };
  try {
    const first = await run();
    assert.is(first.code, 0, first.said);
    assert.match(first.said, `built registry.example.com/built/command@${IMAGE} (2 steps, 0 of them cached)\n`);
    const { Dockerfile, kept, ".dockerignore": ignore, ...others } = seen[0] ?? {};
    assert.equal([Dockerfile, kept, ignore, others], [files.Dockerfile, "y", "left-out\n", {}]);
    const again = await run();
    assert.is(again.code, 0, again.said);
    assert.is(seen.length, 1, "nothing has changed");
    writeFileSync(join(folder, "kept"), "z");
    const failing = await run();
    assert.is(failing.code, 1, failing.said);
    assert.match(failing.said, /failed, BuildFailed: /);
  } finally {
    rmSync(folder, { recursive: true });
    edge.child.kill("SIGTERM");
    await edge.exited;
  }
});

test.run();
