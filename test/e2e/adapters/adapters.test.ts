// @limit 1800
// The sandboxes of other products, by their own packages, in real containers.
import { compute } from "computesdk";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { tenancySandbox } from "../../../edge/adapters/ai-sdk/index.ts";
import { tenancy } from "../../../edge/adapters/computesdk/index.ts";
import { createClient } from "../../../edge/client/index.ts";
import { errorOf } from "../../error-of.ts";
import { type Stack, startStack } from "../claims/stack.ts";
import { clusterOfFile } from "../cluster-of-file.ts";

const test = suite("adapters on real containers");
let stack: Stack;

test.before(async () => {
  stack = await startStack(clusterOfFile("e2e-adapters"));
  const spec = {
    image: { ref: "localhost/tenancy-hello:1" },
    resources: { memoryMb: 64 },
    filesystem: { overlayDirs: ["/data"] },
    entrypoint: { cmd: "/bin/busybox", args: ["httpd", "-f", "-p", "8080", "-h", "/data"], start: "OnClaim" },
    network: { ports: [8080], expose: "link" },
  };
  const { status, body } = await stack.call("POST", "/workloads", { name: "app", spec });
  assert.is(status, 201, JSON.stringify(body));
});
/** What a link leads to, in the form for programs that do not resolve names below localhost. */
async function textOf(link: string): Promise<string> {
  const { hostname, port, search } = new URL(link);
  const [workload, tenant] = hostname.replace(".localhost", "").split("--");
  return await (await fetch(`http://127.0.0.1:${port}/t/${tenant}/${workload}/${search}`)).text();
}

test.after(async () => {
  await stack?.interrupt();
});

test("ComputeSDK: a sandbox of its own", async () => {
  const sdk = compute({ provider: tenancy({ url: stack.url, workload: "app" }) });
  const sandbox = await sdk.sandbox.create({ envs: { OWN: "set" }, timeout: 3_600_000 });
  assert.match(sandbox.sandboxId, /^computesdk-[-0-9a-f]{36}:app$/);

  const ran = await sandbox.runCommand("echo $OWN $MORE; pwd; echo no >&2; exit 3", {
    env: { MORE: "more" },
    cwd: "/data",
  });
  assert.equal([ran.exitCode, ran.stdout, ran.stderr], [3, "set more\n/data\n", "no\n"]);
  const pieces: string[] = [];
  await sandbox.runCommand("echo one; echo two", { onStdout: (text) => pieces.push(text) });
  assert.is(pieces.join(""), "one\ntwo\n");
  assert.is((await sandbox.runCommand("kill -9 $$")).exitCode, 137);
  await sandbox.runCommand("echo done > /data/background", { background: true });

  const { filesystem } = sandbox;
  await filesystem.mkdir("/data/folder");
  await filesystem.writeFile("/data/folder/a.txt", "text");
  assert.is(await filesystem.readFile("/data/folder/a.txt"), "text");
  assert.equal(
    (await filesystem.readdir("/data/folder")).map(({ name, type, size }) => [name, type, size]),
    [["a.txt", "file", 4]],
  );
  assert.is(await filesystem.exists("/data/folder"), true);
  await filesystem.remove("/data/folder");
  assert.is(await filesystem.exists("/data/folder"), false);

  const { status, timeout, provider } = await sandbox.getInfo();
  assert.equal([status, provider], ["running", "tenancy"]);
  assert.ok(timeout > 3_500_000);
  await filesystem.writeFile("/data/index.html", "served");
  assert.is(await textOf(await sandbox.getUrl({ port: 8080 })), "served");

  assert.equal(
    (await sdk.sandbox.list()).map(({ sandboxId }) => sandboxId),
    [sandbox.sandboxId],
  );
  const found = await sdk.sandbox.getById(sandbox.sandboxId);
  assert.is((await found?.runCommand("cat /data/background"))?.stdout, "done\n");
  await sdk.sandbox.destroy(sandbox.sandboxId);
  assert.is(await sdk.sandbox.getById(sandbox.sandboxId), null);
  assert.equal(await createClient({ url: stack.url }).snapshots.list(), []);
});

test("ComputeSDK: a tenant's files stay, and what would have no effect is refused", async () => {
  const sdk = compute({ provider: tenancy({ url: stack.url }) });
  // It begins as those that the provider makes.
  const tenant = "computesdk-team";
  const options = { templateId: "app", metadata: { tenant } };
  const sandbox = await sdk.sandbox.create(options);
  await sandbox.filesystem.writeFile("/data/kept", "files of the team");
  await sandbox.destroy();
  const [version] = await createClient({ url: stack.url }).snapshots.versions(tenant, "app");
  const again = await sdk.sandbox.create({ ...options, snapshotId: version?.version ?? "" });
  assert.is(await again.filesystem.readFile("/data/kept"), "files of the team");
  await again.destroy();
  assert.match(((await errorOf(sdk.sandbox.create({ ...options, image: "python" }))) as Error).message, "templateId");
  assert.match(((await errorOf(sdk.sandbox.create())) as Error).message, "workload");
  assert.match(((await errorOf(sdk.sandbox.create({ templateId: "none" }))) as Error).message, '"none"');
});

test("AI SDK: a session has files, commands, processes and a port", async () => {
  const provider = tenancySandbox({ url: stack.url, workload: "app", ports: [8080], workingDirectory: "/data" });
  const prepared: string[] = [];
  const onFirstCreate = async (session: { readonly description: string }) => void prepared.push(session.description);
  const session = await provider.createSession({ sessionId: "chat / 1", onFirstCreate });
  await provider.createSession({ sessionId: "chat / 1", onFirstCreate });
  assert.is(prepared.length, 1);
  const own = session.restricted();
  assert.equal(
    ["stop", "setNetworkPolicy", "getPortUrl"].filter((name) => name in own),
    [],
  );

  await own.writeTextFile({ path: "notes/a.txt", content: "one\ntwo\nthree" });
  assert.is(await own.readTextFile({ path: "/data/notes/a.txt", startLine: 2, endLine: 2 }), "two\n");
  assert.is(await own.readTextFile({ path: "none" }), null);
  await own.writeBinaryFile({ path: "bytes", content: Uint8Array.of(0, 255) });
  assert.equal([...((await own.readBinaryFile({ path: "bytes" })) ?? [])], [0, 255]);
  await own.writeFile({ path: "streamed", content: new Blob(["by stream"]).stream() });
  assert.is(await new Response(await own.readFile({ path: "streamed" })).text(), "by stream");

  const command = "pwd; echo $A; echo no >&2; exit 3";
  assert.equal(await own.run({ command, workingDirectory: "notes", env: { A: "set" } }), {
    ...{ stdout: "/data/notes\nset\n", stderr: "no\n", exitCode: 3 },
  });
  const signal = AbortSignal.abort(new Error("enough"));
  assert.is(((await errorOf(Promise.resolve(own.run({ command, abortSignal: signal })))) as Error).message, "enough");

  const echo = await own.spawn({ command: "echo out; echo err >&2; exit 4" });
  const outputs = await Promise.all([new Response(echo.stdout).text(), new Response(echo.stderr).text()]);
  assert.equal([...outputs, (await echo.wait()).exitCode], ["out\n", "err\n", 4]);
  const stubborn = await own.spawn({ command: "trap '' TERM; echo begun; while :; do sleep 1; done" });
  await stubborn.stdout.getReader().read();
  await stubborn.kill();
  assert.is((await stubborn.wait()).exitCode, 137);
  const end = new AbortController();
  const aborted = await own.spawn({ command: "echo begun; exec sleep 1000", abortSignal: end.signal });
  await aborted.stdout.getReader().read();
  end.abort(new Error("enough"));
  assert.is(((await errorOf(Promise.resolve(aborted.wait()))) as Error).message, "enough");

  await own.writeTextFile({ path: "index.html", content: "served" });
  assert.is(await textOf((await session.getPortEndpoint({ port: 8080, protocol: "http" })).url), "served");
  const refused = Promise.resolve(session.setNetworkPolicy?.({ mode: "deny-all" }));
  assert.match(((await errorOf(refused)) as Error).message, "Cannot set the network policy");

  await session.stop();
  await session.stop();
  const again = await provider.resumeSession?.({ sessionId: "chat / 1" });
  assert.is(again?.id, session.id);
  assert.is(await again?.readTextFile({ path: "notes/a.txt" }), "one\ntwo\nthree");
  await again?.destroy();
  await again?.destroy();
  assert.equal(await createClient({ url: stack.url }).snapshots.list({ tenant: session.id.split(":")[0] }), []);
});

test.run();
