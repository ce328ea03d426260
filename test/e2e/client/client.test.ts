// The client of edge/client against real containers: what its README and its page show, as an installed package, and
// streams of some size.
import { execFile } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import * as assert from "uvu/assert";
import WebSocket from "ws";
import { type Client, createClient, type SocketConstructor } from "../../../edge/client/index.ts";
import { buildClientPackage } from "../../../scripts/client/build-package.ts";
import { findKubectl } from "../../../scripts/cluster/kubernetes/kubectl.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { KEY, type RestEdge, startRestEdge } from "../../cluster/rest/rest-edge.ts";
import { errorOf } from "../../error-of.ts";
import { lifeSuite } from "../snapshots/life-suite.ts";

const LIMIT_MS = 180_000;
const WAIT = { waitSeconds: 240 };
const root = join(import.meta.dirname, "../../..");
const script = "trap 'exit 0' TERM; while :; do echo ready; sleep 1 & wait; done";
let edge: RestEdge;
let client: Client;

const test = lifeSuite("the client", {
  name: "client",
  async prepare(life) {
    const PATH = `${dirname(await findKubectl())}:${process.env.PATH}`;
    [edge] = await Promise.all([
      startRestEdge("bun", { KUBECONFIG: life.cluster.kubeconfigPath, PATH }),
      life.createWorkload("desk", {
        entrypoint: { cmd: "/bin/busybox", args: ["sh", "-c", script], start: "OnClaim" },
        resources: { vcpus: 1, memoryMb: 128, diskGb: 1 },
      }),
    ]);
    client = createClient({ url: edge.process.url, key: KEY, WebSocket: WebSocket as SocketConstructor });
  },
});
test.after(async () => void (await edge?.stop()));

/** The JavaScript of a page, as one program that calls this edge. */
function programOf(page: string): string {
  const blocks = readFileSync(join(root, page), "utf8").matchAll(/^( *)```js\n(.*?)^ *```$/gms);
  return [...blocks]
    .map(([, , text]) => text)
    .join("\n")
    .replaceAll("http://127.0.0.1:8080", edge.process.url);
}

test("the programs of the README and of the page run as they stand, with the installed package", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-client-"));
  try {
    mkdirSync(join(folder, "node_modules"));
    await buildClientPackage(root, join(folder, "node_modules/tenancy-client"));
    symlinkSync(join(root, "node_modules/ws"), join(folder, "node_modules/ws"));
    const env = { ...process.env, TENANCY_API_KEY: KEY };
    for (const [page, said] of [
      ["edge/client/README.md", ["0 Linux", "ready"]],
      ["docs/how-to/use-the-client.md", ["0 hello", "a\nb", "<h1>hello</h1>", "tmp/site/index.html 14", "404 "]],
    ] as const) {
      writeFileSync(join(folder, "program.mjs"), programOf(page));
      const options = { cwd: folder, env, timeout: LIMIT_MS };
      const { stdout } = await promisify(execFile)(process.execPath, ["program.mjs"], options);
      for (const text of said) assert.match(stdout, text);
    }
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("a file that is streamed in and out is the same, and a folder comes to another tenant as an archive", async () => {
  const [ann, bob] = await Promise.all([client.claim("ann", "desk", {}, WAIT), client.claim("bob", "desk", {}, WAIT)]);
  const piece = randomBytes(1024 * 1024);
  const hash = createHash("sha256");
  let count = 0;
  const content = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (count++ === 48) return controller.close();
      hash.update(piece);
      controller.enqueue(new Uint8Array(piece));
    },
  });
  const { sizeBytes } = await client.files.write(ann, "/data/large", content);
  assert.is(sizeBytes, 48 * piece.length);
  const wanted = hash.digest("hex");
  assert.match((await client.run(ann, ["sha256sum", "/data/large"])).stdout, wanted);
  const read = createHash("sha256");
  for await (const chunk of (await client.files.read(ann, "/data/large")).body ?? []) read.update(chunk);
  assert.is(read.digest("hex"), wanted);
  const { body } = await client.files.download(ann, "/data");
  assert.ok(body);
  await client.files.upload(bob, "/data/copy", body);
  assert.match((await client.run(bob, ["sha256sum", "/data/copy/large"])).stdout, wanted);
});

test("a command that is aborted has ended in the container, and a watch shows what it did", async () => {
  const place = { tenant: "ann", workload: "desk" };
  const end = new AbortController();
  const onStdout = (): void => end.abort(new Error("enough"));
  const shell = ["sh", "-c", "echo > /data/begun; echo begun; sleep 3600"];
  for await (const event of client.files.watch(place, "/data")) {
    if (event.type === "watching")
      assert.is(
        ((await errorOf(client.run(place, shell, { onStdout, signal: end.signal }))) as Error).message,
        "enough",
      );
    if (event.type === "created" && event.path === "data/begun") break;
  }
  const isGone = async () => (await client.processes.list(place)).length === 0;
  await waitUntil(isGone, { what: "the command to end", limitMs: LIMIT_MS });
});

test("a terminal and a followed log give what the container writes, and end when they are told to", async () => {
  const claim = await client.claim("ann", "desk");
  const terminal = await client.processes.terminal(claim, { cols: 100, rows: 30 });
  await terminal.write("stty size; exit 7\n");
  let text = "";
  for await (const piece of terminal.stdout) text += Buffer.from(piece).toString();
  assert.match(text, "30 100");
  assert.is((await terminal.exited).exitCode, 7);
  const end = new AbortController();
  let lines = 0;
  const following = (async () => {
    for await (const line of client.logs(claim, { follow: true, tail: 0, signal: end.signal }))
      if (line === "ready" && ++lines === 3) end.abort(new Error("enough"));
  })();
  assert.is(((await errorOf(following)) as Error).message, "enough");
});

test("a release keeps the files for the next claim, and the end of the claim ends what is attached", async () => {
  const claim = await client.claim("ann", "desk");
  const started = await client.processes.start(claim, ["sleep", "3600"]);
  const { files } = await client.release("ann", "desk", { wait: true });
  assert.ok(files);
  const outcome = await started.exited.catch((error: unknown) => error);
  assert.ok(outcome);
  const next = await client.claim("ann", "desk", { resume: true }, WAIT);
  assert.is.not(next.instanceId, claim.instanceId);
  assert.is((await client.files.stat(next, "/data/large")).sizeBytes, 48 * 1024 * 1024);
});

test.run();
