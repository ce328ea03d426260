// @runtimes node bun deno
// @limit 300
// Processes and files through the client, over real sockets and with the real program.
import { spawnSync } from "node:child_process";
import { readFileSync, statSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { ApiError, type Client, createClient, type Place, type WatchEvent } from "../../../edge/client/index.ts";
import { errorOf } from "../../error-of.ts";
import { eventually } from "../../eventually.ts";
import { clientEdge, INSTANCE, KEY } from "./client-edge.ts";

const test = suite("createClient: an instance");
let running: Awaited<ReturnType<typeof clientEdge>>;
let client: Client;
let folder: string;
const byTenant: Place = { tenant: "ann", workload: "app" };

test.before(async () => {
  running = await clientEdge();
  client = createClient({ url: running.url, key: KEY });
  folder = running.folder;
});
test.after(() => running.stop());

const sh = (script: string) => ["/bin/sh", "-c", script];

test("a claim leads to its instance, and a wrong key is an error with the API's words", async () => {
  const claim = await client.claim("ann", "app");
  assert.equal([claim.phase, claim.instanceId, claim.source], ["Active", INSTANCE, "existing"]);
  assert.is((await client.run(claim, ["/bin/echo", "hi"])).stdout, "hi\n");
  assert.equal(
    (await client.instances({ tenant: "ann" })).map(({ name }) => name),
    [INSTANCE],
  );
  const error = (await errorOf(createClient({ url: running.url, key: "wrong" }).claims())) as ApiError;
  assert.instance(error, ApiError);
  assert.equal([error.status, typeof error.requestId], [401, "string"]);
});

test("run: outputs, exit code, variables, folder and input, by both addresses", async () => {
  for (const place of [INSTANCE, byTenant]) {
    const pieces: string[] = [];
    const { exitCode, stdout, stderr, truncated } = await client.run(
      place,
      sh("echo $A; pwd; cat; echo no >&2; exit 7"),
      {
        ...{ env: { A: "ü" }, cwd: folder, stdin: "input", onStdout: (text) => pieces.push(text) },
      },
    );
    assert.equal([exitCode, stdout, stderr, truncated], [7, `ü\n${folder}\ninput`, "no\n", undefined]);
    assert.is(pieces.join(""), stdout);
  }
  const cut = await client.run(INSTANCE, sh("head -c 100000 /dev/zero | tr '\\0' x"), { mostOutput: 10 });
  assert.equal([cut.stdout, cut.truncated], ["x".repeat(10), true]);
  const error = (await errorOf(client.run(INSTANCE, ["no-such-program"]))) as ApiError;
  assert.is(error.status, 400);
});

test("run: the signal ends the call and the process, and so does leaving the loop of its output", async () => {
  for (const isAborted of [true, false]) {
    const end = new AbortController();
    const script = sh("echo begun; sleep 1000");
    if (isAborted) {
      const onStdout = () => end.abort(new Error("enough"));
      const error = (await errorOf(client.run(INSTANCE, script, { onStdout, signal: end.signal }))) as Error;
      assert.is(error.message, "enough");
    } else for await (const { type } of client.processes.follow(INSTANCE, script)) if (type === "stdout") break;
    await eventually(async () => (await client.processes.list(INSTANCE)).length === 0);
  }
});

test("files: written, read, listed, moved and removed, with names of every kind", async () => {
  const name = join(folder, "a b/100% #1?+ü.txt");
  const written = await client.files.write(INSTANCE, name, "text", { mode: "0600" });
  assert.equal([written.type, written.sizeBytes, written.mode], ["file", 4, "0600"]);
  assert.is(readFileSync(name, "utf8"), "text");
  assert.is(await client.files.readText(byTenant, name), "text");
  assert.is(await (await client.files.read(INSTANCE, name, { range: "bytes=1-2" })).text(), "ex");
  const [listed] = await client.files.list(INSTANCE, join(folder, "a b"));
  assert.ok(listed?.encodedPath);
  assert.is(await client.files.readText(INSTANCE, listed), "text", "an entry is a path");
  const isNew = (await errorOf(client.files.write(INSTANCE, name, "more", { isNew: true }))) as ApiError;
  assert.is(isNew.status, 409);
  await client.files.mkdir(INSTANCE, join(folder, "made/deep"));
  await client.files.move(INSTANCE, listed, join(folder, "made/100%"));
  assert.is((await client.files.chmod(INSTANCE, join(folder, "made/100%"), "0640")).mode, "0640");
  assert.is((await client.files.stat(INSTANCE, join(folder, "made/100%"))).sizeBytes, 4);
  const all = await client.files.list(INSTANCE, folder, { depth: 2 });
  assert.equal(
    all.map(({ path }) => path.slice(folder.length)),
    ["a b", "made", "made/100%", "made/deep"],
  );
  const first = await client.files.page(INSTANCE, folder, { depth: 2, limit: 3 });
  const second = await client.files.page(INSTANCE, folder, { depth: 2, limit: 3, after: first.next });
  assert.equal([...first.entries, ...second.entries], all);
  assert.is(second.next, undefined);
  await client.files.remove(INSTANCE, join(folder, "made"), { recursive: true });
  const gone = (await errorOf(client.files.stat(INSTANCE, join(folder, "made")))) as ApiError;
  assert.is(gone.status, 404);
});

test("files: a stream is written and read piece by piece", async () => {
  const piece = new Uint8Array(64 * 1024).fill(120);
  const count = 160;
  let sent = 0;
  const stream = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (sent++ < count) controller.enqueue(piece.slice());
      else controller.close();
    },
  });
  const path = join(folder, "large");
  assert.is((await client.files.write(INSTANCE, path, stream)).sizeBytes, count * piece.length);
  assert.is(statSync(path).size, count * piece.length);
  const { body } = await client.files.read(INSTANCE, path);
  const reader = body?.getReader();
  const first = await reader?.read();
  assert.ok((first?.value?.length ?? 0) < count * piece.length, "not all at once");
  await reader?.cancel();
});

test("files: a folder is downloaded as an archive, and unpacked elsewhere", async () => {
  writeFileSync(join(folder, "large"), "small now");
  symlinkSync("large", join(folder, "link"));
  const archive = await (await client.files.download(INSTANCE, folder)).blob();
  const target = join(folder, "copy");
  const { unpacked } = await client.files.upload(INSTANCE, target, archive);
  assert.ok((unpacked?.files ?? 0) > 0);
  assert.is(spawnSync("cat", [join(target, "link")], { encoding: "utf8" }).stdout, "small now");
  const wrong = (await errorOf(client.files.upload(INSTANCE, target, "no archive"))) as ApiError;
  assert.is(wrong.status, 400);
});

test("files: a watch shows a change, and leaving it ends it", async () => {
  const seen: WatchEvent[] = [];
  for await (const event of client.files.watch(INSTANCE, folder)) {
    seen.push(event);
    if (event.type === "watching") await client.files.write(INSTANCE, join(folder, "new"), "x");
    if (event.type === "created") break;
  }
  assert.equal(
    seen.map(({ type }) => type),
    ["watching", "created"],
  );
});

test.run();
