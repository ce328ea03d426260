// Processes and files of an instance by the REST API, in real containers.
import { createHash, randomBytes } from "node:crypto";
import {
  closeSync,
  linkSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from "node:fs";
import { request } from "node:http";
import { setImmediate } from "node:timers/promises";
import * as assert from "uvu/assert";
import type { Claim } from "../../../crds/claim.ts";
import { pods } from "../../../crds/client/built-in-resources.ts";
import { claims } from "../../../crds/kinds.ts";
import { label } from "../../../crds/labels.ts";
import type { WorkloadSpec } from "../../../crds/workload.ts";
import { readIfThere } from "../../../scripts/cluster/process/read-if-there.ts";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { KEY, type RestEdge, startRestEdge } from "../../cluster/rest/rest-edge.ts";
import { patiently } from "../claims/patiently.ts";
import { podProcesses } from "../pod-processes.ts";
import { lifeSuite } from "../snapshots/life-suite.ts";
import { type Lifecycle, NAMESPACE } from "../snapshots/lifecycle.ts";

const LIMIT_MS = 180_000;
const ALL = "/api/v1/instances/{id}";
const TOKEN = `of ann '"$(exit 3)\nü`;
/** Of memory that a list of a folder may take in the pod, whatever the folder's size. */
const LIST_BYTES = 12 * 2 ** 20;

const idle = "trap 'exit 0' TERM; while :; do sleep 1000 & wait; done";
const resources = { vcpus: 1, memoryMb: 128, diskGb: 1 };
const spec: Partial<WorkloadSpec> = {
  entrypoint: {
    ...{ cmd: "/bin/busybox", args: ["sh", "-c", idle], start: "OnClaim" },
    env: { OWN: "of the workload", TENANT: "nobody" },
  },
  resources,
  filesystem: {
    overlayDirs: ["/data"],
    checkpointSeconds: 0,
    // A release is held up while that file is there.
    preSave: { command: ["/bin/sh", "-c", "while [ -e /tmp/hold ]; do sleep 0.1; done"], timeoutSeconds: 120 },
  },
};

interface Process {
  pid: number;
  state: string;
  command: string[];
  cwd: string;
  background: boolean;
  exitCode?: number;
  signal?: string;
  timedOut?: boolean;
  stdoutBytes: number;
  stdout?: string;
  stderr?: string;
}
interface Event {
  type: string;
  offset?: number;
  text?: string;
  process?: Process;
}
interface Entry {
  path: string;
  encodedPath?: string;
  type: string;
  sizeBytes: number;
  mode: string;
  uid: number;
  target?: string;
  etag?: string;
}

/** One holds the connection to the pod, and is killed on the way; the other one goes on. */
let first: RestEdge;
let edge: RestEdge;
/** Tenant ann's. */
let instance: string;
/** Of tenant bob, whose session ends by itself. */
let background: Claim;
/** Long enough for a busy machine to start a process. */
const IDLE_S = 10;

const test = lifeSuite("processes and files of an instance", {
  name: "inside",
  async prepare(life) {
    const environment = { KUBECONFIG: life.cluster.kubeconfigPath };
    const refuses = { exec: { command: ["/bin/sh", "-c", "[ -e /tmp/passes ]"] }, timeoutSeconds: 5 };
    [first, edge] = await Promise.all([
      startRestEdge("bun", environment),
      startRestEdge("bun", environment),
      life.createWorkload("inside", spec).then(() => life.createPool("inside", "inside", 1)),
      life.createWorkload("refuses", {
        resources,
        entrypoint: { cmd: "/bin/busybox", args: ["sh", "-c", idle], onClaim: refuses },
      }),
      life.createWorkload("works-on", {
        ...spec,
        idle: { timeoutSeconds: IDLE_S, countBackgroundProcesses: true },
        filesystem: { overlayDirs: ["/data"], checkpointSeconds: 0 },
      }),
    ]);
    background = await life.claim("bob", "works-on", true);
    const body = { command: ["sh", "-c", `sleep ${2 * IDLE_S}; echo done > /data/end`], background: true };
    const path = `/api/v1/instances/${background.status?.instanceId}/processes`;
    const { status, text } = await edge.call(`POST ${ALL}/processes`, { path, body });
    assert.is(status, 200, text);
    instance = await claim({ env: { TENANT: "ann" }, secrets: { TOKEN } });
  },
});

async function claim(more: object): Promise<string> {
  const path = "/api/v1/tenants/ann/claim";
  const body = { workload: "inside", resume: true, ...more };
  const answer = await patiently(() => edge.call("POST /api/v1/tenants/{id}/claim", { path, body }));
  assert.is(answer.status, 201, answer.text);
  return (answer.json as { instanceId: string }).instanceId;
}

/** Calls a route below that of the instance. `{pid}` and `{path}` are those of `rest`. */
async function call(route: string, rest: string, { body, via = edge }: { body?: unknown; via?: RestEdge } = {}) {
  const [method, pattern = ""] = route.split(" ");
  const path = `/api/v1/instances/${instance}${rest}`;
  return await via.call(`${method} ${ALL}${pattern}`, { path, body });
}

async function start(body: object, via = edge): Promise<Process> {
  const { status, text, json } = await call("POST /processes", "/processes", { body, via });
  assert.is(status, 200, text);
  return json as Process;
}

/** Longer than any test waits. */
const timeoutSeconds = 3600;

const run = (script: string) => start({ command: ["sh", "-c", script], timeoutSeconds });

/** The output of a script that succeeds. */
async function outputOf(script: string): Promise<string> {
  const { stdout, stderr, exitCode } = await run(script);
  assert.is(exitCode, 0, `${script}: ${stderr}`);
  return stdout ?? "";
}

async function processes(): Promise<Process[]> {
  const { status, text, json } = await call("GET /processes", "/processes");
  assert.is(status, 200, text);
  return json as Process[];
}

async function processOf(pid: number, query = ""): Promise<Process> {
  const { status, text, json } = await call("GET /processes/{pid}", `/processes/${pid}${query}`);
  assert.is(status, 200, text);
  return json as Process;
}

async function untilEnded(pid: number): Promise<Process> {
  return await waitUntil(
    async () => {
      const found = await processOf(pid);
      return found.state === "ended" && found;
    },
    { what: `process ${pid} to end`, limitMs: LIMIT_MS },
  );
}

async function signal(pid: number, name: string): Promise<void> {
  const { status, text } = await call("POST /processes/{pid}/signal", `/processes/${pid}/signal`, {
    body: { signal: name },
  });
  assert.is(status, 200, text);
}

/** Starts a process and follows it. */
async function follow(script: string, { accept, gone }: { accept?: string; gone?: AbortSignal } = {}) {
  const response = await fetch(`${edge.process.url}/api/v1/instances/${instance}/processes?follow=true`, {
    method: "POST",
    headers: { authorization: `Bearer ${KEY}`, "content-type": "application/json", ...(accept && { accept }) },
    body: JSON.stringify({ command: ["sh", "-c", script], timeoutSeconds }),
    ...(gone && { signal: gone }),
  });
  assert.is(response.status, 200, response.statusText);
  return { type: response.headers.get("content-type"), events: eventsOf(response) };
}

/** The events of a stream, as they come. */
async function* eventsOf({ body, headers }: Response): AsyncGenerator<Event, undefined> {
  const isSse = headers.get("content-type") === "text/event-stream";
  const end = isSse ? "\n\n" : "\n";
  let text = "";
  const decoder = new TextDecoder();
  for await (const piece of body ?? []) {
    text += decoder.decode(piece, { stream: true });
    for (let at = text.indexOf(end); at >= 0; at = text.indexOf(end)) {
      const event = text.slice(0, at);
      text = text.slice(at + end.length);
      if (event === ":") continue;
      const [, name, json = event] = isSse ? (/^event: (\w+)\ndata: (.*)$/.exec(event) ?? []) : [];
      const found = JSON.parse(json) as Event;
      if (isSse) assert.is(found.type, name);
      yield found;
    }
  }
  assert.is(text, "");
  return undefined;
}

async function next(events: AsyncGenerator<Event, undefined>): Promise<Event> {
  const { value } = await events.next();
  assert.ok(value, "the stream has ended");
  return value as Event;
}

/** Requests a file, with bytes that need not be JSON. */
async function file(method: string, path: string, init: { body?: Uint8Array | string; headers?: object } = {}) {
  const response = await fetch(`${edge.process.url}/api/v1/instances/${instance}/files/${path}`, {
    method,
    headers: { authorization: `Bearer ${KEY}`, ...init.headers },
    ...(init.body !== undefined && { body: init.body }),
  });
  const bytes = Buffer.from(await response.arrayBuffer());
  return { status: response.status, headers: response.headers, bytes, text: bytes.toString("utf8") };
}

async function put(path: string, body: Uint8Array | string, query = ""): Promise<Entry> {
  const { status, text } = await file("PUT", `${path}${query}`, { body });
  assert.is(status, 200, text);
  return JSON.parse(text);
}

async function content(path: string): Promise<string> {
  const { status, text } = await file("GET", path);
  assert.is(status, 200, text);
  return text;
}

async function change(path: string, query: string): Promise<Entry> {
  const { status, text, json } = await call("POST /files/{path}", `/files/${path}?${query}`);
  assert.is(status, 200, text);
  return json as Entry;
}

/** A page of a list, and where the next one begins. */
async function page(query: string): Promise<{ entries: Entry[]; next: string | undefined }> {
  const response = await fetch(`${edge.process.url}/api/v1/instances/${instance}/files?${query}`, {
    headers: { authorization: `Bearer ${KEY}` },
  });
  const text = await response.text();
  assert.is(response.status, 200, text);
  return { entries: JSON.parse(text), next: response.headers.get("x-tenancy-next") ?? undefined };
}

async function paths(query: string): Promise<string[]> {
  return (await page(query)).entries.map(({ path }) => path);
}

/** For a shell: waits until a process is gone. */
const untilGone = (pid: number | string) =>
  `until [ ! -d /proc/${pid} ] || grep -q '^State:.[ZX]' /proc/${pid}/status 2> /dev/null; do usleep 20000; done`;

/** A process of the instance's container as this machine has it. */
async function processOnHost({ client }: Lifecycle, words: string): Promise<number> {
  const { metadata } = await client.get(pods, { namespace: NAMESPACE, name: instance });
  const found = podProcesses(metadata.uid ?? "").find((pid) => readIfThere(`/proc/${pid}/cmdline`)?.includes(words));
  assert.ok(found, `a process with ${words}`);
  return found;
}

test("a process's outputs, exit code, environment, folder and input, as the workload's user", async () => {
  const script = 'echo "$OWN|$TENANT|$TOKEN|$MORE"; pwd; id -u; cat; echo wrong >&2; exit 7';
  const body = { command: ["sh", "-c", script], env: { MORE: "of the call" }, cwd: "/tmp", stdin: "line ü\n" };
  const { stdout, stderr, exitCode, state, cwd } = await start(body);
  assert.equal(
    { stdout, stderr, exitCode, state, cwd },
    {
      stdout: `of the workload|ann|${TOKEN}|of the call\n/tmp\n65532\nline ü\n`,
      ...{ stderr: "wrong\n", exitCode: 7, state: "ended", cwd: "/tmp" },
    },
  );
  assert.is((await start({ command: ["sh", "-c", "echo $TENANT"], env: { TENANT: "other" } })).stdout, "other\n");
  assert.is((await start({ command: ["pwd"], cwd: "proc" })).stdout, "/proc\n", "relative to the container's");
  const { status, text } = await call("POST /processes", "/processes", { body: { command: ["no-such-program"] } });
  assert.is(status, 400, text);
  assert.match(text, "no-such-program");
});

test("output comes while a process runs, as lines of JSON and as server-sent events", async () => {
  for (const accept of ["application/x-ndjson", "text/event-stream"]) {
    const go = `tmp/go-${accept.slice(-6)}`;
    const script = `echo begun; until [ -e /${go} ]; do usleep 20000; done; echo wrong >&2; exit 3`;
    const { type, events } = await follow(script, { accept });
    assert.is(type, accept);
    assert.is((await next(events)).process?.state, "running");
    assert.equal(await next(events), { type: "stdout", offset: 0, text: "begun\n" });
    // The process goes on only now.
    await put(go, "");
    assert.equal(await next(events), { type: "stderr", offset: 0, text: "wrong\n" });
    const { process } = await next(events);
    assert.equal([process?.state, process?.exitCode], ["ended", 3]);
    assert.is((await events.next()).done, true);
  }
});

test("a process in the foreground ends with its caller's connection", async ({ life }) => {
  const gone = new AbortController();
  const { events } = await follow("sleep 1000 & echo $!; wait", { gone: gone.signal });
  const { process } = await next(events);
  const child = (await next(events)).text?.trim() ?? "";
  await life.run(instance, `[ -d /proc/${process?.pid} ] && [ -d /proc/${child} ]`);
  gone.abort();
  await life.run(instance, `for pid in ${process?.pid} ${child}; do ${untilGone("$pid")}; done`);
});

test("a signal reaches the process and its group, and a process that ignores SIGTERM ends by SIGKILL", async () => {
  const group = await start({ command: ["sh", "-c", "sleep 1000 & echo $!; wait"], background: true });
  const child = await waitUntil(async () => (await processOf(group.pid)).stdout?.trim() || undefined, {
    ...{ what: "the child to start", limitMs: LIMIT_MS },
  });
  await signal(group.pid, "SIGTERM");
  const { signal: by, exitCode } = await untilEnded(group.pid);
  assert.equal([by, exitCode], ["SIGTERM", undefined]);
  await outputOf(untilGone(child));

  const ignores = "trap '' TERM; echo ready; while :; do sleep 1000; done";
  const stubborn = await start({ command: ["sh", "-c", ignores], background: true });
  await waitUntil(async () => (await processOf(stubborn.pid)).stdout === "ready\n", {
    ...{ what: "the signal to be ignored", limitMs: LIMIT_MS },
  });
  await signal(stubborn.pid, "TERM");
  assert.is((await processOf(stubborn.pid)).state, "running");
  await signal(stubborn.pid, "KILL");
  assert.is((await untilEnded(stubborn.pid)).signal, "SIGKILL");
  const { status, text } = await call("POST /processes/{pid}/signal", `/processes/${stubborn.pid}/signal`, {
    body: { signal: "KILL" },
  });
  assert.is(status, 409, text);

  const late = await start({ command: ["sh", "-c", ignores], timeoutSeconds: 1 });
  // On a busy machine the time can be up before it ignores the signal.
  assert.equal([late.timedOut, late.signal], [true, late.stdout === "" ? "SIGTERM" : "SIGKILL"]);
});

test("a process in the background outlives its connection and its edge", async () => {
  const script = "echo begun; until [ -e /tmp/end ]; do usleep 20000; done; echo ended; exit 5";
  const { pid, state } = await start({ command: ["sh", "-c", script], background: true }, first);
  assert.is(state, "running");
  await waitUntil(async () => (await processOf(pid)).stdout === "begun\n", { what: "its output", limitMs: LIMIT_MS });
  first.process.child.kill("SIGKILL");
  await first.process.exited;
  const listed = (await processes()).find((one) => one.pid === pid);
  assert.equal([listed?.state, listed?.background, listed?.command], ["running", true, ["sh", "-c", script]]);
  await put("tmp/end", "");
  assert.is((await untilEnded(pid)).exitCode, 5);
  assert.is((await processOf(pid)).stdout, "begun\nended\n");
  assert.is((await processOf(pid, "?stdoutFrom=6")).stdout, "ended\n");
  assert.is((await processOf(pid, "?stdoutFrom=-2")).stdout, "d\n");
});

test("a process that floods its output stops no other call", async () => {
  const gone = new AbortController();
  // Their output is not read.
  const floods = await Promise.all(Array.from({ length: 3 }, () => follow("yes", { gone: gone.signal })));
  const started = await Promise.all(floods.map(({ events }) => next(events)));
  const background = await start({ command: ["yes"], background: true });
  await put("tmp/beside", "written");
  assert.is(await content("tmp/beside"), "written");
  assert.is(await outputOf("echo beside"), "beside\n");
  for (const { process } of started) assert.is((await processOf(process?.pid ?? 0)).state, "running");
  gone.abort();
  await signal(background.pid, "KILL");
  const { stdout, stdoutBytes } = await untilEnded(background.pid);
  assert.is(stdout?.length, Math.min(stdoutBytes, 2 ** 20));
});

test("files are written, read in parts, moved and removed", async () => {
  const bytes = randomBytes(300_000);
  const made = await put("tmp/files/deep/random", bytes, "?mode=0640");
  const { path, type, sizeBytes, mode, uid, etag = "" } = made;
  assert.equal([path, type, sizeBytes, mode, uid], ["tmp/files/deep/random", "file", 300_000, "0640", 65532]);
  const whole = await file("GET", path);
  assert.equal([whole.status, whole.headers.get("etag")], [200, etag]);
  assert.ok(whole.bytes.equals(bytes));
  const head = await file("HEAD", path);
  assert.equal([head.status, head.headers.get("content-length"), head.bytes.length], [200, "300000", 0]);

  const ranges = { "bytes=0-9": [0, 10], "bytes=299990-": [299_990, 300_000], "bytes=-7": [299_993, 300_000] } as const;
  for (const [range, [from, to]] of Object.entries(ranges)) {
    const part = await file("GET", path, { headers: { range } });
    assert.equal([part.status, part.headers.get("content-range")], [206, `bytes ${from}-${to - 1}/300000`]);
    assert.ok(part.bytes.equals(bytes.subarray(from, to)), range);
  }
  assert.is((await file("GET", path, { headers: { range: "bytes=300000-" } })).status, 416);
  const other = await file("GET", path, { headers: { range: "bytes=0-9", "if-range": '"other"' } });
  assert.equal([other.status, other.bytes.length], [200, 300_000]);
  const same = await file("GET", path, { headers: { "if-none-match": etag } });
  assert.equal([same.status, same.bytes.length], [304, 0]);
  const refused = await file("PUT", path, { body: "other", headers: { "if-none-match": "*" } });
  assert.is(refused.status, 409, refused.text);

  const replaced = await put(path, "shorter");
  assert.is(replaced.mode, "0640", "the permissions stay");
  assert.is.not(replaced.etag, etag);
  assert.is(await content(path), "shorter");
  assert.is((await change(path, "mode=0600")).mode, "0600");
  const folder = await change("tmp/files/new/folder", "mkdir=true&mode=0700");
  assert.equal([folder.type, folder.mode], ["directory", "0700"]);
  await change(path, "move=tmp/files/new/folder/moved");
  assert.is((await file("GET", path)).status, 404);
  assert.is(await content("tmp/files/new/folder/moved"), "shorter");
  await put("tmp/files/there", "there");
  const taken = await call("POST /files/{path}", "/files/tmp/files/there?move=tmp/files/new/folder/moved");
  assert.is(taken.status, 409, taken.text);
  await change("tmp/files/there", "move=tmp/files/new/folder/moved&replace=true");
  assert.is(await content("tmp/files/new/folder/moved"), "there");

  await outputOf("ln -s new/folder/moved /tmp/files/link");
  const expected = ["deep", "link", "new", "new/folder", "new/folder/moved"].map((name) => `tmp/files/${name}`);
  assert.equal(await paths("folder=tmp/files&depth=3"), expected);
  const found: string[] = [];
  for (let next: string | undefined = ""; next !== undefined; ) {
    const after = next === "" ? "" : `&after=${encodeURIComponent(next)}`;
    const part = await page(`folder=tmp/files&depth=3&limit=2${after}`);
    assert.ok(part.entries.length <= 2);
    found.push(...part.entries.map((entry) => entry.path));
    next = part.next;
  }
  assert.equal(found, expected);
  const [link] = (await page("folder=tmp/files/link&depth=0")).entries;
  assert.equal([link?.type, link?.target], ["symlink", "new/folder/moved"]);

  const full = await call("DELETE /files/{path}", "/files/tmp/files");
  assert.is(full.status, 409, full.text);
  assert.is((await call("DELETE /files/{path}", "/files/tmp/files?recursive=true")).status, 200);
  assert.is((await file("GET", "tmp/files/there")).status, 404);
});

test("a name that is no UTF-8 is written, listed and read by its bytes", async () => {
  const made = await put("tmp/names/caf%E9", "coffee");
  assert.equal([made.path, made.encodedPath], ["tmp/names/caf\ufffd", "tmp/names/caf%E9"]);
  await put("tmp/names/café", "other");
  const { entries } = await page("folder=tmp/names");
  assert.equal(
    entries.map(({ path, encodedPath }) => [path, encodedPath]),
    [
      ["tmp/names/café", undefined],
      ["tmp/names/caf\ufffd", "tmp/names/caf%E9"],
    ],
  );
  assert.is(await content("tmp/names/caf%E9"), "coffee");
  assert.is(await outputOf("cd /tmp/names; cat \"$(printf 'caf\\351')\""), "coffee");
  const first = await page("folder=tmp/names&limit=1");
  assert.is(first.next, "caf%C3%A9");
  assert.equal(await paths(`folder=tmp/names&after=${encodeURIComponent(first.next ?? "")}`), ["tmp/names/caf\ufffd"]);
});

test("a reader sees the old content during an upload, and after one that is cut off", async () => {
  await put("tmp/upload/file", "old");
  const { hostname, port } = new URL(edge.process.url);
  const upload = request({
    ...{ hostname, port, method: "PUT", path: `/api/v1/instances/${instance}/files/tmp/upload/file` },
    headers: { authorization: `Bearer ${KEY}`, "content-length": 1_000_000 },
  });
  upload.on("error", () => undefined);
  upload.write(Buffer.alloc(500_000));
  const part = "cd /tmp/upload; find . -name '.tenancy-part-*' -size +200k";
  await waitUntil(async () => (await outputOf(part)) !== "", { what: "half of the file", limitMs: LIMIT_MS });
  assert.is(await content("tmp/upload/file"), "old");
  assert.equal(await paths("folder=tmp/upload"), ["tmp/upload/file"]);
  upload.destroy();
  await waitUntil(async () => (await outputOf("ls -A /tmp/upload")) === "file\n", {
    ...{ what: "the part to be removed", limitMs: LIMIT_MS },
  });
  assert.is(await content("tmp/upload/file"), "old");
});

/** Mounts a file system in memory into the container. */
async function mountMemory(life: Lifecycle, path: string, options: string): Promise<void> {
  await outputOf(`mkdir ${path}`);
  const pid = await processOnHost(life, "serve");
  const mount = ["/bin/busybox", "mount", "-t", "tmpfs", "-o", `mode=1777,${options}`, "tmpfs", path];
  await runCommand("nsenter", [`--mount=/proc/${pid}/ns/mnt`, `--root=/proc/${pid}/root`, "--", ...mount]);
}

test("a write to a full disk is a 507 and leaves the file as it was", async ({ life }) => {
  await mountMemory(life, "/tmp/small", "size=64k");
  await put("tmp/small/file", "old");
  const { status, text } = await file("PUT", "tmp/small/file", { body: Buffer.alloc(100_000) });
  assert.is(status, 507, text);
  assert.is(await content("tmp/small/file"), "old");
  assert.is(await outputOf("ls -A /tmp/small"), "file\n");
});

test("an archive that does not fit on the disk is a 507, and leaves the folder as it was", async ({ life }) => {
  await mountMemory(life, "/tmp/little", "size=512k");
  await outputOf("cd /tmp/little; mkdir old; echo old > old/file; mkdir /tmp/packed; cd /tmp/packed; echo new > file");
  await outputOf("cd /tmp/packed; head -c 1000000 /dev/urandom > large");
  const archive = await file("GET", "tmp/packed?archive=tar.gz");
  // Not the folder itself: a part beside what it holds comes and goes, which changes its time.
  const list = "cd /tmp/little; find . -mindepth 1 -exec stat -c '%n %f %Y' {} +";
  const listed = await outputOf(list);
  const { status, text } = await file("PUT", "tmp/little?unpack=true", { body: archive.bytes });
  assert.is(status, 507, text);
  assert.is(await outputOf(list), listed);
  assert.match(await outputOf("df -k /tmp/little"), / 1% /);
});

test("a folder goes into another instance as it is, and busybox's tar unpacks it as the same", async () => {
  const tree = "/tmp/tree";
  await outputOf(
    `mkdir -p ${tree}/deep/er ${tree}/closed/in ${tree}/empty; cd ${tree}; echo run > run; chmod 0755 run
    head -c 2000000 /dev/urandom > deep/er/random; ln -s ../run deep/link; ln -s /nowhere dangling; mkfifo pipe
    for n in $(seq 300); do echo $n > deep/$n; done; long=$(printf 'l%.0s' $(seq 120)); echo long > $long
    echo odd > "$(printf 'caf\\351')"; touch -d '2001-02-03 04:05:06' run deep/er empty
    echo closed > closed/in/file; chmod 0555 closed/in closed`,
  );
  // Links get the time of their making from busybox's tar.
  const list = `find . -mindepth 1 ! -type p ! -type l -exec stat -c '%n|%f|%s|%Y' {} + | sort
    for one in $(find . -type l | sort); do echo $one $(readlink $one); done; find . -type f -exec md5sum {} + | sort`;
  const archive = await file("GET", "tmp/tree?archive=tar.gz");
  assert.equal([archive.status, archive.headers.get("content-type")], [200, "application/gzip"]);

  const other = `${edge.process.url}/api/v1/tenants/eve/instances/inside`;
  const headers = { authorization: `Bearer ${KEY}` };
  const unpacked = await patiently(async () => {
    const response = await fetch(`${other}/files/tmp/tree?unpack=true&wake=true`, {
      method: "PUT",
      headers,
      body: archive.bytes,
    });
    return { status: response.status, text: await response.text() };
  });
  assert.is(unpacked.status, 200, unpacked.text);
  const inOther = async (script: string): Promise<string> => {
    const body = JSON.stringify({ command: ["sh", "-c", script] });
    const response = await fetch(`${other}/processes`, {
      method: "POST",
      headers: { ...headers, "content-type": "application/json" },
      body,
    });
    const { stdout, stderr, exitCode } = (await response.json()) as Process;
    assert.is(exitCode, 0, stderr);
    return stdout ?? "";
  };
  const expected = await outputOf(`cd ${tree}; ${list}`);
  assert.match(expected, /^\.\/closed\/in\|416d\|/m);
  assert.is(await inOther(`cd ${tree}; ${list}`), expected);
  // Once more over itself, with folders that its user may not write.
  await inOther(`cd ${tree}; rm run; echo other > deep/1; echo kept > deep/kept`);
  const refused = await fetch(`${other}/files/tmp/tree?unpack=true`, { method: "PUT", headers, body: archive.bytes });
  assert.is(refused.status, 409);
  assert.match(await refused.text(), /closed: permission denied/);
  await inOther(`cd ${tree}; chmod -R u+w closed`);
  const again = await fetch(`${other}/files/tmp/tree?unpack=true`, { method: "PUT", headers, body: archive.bytes });
  assert.is(again.status, 200, await again.text());
  assert.is(await inOther(`cd ${tree}; cat run deep/1 deep/kept; ls -A /tmp`), "run\n1\nkept\ntree\n");

  // Busybox's tar closes a folder before it fills it, and gives folders the time of their making.
  await outputOf(`cd ${tree}; chmod -R u+w closed; rm -r closed`);
  await put("tmp/tree.tar.gz", (await file("GET", "tmp/tree?archive=tar.gz")).bytes);
  const byTar = await outputOf(`mkdir /tmp/by-tar && cd /tmp/by-tar && tar -xzf ../tree.tar.gz && ${list}`);
  const untimed = (listed: string) => listed.replaceAll(/(\|4\w+\|\d+)\|\d+$/gm, "$1");
  assert.is(untimed(byTar), untimed(await outputOf(`cd ${tree}; ${list}`)));
  await outputOf(`chmod 0 ${tree}/deep/er/random`);
  const denied = await file("GET", "tmp/tree?archive=tar.gz");
  assert.is(denied.status, 409);
  assert.match(denied.text, /tmp\/tree: deep\/er\/random: permission denied/);
  const released = await edge.call("POST /api/v1/tenants/{id}/release", {
    ...{ path: "/api/v1/tenants/eve/release", body: { workload: "inside" } },
  });
  assert.is(released.status, 200, released.text);
});

test("a watch reports what a process in the container does, and ends with its client", async ({ life }) => {
  await outputOf("mkdir -p /tmp/watched");
  const gone = new AbortController();
  const url = `${edge.process.url}/api/v1/instances/${instance}/files?folder=tmp/watched&depth=64&watch=true`;
  const headers = { authorization: `Bearer ${KEY}`, accept: "text/event-stream" };
  const response = await fetch(url, { headers, signal: gone.signal });
  const events = eventsOf(response) as AsyncGenerator<Event & { path?: string; entry?: Entry }, undefined>;
  assert.is((await next(events)).type, "watching");
  await outputOf("mkdir -p /tmp/watched/a/b; echo content > /tmp/watched/a/b/file; mv /tmp/watched/a /tmp/watched/c");
  await outputOf("rm -r /tmp/watched/c; echo last > /tmp/watched/last");
  const known = new Set<string>();
  for (let path: string | undefined; path !== "tmp/watched/last"; ) {
    const { value } = await events.next();
    assert.ok(value);
    path = value.path;
    known.add(`${value.type} ${path}`);
  }
  assert.ok(known.has("created tmp/watched/last"), [...known].join(", "));
  const daemon = await processOnHost(life, "serve");
  const watches = () =>
    readdirSync(`/proc/${daemon}/fd`).filter((fd) => readlinkSync(`/proc/${daemon}/fd/${fd}`).includes("inotify"))
      .length;
  assert.is(watches(), 1);
  gone.abort();
  await waitUntil(() => watches() === 0, { what: "the watch to end", limitMs: LIMIT_MS });
});

test("a folder with 100 000 files is listed in pages, in memory that it does not grow", async ({ life }) => {
  await mountMemory(life, "/tmp/memory", "size=64k,nr_inodes=200000");
  await outputOf("mkdir /tmp/memory/many; : > /tmp/memory/many/000000");
  const pid = await processOnHost(life, "serve");
  const many = `/proc/${pid}/root/tmp/memory/many`;
  // Together the names are 20 MB.
  const long = "n".repeat(190);
  // A link to one file is made in a tenth of the time of a file.
  for (let number = 1; number < 100_000; number += 1)
    linkSync(`${many}/000000`, `${many}/${long}-${String(number).padStart(6, "0")}`);
  const memory = (name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB`, "m").exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) * 1024;
  // Makes the peak what it is now.
  writeFileSync(`/proc/${pid}/clear_refs`, "5");
  const before = memory("VmRSS");
  const list = (after: string) => page(`folder=tmp/memory/many&limit=1000${after}`);
  const numbersOf = ({ entries }: { entries: Entry[] }) => entries.map(({ path }) => Number(path.slice(-6)));
  const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index);
  const first = await list("");
  const second = await list(`&after=${first.next}`);
  const last = await list(`&after=${long}-098998`);
  const end = await list(`&after=${last.next}`);
  assert.equal(numbersOf(first), numbers(0, 999));
  assert.equal(numbersOf(second), numbers(1000, 1999));
  assert.equal(numbersOf(last), numbers(98_999, 99_998));
  assert.equal([numbersOf(end), end.next], [[99_999], undefined]);
  const grown = memory("VmHWM") - before;
  console.log(`note: a list of 100 000 files took ${Math.round(grown / 1024)} KiB in the pod`);
  assert.ok(grown < LIST_BYTES, `${grown} bytes`);
  assert.is((await call("DELETE /files/{path}", "/files/tmp/memory/many?recursive=true")).status, 200);
  assert.is((await file("GET", "tmp/memory/many/000000")).status, 404);
});

test("a recursive delete follows no link that takes a folder's place", async ({ life }) => {
  const race = `/proc/${await processOnHost(life, "serve")}/root/tmp/race`;
  await outputOf("mkdir -p /tmp/race/other; cd /tmp/race/other; touch $(seq 100)");
  let swaps = 0;
  for (let round = 0; round < 10; round += 1) {
    await outputOf(`mkdir -p /tmp/race/${round}/folder; cd /tmp/race/${round}/folder; touch $(seq 300)`);
    const folder = `${race}/${round}/folder`;
    const aside = `${race}/aside-${round}`;
    let isOver = false;
    const path = `/files/tmp/race/${round}?recursive=true`;
    const removed = call("DELETE /files/{path}", path).finally(() => {
      isOver = true;
    });
    while (!isOver) {
      for (let swap = 0; swap < 20; swap += 1) {
        try {
          renameSync(folder, aside);
          symlinkSync("/tmp/race/other", folder);
          swaps += 1;
          unlinkSync(folder);
          renameSync(aside, folder);
        } catch (error) {
          // The other side was first.
          assert.match((error as NodeJS.ErrnoException).code ?? "", /^(ENOENT|EEXIST|ENOTDIR|EISDIR)$/);
        }
      }
      await setImmediate();
    }
    await removed;
    assert.is(readdirSync(`${race}/other`).length, 100);
  }
  console.log(`note: a folder was replaced ${swaps} times while it was removed`);
});

test("nothing is done in a warm pod, and before the claim is Active", async ({ life }) => {
  await life.untilPool("inside", 1);
  const podsOf = async (labelSelector: string) =>
    (await life.client.list(pods, { namespace: NAMESPACE, labelSelector })).items.map(({ metadata }) => metadata.name);
  const [warm] = await podsOf(`${label.workload}=inside,${label.poolStatus}=ready`);
  const pending = await life.createClaim("bob", "refuses", false);
  const pod = await waitUntil(async () => (await podsOf(`${label.tenant}=bob,${label.workload}=refuses`))[0], {
    ...{ what: "the claim's pod", limitMs: LIMIT_MS },
  });
  for (const [name, why] of [
    [warm, /is an unclaimed warm pod/],
    [pod, /its claim .* is Pending/],
  ] as const) {
    const path = `/api/v1/instances/${name}`;
    const body = { command: ["touch", "/tmp/planted"] };
    const started = await edge.call(`POST ${ALL}/processes`, { path: `${path}/processes`, body });
    assert.is(started.status, 409, started.text);
    assert.match(started.text, why);
    const listed = await edge.call(`GET ${ALL}/files`, { path: `${path}/files` });
    assert.is(listed.status, 409, listed.text);
  }
  await life.release(pending);
});

const WRITES = "trap '' TERM; n=0; while :; do echo $((n += 1)) > /data/count; usleep 1000; done";

test("nothing is written once the pod's program is being stopped, whatever the claim says", async ({ life }) => {
  await life.run(instance, ": > /run/tenancy/stop");
  for (const refused of [
    await file("PUT", "data/late", { body: "late" }),
    await call("POST /processes", "/processes", { body: { command: ["true"] } }),
  ]) {
    assert.is(refused.status, 409, refused.text);
    assert.match(refused.text, "the program of this pod is being stopped");
  }
  await life.run(instance, "$b rm /run/tenancy/stop");
});

test("a release ends the processes before it saves, and the next claim has the files", async ({ life }) => {
  const bytes = randomBytes(1_000_000);
  await put("data/kept/random", bytes, "?mode=0640");
  await start({ command: ["sh", "-c", WRITES], background: true });
  await outputOf("until [ -s /data/count ]; do usleep 20000; done");
  // Also after the pod is gone, it shows what was written last.
  const count = openSync(`/proc/${await processOnHost(life, "serve")}/root/data/count`, "r");
  // The connection to the pod stays open all along.
  const gone = new AbortController();
  const { events } = await follow("trap '' TERM; while :; do echo on; usleep 5000; done", { gone: gone.signal });
  assert.is((await next(events)).type, "process");
  await put("tmp/hold", "");
  const labelSelector = `${label.tenant}=ann`;
  const [released] = (await life.client.list(claims, { namespace: NAMESPACE, labelSelector })).items;
  assert.ok(released);
  const before = instance;
  await life.deleteClaim(released);
  const refused = await waitUntil(
    async () => {
      const answer = await call("POST /processes", "/processes", { body: { command: ["true"] } });
      return answer.status !== 200 && answer;
    },
    { what: "the release to begin", limitMs: LIMIT_MS },
  );
  assert.is(refused.status, 409, refused.text);
  assert.match(refused.text, "use the instance that an Active claim names");
  const written = await file("PUT", "data/late", { body: "late" });
  assert.is(written.status, 409, written.text);
  await life.run(before, "$b rm /tmp/hold");
  await life.untilGone(released);
  gone.abort();

  instance = await claim({});
  assert.is.not(instance, before);
  const read = await file("GET", "data/kept/random");
  assert.is(createHash("sha256").update(read.bytes).digest("hex"), createHash("sha256").update(bytes).digest("hex"));
  assert.is((await page("folder=data/kept/random&depth=0")).entries[0]?.mode, "0640");
  assert.is(await content("data/count"), readFileSync(count, "utf8"), "nothing was written after the save");
  closeSync(count);
  assert.equal(await paths("folder=data"), ["data/count", "data/kept"]);
  assert.equal(await processes(), []);
});

test("an idle release waits for the processes in the background of a workload that says so", async ({ life }) => {
  await life.untilGone(background);
  const next = await life.claim("bob", "works-on", true);
  assert.is((await life.run(next.status?.instanceId, "cat /data/end")).trim(), "done");
});

test("every answer is as the document says", () => assert.equal([...first.problems, ...edge.problems], []));

test.after(async () => {
  first?.process.child.kill("SIGKILL");
  await edge?.stop();
});

test.run();
