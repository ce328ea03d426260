// @runtimes bun node deno
// @limit 300
// The SDK's own client over real sockets, with the real program in the instance.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { errorOf } from "../../error-of.ts";
import { eventually } from "../../eventually.ts";
import { clientEdge, INSTANCE, KEY } from "../rest-client/client-edge.ts";
import { connectMcp } from "./mcp-client.ts";

const test = suite("mcp: tools");
let running: Awaited<ReturnType<typeof clientEdge>>;
let mcp: Awaited<ReturnType<typeof connectMcp>>;
let folder: string;
const sh = (script: string) => ({ command: ["/bin/sh", "-c", script] });

test.before(async () => {
  running = await clientEdge();
  folder = running.folder;
  mcp = await connectMcp(running.url, { authorization: `Bearer ${KEY}` });
});
test.after(async () => {
  await mcp.client.close();
  await running.stop();
});

test("the tools have schemas and hints", async () => {
  const { tools } = await mcp.client.listTools();
  assert.equal(
    tools.map(({ name }) => name),
    ["claim", "run", "write_file", "read_file", "list_files", "logs", "checkpoint", "release"],
  );
  for (const { name, inputSchema, outputSchema, annotations } of tools) {
    assert.equal(inputSchema.required?.slice(0, 2), ["tenant", "workload"], name);
    assert.is(outputSchema?.type, "object");
    assert.is(annotations?.readOnlyHint, ["read_file", "list_files", "logs"].includes(name), name);
  }
});

test("claim joins the claim that exists", async () => {
  const { output } = await mcp.call("claim");
  assert.equal([output.phase, output.instanceId, output.source], ["Active", INSTANCE, "existing"]);
});

test("claim: what it waits for comes as progress, and a cancelled call leaves the claim", async () => {
  const end = new AbortController();
  const message = await new Promise<string | undefined>((resolve) => {
    const options = {
      signal: end.signal,
      onprogress: ({ message }: { message?: string | undefined }) => resolve(message),
    };
    mcp.call("claim", { tenant: "new" }, options).catch(() => undefined);
  });
  assert.match(message ?? "", /^Pending: /);
  end.abort();
  const listed = await running.edge.call("GET /api/v1/claims?tenant=new", {
    headers: { authorization: `Bearer ${KEY}` },
  });
  assert.is((listed.json as unknown[]).length, 1);
});

test("run: outputs, exit code, variables, folder and input, and output as it comes", async () => {
  const seen: string[] = [];
  const given = { ...sh("echo $A; pwd; cat; echo no >&2; exit 7"), env: { A: "ü" }, cwd: folder, stdin: "input" };
  const { output, text } = await mcp.call("run", given, { onprogress: ({ message }) => seen.push(message ?? "") });
  assert.equal(output, { exitCode: 7, stdout: `ü\n${folder}\ninput`, stderr: "no\n" });
  assert.equal(JSON.parse(text), output);
  assert.match(seen.join(""), "input");
});

test("run: long output is cut in its middle, and says so", async () => {
  const { output, text } = await mcp.call("run", sh("echo first; head -c 3000000 /dev/zero; echo last; echo err >&2"));
  assert.ok(Buffer.byteLength(text) <= 64 * 1024);
  assert.is(output.truncated, true);
  assert.match(output.stdout as string, /^first\n.*\[\d+ characters are left out here\].*last\n$/s);
  assert.is(output.stderr, "err\n");
});

for (const [how, showsOutput] of [
  ["is cancelled", true],
  ["is cancelled", false],
  ["loses its client", true],
  ["loses its client", false],
] as const)
  test(`run: a call that ${how} ends the process (output was sent: ${showsOutput})`, async () => {
    const other = await connectMcp(running.url, { "x-api-key": KEY });
    const end = new AbortController();
    const begun = new Promise<void>((resolve) => {
      const options = { signal: end.signal, ...(showsOutput && { onprogress: () => resolve() }) };
      other.call("run", sh("echo begun; sleep 1000"), options).catch(() => undefined);
      if (!showsOutput) void eventually(async () => (await processes()) === 1).then(() => resolve());
    });
    await begun;
    if (how === "is cancelled") end.abort();
    else await other.client.close();
    await eventually(async () => (await processes()) === 0);
    await other.client.close();
  });

async function processes(): Promise<number> {
  const headers = { authorization: `Bearer ${KEY}` };
  const response = await fetch(`${running.url}/api/v1/instances/${INSTANCE}/processes`, { headers });
  return ((await response.json()) as unknown[]).length;
}

test("files: written, read in parts and listed", async () => {
  const path = join(folder, "a b/100% ü.txt");
  const written = await mcp.call("write_file", { path, content: "text ü", mode: "0600" });
  assert.equal(written.output, { path, sizeBytes: 7, mode: "0600" });
  assert.is(readFileSync(path, "utf8"), "text ü");
  assert.match((await mcp.call("write_file", { path, content: "x", createOnly: true })).text, "exists");
  assert.equal((await mcp.call("read_file", { path })).output, { encoding: "utf-8", content: "text ü", sizeBytes: 7 });
  const bytes = Buffer.from([0, 255, 1]);
  await mcp.call("write_file", { path: join(folder, "bytes"), content: bytes.toString("base64"), encoding: "base64" });
  assert.equal(readFileSync(join(folder, "bytes")), bytes);
  const binary = await mcp.call("read_file", { path: join(folder, "bytes") });
  assert.equal(binary.output, { encoding: "base64", content: bytes.toString("base64"), sizeBytes: 3 });
  await mcp.call("write_file", { path: join(folder, "empty"), content: "" });
  assert.equal((await mcp.call("read_file", { path: join(folder, "empty") })).output.content, "");
  assert.match((await mcp.call("read_file", { path: "/proc/self/status" })).output.content as string, /^Name:/);
  assert.match((await mcp.call("read_file", { path, offset: 8 })).text, "the file has 7 bytes");
  const { output } = await mcp.call("list_files", { folder, depth: 2 });
  assert.equal(
    (output.files as { path: string }[]).map(({ path }) => path.slice(folder.length)),
    ["/a b", "/a b/100% ü.txt", "/bytes", "/empty"],
  );
});

test("read_file: the parts of a file of any content make the file", async () => {
  for (const unit of ["ü€😀\n", '\u0001"\\', "a".repeat(10), "\0"]) {
    const path = join(folder, "parts");
    const content = unit.repeat(Math.ceil(200_000 / Buffer.byteLength(unit)));
    writeFileSync(path, content);
    const parts: Buffer[] = [];
    let offset: number | undefined = 0;
    while (offset !== undefined) {
      const { output, text } = await mcp.call("read_file", { path, offset });
      assert.ok(Buffer.byteLength(text) <= 64 * 1024);
      parts.push(Buffer.from(output.content as string, output.encoding as BufferEncoding));
      offset = output.nextOffset as number | undefined;
    }
    assert.ok(Buffer.concat(parts).equals(Buffer.from(content)), JSON.stringify(unit));
  }
});

test("list_files: a large folder comes in parts", async () => {
  for (let i = 0; i < 450; i += 1) writeFileSync(join(folder, "a b", `${i} ${"\u0001".repeat(60)}`), "");
  const names = new Set<string>();
  let after: string | undefined;
  let calls = 0;
  do {
    const { output, text } = await mcp.call("list_files", { folder: join(folder, "a b"), ...(after && { after }) });
    assert.ok(Buffer.byteLength(text) <= 64 * 1024);
    for (const { path } of output.files as { path: string }[]) names.add(path);
    after = output.next as string | undefined;
    calls += 1;
  } while (after !== undefined);
  assert.is(names.size, 451);
  assert.ok(calls > 3);
});

test("resources: a file as text or bytes, and of a large one how to read it", async () => {
  const { resourceTemplates } = await mcp.client.listResourceTemplates();
  assert.equal(
    resourceTemplates.map(({ uriTemplate }) => uriTemplate),
    ["tenancy://{tenant}/{workload}/files/{+path}"],
  );
  const read = (path: string) =>
    mcp.client.readResource({ uri: `tenancy://ann/app/files${encodeURI(join(folder, path))}` });
  const [text] = (await read("a b/100% ü.txt")).contents;
  assert.is(text && "text" in text && text.text, "text ü");
  const [bytes] = (await read("bytes")).contents;
  assert.is(bytes && "blob" in bytes && bytes.blob, Buffer.from([0, 255, 1]).toString("base64"));
  assert.match(((await errorOf(read("parts"))) as Error).message, "read_file");
  assert.match(((await errorOf(read("none"))) as Error).message, "-32002");
  assert.match(
    ((await errorOf(mcp.client.readResource({ uri: "file:///etc/passwd" }))) as Error).message,
    "uri: must be",
  );
});

test("errors are those of the API, and those of arguments name them", async () => {
  const failed = await mcp.call("read_file", { path: "/no/such/file" });
  assert.ok(failed.isError);
  assert.match(failed.text, "/no/such/file");
  assert.match((await mcp.call("run", { command: [] })).text, /^command: /);
  assert.match((await mcp.call("run", { ...sh("true"), shell: true })).text, "shell");
  const long = { path: "/tmp/x", content: "", encoding: "x".repeat(100_000) };
  assert.ok((await mcp.call("write_file", long)).text.length <= 4096);
  assert.match((await mcp.call("run", { ...sh("true"), tenant: ".." })).text, /Cannot use/);
  assert.match((await mcp.call("run", { ...sh("true"), workload: "other" })).text, "other");
  assert.match(
    ((await errorOf(mcp.client.callTool({ name: "rm", arguments: {} }))) as Error).message,
    "known are claim",
  );
});

test.run();
