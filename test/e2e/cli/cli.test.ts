// The command line as its users install it, against real containers.
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, readlinkSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { buildCliPackage } from "../../../scripts/cli/build-package.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { type Stack, startStack } from "../claims/stack.ts";
import { clusterOfFile } from "../cluster-of-file.ts";

const LIMIT_MS = 120_000;
const root = join(import.meta.dirname, "../../..");
const test = suite("tenancy as installed");
let stack: Stack;
/** Empty but for the package. */
let folder: string;
let program: string;

test.before(async () => {
  folder = mkdtempSync(join(tmpdir(), "tenancy-cli-"));
  const built = join(folder, "built");
  await buildCliPackage(root, built);
  await promisify(execFile)("npm", ["pack", "--pack-destination", folder], { cwd: built });
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
  const words = ["install", "--offline", "--no-audit", "--no-fund", `./tenancy-cli-${version}.tgz`];
  await promisify(execFile)("npm", words, { cwd: folder });
  program = join(folder, "node_modules/.bin/tenancy");
  stack = await startStack(clusterOfFile("e2e-cli"));
  const script = "n=0; while sleep 1; do n=$((n+1)); echo line $n; done";
  const manifest = {
    ...{ apiVersion: "tenancy.dev/v1alpha1", kind: "TenancyWorkload", metadata: { name: "desk" } },
    spec: {
      image: { ref: "localhost/tenancy-busybox:1" },
      filesystem: { overlayDirs: ["/data"] },
      entrypoint: { cmd: "/bin/busybox", args: ["sh", "-c", script], start: "OnClaim" },
    },
  };
  assert.is((await run(["apply", "-f", "-"], { stdin: JSON.stringify(manifest) })).code, 0);
});
test.after(async () => {
  await stack?.interrupt().catch(() => undefined);
  rmSync(folder, { recursive: true, force: true });
});

const runtimes = { node: [], bun: ["bun"] } as const;
type Runtime = keyof typeof runtimes;
interface Run {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

function start(words: readonly string[], runtime: Runtime = "node"): ChildProcess {
  const [file = "", ...before] = [...runtimes[runtime], program];
  const env = { ...process.env, TENANCY_URL: stack.url, HOME: folder };
  return spawn(file, [...before, ...words], { cwd: folder, env });
}

async function endOf(child: ChildProcess, stdin?: string): Promise<Run> {
  const output = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) child[name]?.on("data", (piece) => (output[name] += piece));
  child.stdin?.on("error", () => undefined).end(stdin);
  const code = await new Promise<number | null>((resolve) => child.once("close", resolve));
  return { code, ...output };
}

const run = (words: readonly string[], { runtime, stdin }: { runtime?: Runtime; stdin?: string } = {}) =>
  endOf(start(words, runtime), stdin);

async function done(words: readonly string[], options?: Parameters<typeof run>[1]): Promise<string> {
  const { code, stdout, stderr } = await run(words, options);
  assert.is(code, 0, `${words.join(" ")}: ${stdout}${stderr}`);
  return stdout;
}

test("claim waits for the instance, and ls shows it", async () => {
  assert.is(await done(["claim", "ann", "desk", "--env", "GREETING=hi", "-o", "name"]), "ann/desk\n");
  assert.match(await done(["ls", "ann"]), /\nann +desk +Active +inst-ann-desk-\w+ /);
});

for (const runtime of ["node", "bun"] as const) {
  test(`exec on ${runtime}: exit code, input, and a terminal of its size`, async () => {
    const { code, stdout, stderr } = await run(
      ["exec", "ann/desk", "--", "sh", "-c", "echo out; echo err >&2; exit 3"],
      {
        runtime,
      },
    );
    assert.equal([code, stdout, stderr], [3, "out\n", "err\n"]);
    const stdin = "x".repeat(6_000_000);
    assert.is(await done(["exec", "-i", "ann/desk", "--", "wc", "-c"], { runtime, stdin }), "6000000\n");
    const command = `stty cols 91 rows 31; ${[...runtimes[runtime], program].join(" ")} exec -it ann/desk -- sh`;
    const env = { ...process.env, TENANCY_URL: stack.url, HOME: folder };
    const terminal = spawn("script", ["-qec", command, "/dev/null"], { cwd: folder, env });
    let shown = "";
    terminal.stdout.on("data", (piece) => (shown += piece));
    const until = (text: string) =>
      waitUntil(async () => shown.includes(text), {
        what: `${text} in a terminal`,
        limitMs: LIMIT_MS,
        explain: () => shown,
      });
    const ended = new Promise((resolve) => terminal.once("close", resolve));
    await until("# ");
    terminal.stdin.write("stty size; sleep 1000\n");
    await until("31 91");
    terminal.stdin.write("\u0003echo $((40 + 2)) after; exit 7\n");
    await until("42 after");
    assert.is(await ended, 7, shown);
  });
}

test("exec: Ctrl-C reaches the program in the container, and nothing is left of it", async () => {
  const script = "trap 'echo trapped; exit 9' INT; echo ready; while :; do sleep 0.2; done";
  const child = start(["exec", "ann/desk", "--", "sh", "-c", script]);
  child.stdout?.once("data", () => child.kill("SIGINT"));
  const { code, stdout } = await endOf(child);
  assert.equal([code, stdout], [130, "ready\ntrapped\n"]);
  const lost = start(["exec", "ann/desk", "--", "sleep", "7413"]);
  const processes = async () => await done(["exec", "ann/desk", "--", "ps"]);
  await waitUntil(async () => (await processes()).includes("sleep 7413"), { what: "sleep 7413", limitMs: LIMIT_MS });
  lost.kill("SIGKILL");
  await waitUntil(async () => !(await processes()).includes("sleep 7413"), {
    ...{ what: "the end of a command whose caller was killed", limitMs: LIMIT_MS },
  });
});

test("logs -f passes lines on as they are written", async () => {
  const child = start(["logs", "-f", "--tail", "1", "ann/desk"]);
  let text = "";
  child.stdout?.on("data", (piece) => {
    text += piece;
    if (text.split("\n").length > 3) child.kill("SIGINT");
  });
  assert.is((await endOf(child)).code, 130);
  assert.match(text, /^line (\d+)\nline \d+\nline \d+\n/);
});

test("cp: a folder goes both ways", async () => {
  const project = join(folder, "project");
  mkdirSync(join(project, "sub"), { recursive: true });
  writeFileSync(join(project, "sub/large"), Buffer.alloc(5_000_000, "ab"));
  symlinkSync("sub/large", join(project, "link"));
  await done(["cp", "project", "ann/desk:/data/project"]);
  await done(["cp", "ann/desk:/data/project", "back"], { runtime: "bun" });
  assert.ok(readFileSync(join(folder, "back/sub/large")).equals(Buffer.alloc(5_000_000, "ab")));
  assert.is(readlinkSync(join(folder, "back/link")), "sub/large");
  assert.match(
    await done(["files", "ls", "ann/desk", "/data", "--depth", "3", "-o", "name"]),
    "/data/project/sub/large\n",
  );
});

test("files are watched while they are written", async () => {
  const child = start(["files", "watch", "ann/desk", "/data", "-o", "json"]);
  let text = "";
  child.stdout?.on("data", (piece) => (text += piece));
  const ended = endOf(child);
  const started = () => child.exitCode !== null || text.includes("watching");
  await waitUntil(async () => started(), { what: "the watch", limitMs: LIMIT_MS });
  assert.is(child.exitCode, null, text);
  await done(["files", "put", "ann/desk", "/data/notes"], { stdin: "first" });
  await waitUntil(async () => text.includes('"path":"data/notes"'), { what: "the file", limitMs: LIMIT_MS });
  child.kill("SIGINT");
  assert.is((await ended).code, 130);
});

test("snapshots: a named version comes back", async () => {
  await done(["checkpoint", "ann/desk", "--name", "first"]);
  await done(["files", "put", "ann/desk", "/data/notes"], { stdin: "second" });
  assert.match(await done(["release", "ann/desk"]), /^ann\/desk +released +saved$/m);
  assert.match(await done(["snapshots", "diff", "ann/desk", "--from", "first"]), /^changed .* data\/notes$/m);
  await done(["snapshots", "rollback", "ann/desk", "first"]);
  await done(["claim", "ann/desk", "--resume"]);
  assert.is(await done(["files", "cat", "ann/desk", "/data/notes"]), "first");
});

test("after a release there is nothing to work in", async () => {
  await done(["release", "ann/desk"]);
  const { code, stderr } = await run(["exec", "ann/desk", "--", "true"]);
  assert.is(code, 3);
  assert.is(stderr, 'tenancy: tenant "ann" has no claim on workload "desk"\n');
});

test.run();
