// @limit 1800
// Commands, terminals and files of a sandbox by E2B's own SDKs, in real containers.
import { createHash, randomInt } from "node:crypto";
import { join } from "node:path";
import {
  AuthenticationError,
  CommandExitError,
  FileNotFoundError,
  InvalidArgumentError,
  Sandbox,
  SandboxNotFoundError,
  TimeoutError,
} from "e2b";
import * as assert from "uvu/assert";
import type { WorkloadSpec } from "../../../crds/workload.ts";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";
import { KEY, type RestEdge, startRestEdge } from "../../cluster/rest/rest-edge.ts";
import { methodRows } from "../../e2b-methods.ts";
import { eventually } from "../../eventually.ts";
import { lifeSuite } from "../snapshots/life-suite.ts";
import { createCalledMethods } from "./called-methods.ts";
import { startFakeModel } from "./fake-model.ts";
import { pythonSdk } from "./python-sdk.ts";

const idle = "trap 'exit 0' TERM; while :; do sleep 1000 & wait; done";
const spec: Partial<WorkloadSpec> = {
  entrypoint: { cmd: "/bin/busybox", args: ["sh", "-c", idle], env: { OWN: "of the workload" } },
  resources: { vcpus: 1, memoryMb: 128, diskGb: 1 },
  filesystem: { overlayDirs: ["/data"], checkpointSeconds: 0 },
};
/** Longer than any test waits. */
const LIMIT_MS = 180_000;
const HOUR_MS = 3_600_000;
const LONG = { timeoutMs: LIMIT_MS, requestTimeoutMs: LIMIT_MS };

/** One holds the connection to the pod, and a second one serves every other call. */
let edges: RestEdge[];
const called = createCalledMethods();
let sandbox: Sandbox;
/** The same by the other edge. */
let other: Sandbox;

const test = lifeSuite("envd by E2B's SDKs", {
  name: "e2b-envd",
  async prepare(life) {
    const environment = { KUBECONFIG: life.cluster.kubeconfigPath };
    const started = Promise.all([startRestEdge("bun", environment), startRestEdge("bun", environment)]);
    await life.createWorkload("code", spec);
    await life.createWorkload("base", spec);
    await life.createPool("base", "base", 1);
    const [first, second] = await started;
    edges = [first, second];
    sandbox = await Sandbox.create("code", { ...connection(first), timeoutMs: HOUR_MS });
    other = await Sandbox.connect(sandbox.sandboxId, { ...connection(second), timeoutMs: HOUR_MS });
    called.follow("Commands", sandbox.commands);
    called.follow("Pty", sandbox.pty);
    called.follow("Filesystem", sandbox.files);
  },
});
test.after(async () => {
  await Promise.all(edges?.map((edge) => edge.stop()) ?? []);
});

/** What a user of the SDK sets. */
function connection({ process: { url } }: RestEdge) {
  return { apiKey: KEY, apiUrl: `${url}/e2b`, sandboxUrl: url, requestTimeoutMs: LIMIT_MS };
}

/** The same as variables. */
function environmentOf({ process: { url } }: RestEdge) {
  return { E2B_API_KEY: KEY, E2B_API_URL: `${url}/e2b`, E2B_SANDBOX_URL: url };
}

async function failure(promise: Promise<unknown>): Promise<Error> {
  let failed: Error | undefined;
  await promise.catch((error: Error) => {
    failed = error;
  });
  assert.ok(failed, "it did not fail");
  return failed as Error;
}

test("commands.run: outputs, exit code, variables, folder and user, by the image's shell", async () => {
  const envs = { A: "ü" };
  const { stdout, stderr, exitCode } = await sandbox.commands.run('echo "$A $OWN"; pwd; echo problem >&2', {
    ...{ envs, cwd: "/tmp" },
    ...LONG,
  });
  assert.equal([stdout, stderr, exitCode], ["ü of the workload\n/tmp\n", "problem\n", 0]);
  const failed = (await failure(sandbox.commands.run("echo out; exit 7", LONG))) as CommandExitError;
  assert.instance(failed, CommandExitError);
  assert.equal([failed.exitCode, failed.stdout, failed.error], [7, "out\n", "exit status 7"]);
  const pieces: string[] = [];
  await sandbox.commands.run("for i in 1 2 3; do echo $i; done", {
    onStdout: (text) => void pieces.push(text),
    ...LONG,
  });
  assert.is(pieces.join(""), "1\n2\n3\n");
  const name = (await sandbox.commands.run("id -un || id -u", LONG)).stdout.trim();
  assert.is((await sandbox.commands.run("true", { user: "user", ...LONG })).exitCode, 0);
  const refused = await failure(sandbox.commands.run("true", { user: name === "root" ? "nobody" : "root", ...LONG }));
  assert.instance(refused, InvalidArgumentError);
});

test("a command in the background takes input, is listed, found by another replica, and killed", async () => {
  const script = "echo begun; read a; echo got $a; cat; sleep 1000";
  const command = await sandbox.commands.run(script, { background: true, stdin: true, timeoutMs: 0 });
  called.follow("CommandHandle", command);
  await command.disconnect();
  const found = (await other.commands.list()).find(({ pid }) => pid === command.pid);
  assert.equal([found?.cmd, found?.args.at(-1)], ["/bin/bash", script]);
  const connected = await other.commands.connect(command.pid, { timeoutMs: 0 });
  await other.commands.sendStdin(command.pid, "hello\n");
  await sandbox.commands.sendStdin(command.pid, "the rest");
  await connected.closeStdin();
  await eventually(() => connected.stdout === "begun\ngot hello\nthe rest");
  assert.is(await sandbox.commands.kill(command.pid), true);
  const ended = (await failure(connected.wait())) as CommandExitError;
  assert.equal([ended.exitCode, ended.error], [-1, "signal: killed"]);
  assert.is(await sandbox.commands.kill(command.pid), false);
  assert.not((await sandbox.commands.list()).some(({ pid }) => pid === command.pid));
  const reader = await sandbox.commands.run("cat", { background: true, stdin: true, timeoutMs: 0 });
  await reader.sendStdin("all");
  await other.commands.closeStdin(reader.pid);
  assert.is((await reader.wait()).stdout, "all");
  const sleeper = await sandbox.commands.run("sleep 1000", { background: true, timeoutMs: 0 });
  assert.is(await sleeper.kill(), true);
  await failure(sleeper.wait());
});

test("a time limit ends the command, and not only its stream", async () => {
  const failed = await failure(sandbox.commands.run("sleep 1000", { timeoutMs: 1000 }));
  assert.instance(failed, TimeoutError);
  await eventually(async () => (await sandbox.commands.list()).length === 0);
});

test("pty: input, size, exit code, kill", async () => {
  let output = "";
  const onData = (data: Uint8Array) => {
    output += Buffer.from(data).toString();
  };
  const terminal = await sandbox.pty.create({ cols: 90, rows: 20, onData, timeoutMs: 0 });
  const type = (text: string) => sandbox.pty.sendInput(terminal.pid, Buffer.from(text));
  await type("stty size\n");
  await eventually(() => output.includes("20 90\r\n"));
  await sandbox.pty.resize(terminal.pid, { cols: 100, rows: 30 });
  await type("stty size; exit 4\n");
  assert.is(((await failure(terminal.wait())) as CommandExitError).exitCode, 4);
  assert.match(output, "30 100\r\n");
  const second = await sandbox.pty.create({ cols: 80, rows: 24, onData, timeoutMs: 0 });
  let seen = "";
  const again = await other.pty.connect(second.pid, {
    onData: (data) => {
      seen += Buffer.from(data).toString();
    },
    timeoutMs: 0,
  });
  await other.pty.sendInput(second.pid, Buffer.from("echo see$((1 + 1))\n"));
  await eventually(() => seen.includes("see2\r\n"));
  await again.disconnect();
  assert.is(await other.pty.kill(second.pid), true);
  assert.is(((await failure(second.wait())) as CommandExitError).exitCode, -1);
});

test("files: written, read as text, bytes and stream, listed, renamed, removed", async () => {
  const { files } = sandbox;
  assert.equal(await files.write("/data/new/ü.txt", "hello"), {
    name: "ü.txt",
    type: "file",
    path: "/data/new/ü.txt",
    metadata: undefined,
  });
  assert.is(await files.read("/data/new/ü.txt"), "hello");
  const bytes = Buffer.alloc(3_000_000, "0123456789");
  await files.write("/data/large", new Blob([bytes]));
  assert.ok(bytes.equals(await files.read("/data/large", { format: "bytes" })));
  await files.write("/data/streamed", new Blob([bytes]).stream());
  await files.write("/data/packed", bytes.toString(), { gzip: true });
  const sizes = [];
  for (const name of ["streamed", "packed"]) {
    let size = 0;
    for await (const piece of await files.read(`/data/${name}`, { format: "stream" })) size += piece.length;
    sizes.push(size);
  }
  assert.equal(sizes, [bytes.length, bytes.length]);
  await files.write([
    { path: "/data/a/1", data: "1" },
    { path: "/data/a/2", data: "" },
  ]);
  assert.is(await files.read("/data/a/2"), "");
  await files.writeFiles([{ path: "/data/a/1", data: "one" }]);
  assert.is(await files.read("/data/a/1"), "one");
  const listed = await files.list("/data", { depth: 2 });
  assert.equal(
    listed.map(({ path }) => path),
    [
      "/data/a",
      "/data/a/1",
      "/data/a/2",
      "/data/large",
      "/data/new",
      "/data/new/ü.txt",
      "/data/packed",
      "/data/streamed",
    ],
  );
  await sandbox.commands.run("ln -s large /data/link; chmod 640 /data/large", LONG);
  const info = await files.getInfo("/data/link");
  assert.equal([info.type, info.symlinkTarget, info.mode], ["file", "/data/large", 0o640]);
  assert.is(await files.exists("/data/none"), false);
  assert.instance(await failure(files.read("/data/none")), FileNotFoundError);
  assert.instance(await failure(files.list("/data/large")), InvalidArgumentError);
  assert.is((await files.rename("/data/a", "/data/b/c")).path, "/data/b/c");
  assert.is(await files.exists("/data/a"), false);
  assert.equal([await files.makeDir("/data/d/e"), await files.makeDir("/data/d/e")], [true, false]);
  await files.remove("/data/b");
  assert.is(await files.exists("/data/b/c/1"), false);
});

test("relative paths begin where commands do", async () => {
  await sandbox.files.write("relative/file", "from here");
  assert.is((await sandbox.commands.run("cat relative/file", LONG)).stdout, "from here");
  const home = (await sandbox.commands.run("pwd", LONG)).stdout.trim();
  assert.is((await sandbox.files.getInfo("relative/file")).path, join(home, "relative/file"));
  await sandbox.files.remove("relative");
});

test("files.watchDir tells what changes, until it is stopped", async () => {
  await sandbox.files.makeDir("/data/watched");
  const seen: string[] = [];
  let exits = 0;
  const watch = await sandbox.files.watchDir("/data/watched", ({ type, name }) => void seen.push(`${type} ${name}`), {
    ...{ recursive: true, timeoutMs: 0 },
    onExit: () => {
      exits += 1;
    },
  });
  called.follow("WatchHandle", watch);
  await sandbox.files.makeDir("/data/watched/in");
  await eventually(() => seen.includes("create in"));
  await sandbox.commands.run("echo 1 > /data/watched/in/new", LONG);
  await eventually(() => seen.includes("create in/new") && seen.includes("write in/new"));
  await sandbox.files.remove("/data/watched/in/new");
  await eventually(() => seen.includes("remove in/new"));
  await watch.stop();
  await eventually(() => exits === 1);
});

test("signed addresses of files", async () => {
  const headers = { "e2b-sandbox-id": sandbox.sandboxId };
  const form = new FormData();
  form.append("file", new Blob(["by address"]), "x");
  const to = await sandbox.uploadUrl("/data/signed", { useSignatureExpiration: 3600 });
  assert.is((await fetch(to, { method: "POST", body: form, headers })).status, 200);
  const from = await sandbox.downloadUrl("/data/signed");
  assert.is(await (await fetch(from, { headers })).text(), "by address");
  assert.is((await fetch(from.replace("signed", "large"), { headers })).status, 401);
});

test("a sandbox that is not running, and a token of another one", async () => {
  const [edge] = edges as [RestEdge];
  const ended = await Sandbox.create("code", { ...connection(edge), timeoutMs: HOUR_MS });
  assert.equal([await sandbox.isRunning(), await ended.isRunning()], [true, true]);
  const { envdAccessToken } = ended as unknown as { envdAccessToken: string };
  const strange = { sandboxId: sandbox.sandboxId, envdVersion: "0.6.1", envdAccessToken };
  const refused = new Sandbox({ ...strange, ...connection(edge) });
  assert.instance(await failure(refused.files.list("/")), AuthenticationError);
  assert.is(await ended.kill(), true);
  assert.is(await ended.isRunning(), false);
  assert.instance(await failure(ended.commands.run("true")), SandboxNotFoundError);
  assert.instance(await failure(ended.files.read("/x")), TimeoutError);
});

test("each method that docs/reference/e2b.md says works was called", () => {
  called.assertAllCalled("Commands", "CommandHandle", "Pty", "Filesystem", "WatchHandle");
});

test("the SDK for Python has the methods of the page, and those that the page adds", async () => {
  const script = join(import.meta.dirname, "python", "methods.py");
  const printed = await runCommand(await pythonSdk(), [script], { limitMs: LIMIT_MS });
  const classes = Object.entries(JSON.parse(printed) as Record<string, string[]>);
  const seen = new Set<string>();
  for (const [own, methods] of classes) {
    const name = own.replace(/^Async/, "");
    const { works = [], refused = [] } = methodRows().get(name) ?? {};
    const inPython = (method: string) => method.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    const named = [...works, ...refused].map(inPython);
    const missing = named.filter((method) => !methods.includes(method));
    assert.equal(missing, { Sandbox: ["get_full_info"], Pty: ["send_input"] }[name] ?? [], own);
    for (const method of methods) if (!named.includes(method)) seen.add(`${name}.${method}`);
  }
  const described = /^(Volume|Template|Secret)\.|^Sandbox\.get_mcp_/;
  assert.equal([...seen].filter((method) => !described.test(method)).sort(), [
    "Commands.stream_input",
    "Pty.send_stdin",
    "Pty.stream_input",
    "WatchHandle.get_new_events",
  ]);
});

test("the same by the SDK for Python, synchronous and not", async () => {
  const [edge] = edges as [RestEdge];
  const program = await pythonSdk();
  for (const name of ["sync.py", "async.py"]) {
    const script = join(import.meta.dirname, "python", name);
    const environment = environmentOf(edge);
    const output = await runCommand(program, [script, sandbox.sandboxId], { environment, limitMs: LIMIT_MS });
    assert.match(output, /^done$/m);
  }
});

const programs = join(import.meta.dirname, "../../../node_modules/.bin");
for (const [name, program, ...words] of [
  ["node", process.execPath, "--import", "tsx"],
  ["bun", join(programs, "bun")],
  ["deno", join(programs, "deno"), "run", "-A", "--quiet"],
] as const) {
  test(`the agent with a shell, as it is, on ${name}: what it answers comes from its sandbox`, async ({ life }) => {
    await life.untilPool("base", 1);
    const numbers = Array.from({ length: 100 }, () => randomInt(2 ** 32));
    const content = `${numbers.join("\n")}\n`;
    const command = "sort -n numbers.txt | tail -n 1 > largest.txt; sha256sum numbers.txt; exit 3";
    const model = await startFakeModel((results) => {
      const [, printed, largest, missing] = results;
      switch (results.length) {
        case 0:
          return { tool: "write_file", input: { path: "numbers.txt", content } };
        case 1:
          return { tool: "run_command", input: { command } };
        case 2:
          return { tool: "read_file", input: { path: "largest.txt" } };
        case 3:
          return { tool: "read_file", input: { path: "missing.txt" } };
        default:
          return { text: `answer: ${printed} ${largest?.trim()} ${missing}` };
      }
    });
    const [edge] = edges as [RestEdge];
    try {
      const environment = { ...environmentOf(edge), ...model.environment };
      const agent = join(import.meta.dirname, "agents/shell-agent.ts");
      const output = await runCommand(program, [...words, agent], { environment, limitMs: LIMIT_MS });
      const hash = createHash("sha256").update(content).digest("hex");
      assert.match(
        output,
        new RegExp(`^answer: {"exitCode":3,"stdout":"${hash} .*} ${Math.max(...numbers)} .*missing.txt`, "m"),
      );
    } finally {
      await model.close();
    }
    const left = await Sandbox.list({ ...connection(edge), query: { state: ["running"] } }).nextItems();
    assert.equal(
      left.map(({ templateId }) => templateId),
      ["code"],
    );
  });
}

test.run();
