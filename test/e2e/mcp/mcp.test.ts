// @limit 1800
// An assistant works in real containers by MCP, with an edge as npm start runs it.
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { connectMcp } from "../../unit/mcp/mcp-client.ts";
import { type Stack, startStack } from "../claims/stack.ts";
import { clusterOfFile } from "../cluster-of-file.ts";

const test = suite("MCP on real containers");
let stack: Stack;
let mcp: Awaited<ReturnType<typeof connectMcp>>;

test.before(async () => {
  stack = await startStack(clusterOfFile("e2e-mcp"));
  const spec = {
    image: { ref: "localhost/tenancy-hello:1" },
    resources: { memoryMb: 64 },
    filesystem: { overlayDirs: ["/data"] },
    entrypoint: { cmd: "/bin/sh", args: ["-c", "echo hello from $HOSTNAME; while :; do sleep 1000 & wait; done"] },
  };
  const { status, body } = await stack.call("POST", "/workloads", { name: "app", spec });
  assert.is(status, 201, JSON.stringify(body));
  mcp = await connectMcp(stack.url, {});
});
test.after(async () => {
  await mcp?.client.close();
  await stack?.interrupt();
});

/** Calls a tool, which succeeds; a claim may take several calls. */
async function call(
  name: string,
  given: object = {},
  onprogress?: (progress: { message?: string | undefined }) => void,
) {
  for (let tries = 0; ; tries += 1) {
    const called = await mcp.call(name, { ...given }, onprogress === undefined ? {} : { onprogress });
    if (!called.isError) return called.output;
    if (name !== "claim" || tries > 5) throw new Error(called.text);
  }
}

test("claim, run, write, read, list, logs, checkpoint, release, and the files are there again", async () => {
  const phases: string[] = [];
  const claimed = await call("claim", {}, ({ message }) => phases.push(message ?? ""));
  assert.equal([claimed.phase, claimed.source], ["Active", "cold"]);
  console.log(`note: progress of the claim: ${JSON.stringify(phases)}`);

  const seen: string[] = [];
  const script = "echo one; read line; echo $line; hostname; exit 3";
  const given = { command: ["sh", "-c", script], stdin: "two\n" };
  const ran = await call("run", given, ({ message }) => seen.push(message ?? ""));
  assert.equal(ran, { exitCode: 3, stdout: `one\ntwo\n${claimed.instanceId}\n`, stderr: "" });
  assert.is(seen.join(""), ran.stdout);

  await call("write_file", { path: "/data/notes/a.txt", content: "kept" });
  assert.is((await call("read_file", { path: "/data/notes/a.txt" })).content, "kept");
  const { files } = await call("list_files", { folder: "/data", depth: 2 });
  assert.equal(
    (files as { path: string }[]).map(({ path }) => path),
    ["/data/notes", "/data/notes/a.txt"],
  );
  const uri = "tenancy://ann/app/files/data/notes/a.txt";
  assert.equal((await mcp.client.readResource({ uri })).contents, [{ uri, text: "kept" }]);
  assert.match((await call("logs")).text as string, `hello from ${claimed.instanceId}`);

  const saved = await call("checkpoint", { name: "first" });
  assert.equal(saved.names, ["first"]);
  await call("write_file", { path: "/data/notes/b.txt", content: "later" });
  assert.is((await call("release")).files, "saved");
  assert.ok((await mcp.call("read_file", { path: "/data/notes/a.txt" })).isError);

  const again = await call("claim", { resume: true });
  assert.not.equal(again.instanceId, claimed.instanceId);
  assert.is((await call("read_file", { path: "/data/notes/b.txt" })).content, "later");
  assert.is((await call("release")).status, "released");
});

test.run();
