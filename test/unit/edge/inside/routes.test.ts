// @runtimes bun node deno
// The routes of processes and files over the real program, which runs on this machine.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { ClaimStatus } from "../../../../crds/claim.ts";
import { NetworkError } from "../../../../crds/client/api-error.ts";
import { pods } from "../../../../crds/client/built-in-resources.ts";
import type { Exec } from "../../../../crds/client/exec/exec.ts";
import { ExecError } from "../../../../crds/client/exec/exec-outcome.ts";
import { annotation, label } from "../../../../crds/labels.ts";
import { claimName, hashedClaimName } from "../../../../crds/names.ts";
import { type OutputEvent, type ShownEvent, shownEvents } from "../../../../edge/api/inside/process-output.ts";
import { errorOf } from "../../../error-of.ts";
import { eventually } from "../../../eventually.ts";
import { untilCommandsEnd } from "../../snapshots/local-exec.ts";
import { type TestEdge, testEdge } from "../test-edge.ts";
import { insideExec } from "./inside-exec.ts";

const test = suite("routes of processes and files");
const MIB = 2 ** 20;
const PROCESSES = "/api/v1/instances/a/processes";
const FILES = "/api/v1/instances/a/files";

let exec: Exec;
let folder: string;
/** Of the folder, in URLs. */
let below: string;
const opened: TestEdge[] = [];

test.before(async () => {
  exec = await insideExec();
});
test.before.each(() => {
  folder = mkdtempSync(join(tmpdir(), "tenancy-inside-"));
  below = folder.slice(1);
});
test.after.each(async () => {
  for (const edge of opened.splice(0)) await edge.channels.close();
  await untilCommandsEnd();
  rmSync(folder, { recursive: true, force: true });
});

/** An edge with one instance, `a`. */
function open(run: Exec = exec): TestEdge {
  const edge = testEdge({ exec: run });
  edge.cluster.addInstance("a");
  opened.push(edge);
  return edge;
}

interface Process {
  timedOut?: boolean;
  pid: number;
  state: string;
  exitCode?: number;
  stdout?: string;
  stderr?: string;
  stdoutBytes: number;
  truncated?: true;
}

/** A shell whose own limit is longer than any test waits. */
const shell = (script: string, more: object = {}) => ({
  command: ["/bin/sh", "-c", script],
  timeoutSeconds: 3600,
  ...more,
});

async function start(edge: TestEdge, script: string, more: object = {}): Promise<Process> {
  const { status, text, json } = await edge.call(`POST ${PROCESSES}`, { body: shell(script, more) });
  assert.is(status, 200, text);
  return json as Process;
}

async function processOf(edge: TestEdge, pid: number, query = ""): Promise<Process> {
  const { status, text, json } = await edge.call(`GET ${PROCESSES}/${pid}${query}`);
  assert.is(status, 200, text);
  return json as Process;
}

const running = async (edge: TestEdge) =>
  ((await edge.call(`GET ${PROCESSES}`)).json as Process[]).filter(({ state }) => state === "running");

/** Requests a stream. */
async function stream(
  edge: TestEdge,
  path: string,
  options: { body?: object; accept?: string; gone?: AbortSignal } = {},
) {
  const { body, accept, gone } = options;
  const response = await edge.handler(
    new Request(`http://edge.test${path}`, {
      method: body === undefined ? "GET" : "POST",
      headers: { "content-type": "application/json", ...(accept !== undefined && { accept }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    }),
    gone === undefined ? {} : { clientGone: gone },
  );
  assert.is(response.status, 200);
  return response;
}

/** The events of lines of JSON. */
async function* eventsOf(response: Response): AsyncGenerator<ShownEvent, undefined> {
  let text = "";
  const decoder = new TextDecoder("utf-8", { fatal: true });
  for await (const piece of response.body ?? []) {
    text += decoder.decode(piece, { stream: true });
    const lines = text.split("\n");
    text = lines.pop() ?? "";
    for (const line of lines) yield JSON.parse(line) as ShownEvent;
  }
  assert.is(text, "");
  return undefined;
}

async function all<T>(events: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const event of events) found.push(event);
  return found;
}

function fails(edge: TestEdge, target: string, options: { body?: unknown; headers?: Record<string, string> } = {}) {
  return async (status: number, message: RegExp | string) => {
    const answer = await edge.call(target, options);
    assert.is(answer.status, status, `${target}: ${answer.text}`);
    assert.match(answer.error ?? "", message);
    return answer;
  };
}

test("the address of a tenant and a workload leads to no instance of another claim of the same name", async () => {
  const edge = open();
  const theirs = { tenantId: "team-alice", workloadRef: "echo" };
  const ours = { tenantId: "team", workloadRef: "alice-echo" };
  const add = (key: typeof ours, name: string, instanceId: string) => {
    const status: ClaimStatus = { phase: "Active", instanceId, endpoint: { host: "10.0.0.1", port: 8080 } };
    const { metadata } = edge.cluster.addClaim({ ...key, name, status });
    const annotations = { [annotation.claimUid]: metadata.uid ?? "", [annotation.claim]: name };
    const labels = { [label.workload]: key.workloadRef, [label.tenant]: key.tenantId };
    edge.cluster.addPod(instanceId, "Running", { labels, annotations, podIP: "10.0.0.1" });
  };
  assert.is(claimName(ours), claimName(theirs));
  add(theirs, claimName(theirs), "inst-theirs");
  writeFileSync(join(folder, "secret"), "of team-alice");
  const read = (key: typeof ours) =>
    edge.call(`GET /api/v1/tenants/${key.tenantId}/instances/${key.workloadRef}/files/${below}/secret`);
  assert.is((await read(theirs)).text, "of team-alice");
  const refused = await read(ours);
  assert.is(refused.status, 404, refused.text);
  assert.match(refused.text, 'tenant \\"team\\" has no claim on workload');
  add(ours, hashedClaimName(ours), "inst-ours");
  assert.is((await read(ours)).status, 200);
  // A claim that names another's pod.
  edge.cluster.setStatus(hashedClaimName(ours), { phase: "Active", instanceId: "inst-theirs" });
  assert.is((await read(ours)).status, 409);
});

test("an instance that is not its tenant's is refused, and one that is not there", async () => {
  const edge = open();
  edge.cluster.addPod("warm", "Running", { labels: { [label.pool]: "p" } });
  const pending = { phase: "Pending", instanceId: "pending" } as const;
  edge.cluster.podOf(edge.cluster.addClaim({ tenantId: "b", workloadRef: "app", status: pending }));
  const releasing = { phase: "Active", instanceId: "releasing" } as const;
  edge.cluster.addClaim({ tenantId: "c", workloadRef: "app", status: releasing, deleting: true });
  for (const [name, status, message] of [
    ["none", 404, 'instance "none" does not exist'],
    ["warm", 409, 'instance "warm" is an unclaimed warm pod: claim its workload first'],
    ["pending", 409, /its claim "claim-b-app" is Pending; use the instance that an Active claim names$/],
    ["releasing", 409, /its claim "claim-c-app" is being released; use the instance/],
  ] as const) {
    const path = `/api/v1/instances/${name}`;
    await fails(edge, `POST ${path}/processes`, { body: { command: ["/bin/true"] } })(status, message);
    await fails(edge, `GET ${path}/processes/1`)(status, message);
    await fails(edge, `GET ${path}/files`)(status, message);
    await fails(edge, `PUT ${path}/files/tmp/file`, { body: "a" })(status, message);
    await fails(edge, `DELETE ${path}/files/tmp/file`)(status, message);
  }
});

test("a pod that cannot be reached: the status and the words for each reason", async () => {
  const reasons: readonly (readonly [error: Error, status: number, says: RegExp])[] = [
    [new ExecError("no pod", { reason: "PodGone" }), 404, /instance "a" does not exist/],
    [new ExecError("ended", { reason: "ContainerNotRunning" }), 409, /is not running; try again once its program has/],
    [
      new ExecError("no file", { reason: "CommandNotFound" }),
      409,
      /has no tools for this in its pod: set spec.tools of its workload/,
    ],
    [new ExecError("failed", { reason: "Failed" }), 503, /the program in instance "a" cannot be reached; try again/],
    [new NetworkError("cut", { requestWasSent: true }), 503, /^the connection to instance "a" was lost$/],
  ];
  for (const [error, status, says] of reasons) {
    const edge = open(async () => {
      throw error;
    });
    const retries = status === 503 ? "1" : null;
    const started = await fails(edge, `POST ${PROCESSES}`, { body: { command: ["/bin/true"] } })(status, says);
    assert.is(started.headers.get("retry-after"), retries);
    await fails(edge, `GET ${FILES}`)(status, says);
  }
});

test("the pages of a list together are the whole list, wherever they end", async () => {
  const edge = open();
  for (const name of ["a", "b", "c"]) {
    for (const inner of ["c", "l/d", "m", "z"]) mkdirSync(join(folder, name, inner), { recursive: true });
  }
  const list = async (query: string) => {
    const { headers, json, error } = await edge.call(`GET ${FILES}?folder=${below}&depth=3${query}`);
    assert.is(error, undefined);
    return { paths: (json as { path: string }[]).map(({ path }) => path), next: headers.get("x-tenancy-next") };
  };
  const { paths } = await list("");
  assert.is(paths.length, 18);
  for (let limit = 1; limit <= paths.length; limit += 1) {
    const found: string[] = [];
    for (let next: string | null = ""; next !== null; ) {
      const page = await list(`&limit=${limit}${next === "" ? "" : `&after=${encodeURIComponent(next)}`}`);
      found.push(...page.paths);
      next = page.next;
    }
    assert.equal(found, paths, `pages of ${limit}`);
  }
});

test("what a timeout ends leaves no process of its group", async () => {
  const edge = open();
  const pidFile = join(folder, "pid");
  // The same test runs on another runtime at the same time.
  const sleep = `sleep ${7_000_000 + process.pid}`;
  const stubborn = `(trap "" TERM; echo begun > ${pidFile}; exec ${sleep} > /dev/null 2>&1) & exec ${sleep}`;
  const { timedOut } = await start(edge, stubborn, { timeoutSeconds: 1 });
  assert.is(timedOut, true);
  const left = await start(edge, "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2> /dev/null; echo; done");
  assert.not.match(left.stdout ?? "", sleep);
});

test("another pod of the same name is refused, and nothing is done in it", async () => {
  const edge = open();
  const known = edge.cluster.read(pods, "a");
  // The watch has not shown it yet.
  const replaced = { ...known, metadata: { ...known.metadata, uid: "another" } };
  edge.cluster.add(pods, replaced, { hidden: true });
  const file = join(folder, "file");
  const body = shell(`: > ${file}`);
  await fails(edge, `POST ${PROCESSES}`, { body })(
    410,
    /^instance "a" was replaced by another pod of its name; try again$/,
  );
  await fails(edge, `PUT ${FILES}/${below}/file`, { body: "a" })(410, "was replaced");
  assert.equal(readdirSync(folder), []);
});

test("bodies and queries that are wrong are refused with the place", async () => {
  const edge = open(async () => {
    throw new Error("No exec is needed");
  });
  const command = ["/bin/true"];
  for (const [body, says] of [
    [{}, /^body.command: is required$/],
    [{ command: [] }, /^body.command: must name a program/],
    [{ command: [""] }, /^body.command: must start with the name of a program/],
    [{ command: ["a\0"] }, /^body.command.0: must not contain a NUL character$/],
    [{ command: "ls" }, /^body.command: must be a/],
    [{ command: ["a".repeat(100_001)] }, /^body.command: must have at most 100000 bytes/],
    [{ command, timeout: 1 }, /^body: unknown key "timeout"/],
    [{ command, env: ["A=b"] }, /^body.env: must be an object, got array$/],
    [{ command, env: "A=b" }, /^body.env: must be an object, got string$/],
    [{ command, env: { "A=": "b" } }, /^body.env.A=: must be the name of a variable/],
    [{ command, env: { A: "é".repeat(32_768) } }, /^body.env: must have at most 65536 bytes/],
    [{ command, cwd: "" }, /^body.cwd: must not be empty$/],
    [{ command, stdin: "é".repeat(131_073) }, /^body.stdin: must have at most 262144 bytes/],
    [{ command, tty: { cols: 80 } }, /^body.tty.rows: is required$/],
    [{ command, tty: { cols: 80, rows: 0 } }, /^body.tty.rows: must be at least 1$/],
    [{ command, timeoutSeconds: 0 }, /^body.timeoutSeconds: must be at least 1$/],
    [{ command, timeoutSeconds: 86_401 }, /^body.timeoutSeconds: must be at most 86400$/],
  ] as const) {
    await fails(edge, `POST ${PROCESSES}`, { body })(400, says);
  }
  const start = { body: { command } };
  await fails(edge, `POST ${PROCESSES}?follow=yes`, start)(400, /^query.follow: must be true or false$/);
  await fails(edge, `POST ${PROCESSES}?encoding=hex`, start)(400, /^query.encoding: must be "text" or "base64", got/);
  await fails(edge, `GET ${PROCESSES}/0`)(400, /^path: a pid is a whole number/);
  await fails(edge, `GET ${PROCESSES}/1?stdoutFrom=1.5`)(
    400,
    /^query.stdoutFrom: an offset is a whole number of bytes/,
  );
  await fails(edge, `POST ${PROCESSES}/1/signal`, { body: { signal: "kill" } })(
    400,
    /^body.signal: must be the name of/,
  );
  await fails(edge, `GET ${FILES}?depth=65`)(400, /^query.depth: a depth is a whole number from 0 to 64/);
  await fails(edge, `GET ${FILES}?limit=1001`)(400, /^query.limit: must be a whole number from 1 to 1000/);
  await fails(edge, `GET ${FILES}?folder=/tmp`)(400, /^query.folder: a path has no empty part/);
  await fails(edge, `GET ${FILES}/a%2`)(400, /^path: a path has no empty part/);
  await fails(edge, `PUT ${FILES}/a?mode=9`, { body: "" })(400, /^query.mode: a mode is three or four octal digits/);
  const tagged = { body: "", headers: { "if-none-match": '"a"' } };
  await fails(edge, `PUT ${FILES}/a`, tagged)(400, /^if-none-match: must be "\*" for a write$/);
  for (const query of ["", "?mkdir=true&move=b", "?move=b&mode=0600", "?replace=true", "?replace=true&mode=0600"])
    await fails(edge, `POST ${FILES}/a${query}`)(400, /^query: ask for one thing/);
});

test("what the program in the pod refuses: the status and the path", async () => {
  const edge = open();
  writeFileSync(join(folder, "file"), "content");
  const [file, none] = [`${below}/file`, `${below}/none`];
  await fails(edge, `POST ${PROCESSES}`, { body: { command: ["/none"] } })(
    400,
    /^instance "a": there is no program \/none/,
  );
  const elsewhere = { body: { command: ["/bin/true"], cwd: folder.concat("/none") } };
  await fails(edge, `POST ${PROCESSES}`, elsewhere)(400, /cannot start in .*\/none: no such file or directory$/);
  await fails(edge, `GET ${PROCESSES}/4000000`)(404, /no process 4000000 was started here/);
  await fails(edge, `POST ${PROCESSES}/4000000/signal`, { body: { signal: "KILL" } })(404, "no process 4000000");
  const { pid } = await start(edge, "exit 3", { background: true });
  await eventually(async () => (await processOf(edge, pid)).state === "ended");
  await fails(edge, `POST ${PROCESSES}/${pid}/signal`, { body: { signal: "KILL" } })(409, `process ${pid} has ended`);
  await fails(edge, `GET ${FILES}/${none}`)(404, `/${none}: no such file or directory`);
  await fails(edge, `GET ${FILES}?folder=${none}`)(404, `/${none}: no such file or directory`);
  await fails(edge, `DELETE ${FILES}/${none}`)(404, `/${none}: `);
  await fails(edge, `GET ${FILES}?folder=${file}`)(409, `/${file}: it is no folder`);
  await fails(edge, `GET ${FILES}/${below}`)(409, `/${below}: is a directory`);
  await fails(edge, `PUT ${FILES}/${below}`, { body: "a" })(409, "is a directory");
  await fails(edge, `PUT ${FILES}/${file}/a`, { body: "a" })(409, "not a directory");
  symlinkSync("none", join(folder, "dangling"));
  await fails(edge, `PUT ${FILES}/${below}/dangling`, { body: "a" })(404, "it is a link that leads nowhere");
  rmSync(join(folder, "dangling"));
  await fails(edge, `GET ${FILES}/dev/null`)(409, "a device, a pipe or a socket");
  await fails(edge, `GET ${FILES}/${file}`, { headers: { range: "bytes=7-" } })(416, "the file has 7 bytes");
  await fails(edge, `DELETE ${FILES}/${below}`)(409, "directory not empty");
  await fails(edge, `POST ${FILES}/${file}?mkdir=true`)(409, "file already exists");
  await fails(edge, `PUT ${FILES}/${below}/${"n".repeat(300)}`, { body: "a" })(400, "file name too long");
});

/** Cuts bytes into pieces of some sizes, in turns. */
function cut(bytes: Buffer, sizes: readonly number[]): OutputEvent[] {
  const events: OutputEvent[] = [];
  for (let at = 0, turn = 0; at < bytes.length; turn += 1) {
    const size = sizes[turn % sizes.length] ?? 1;
    events.push({ type: "stdout", offset: at, bytes: bytes.subarray(at, at + size) });
    at += size;
  }
  return events;
}

async function* each<T>(values: readonly T[]): AsyncGenerator<T, void> {
  yield* values;
}

const ENDED: OutputEvent = {
  type: "process",
  process: {
    ...{ pid: 1, command: ["a"], cwd: "/", tty: false, background: false, startedAt: "", state: "ended" },
    ...{ exitCode: 0, stdoutBytes: 0, stderrBytes: 0 },
  },
};

const shownText = async (events: readonly OutputEvent[]) =>
  (await all(shownEvents(each([...events, ENDED]), { isBase64: false }))).flatMap((event) =>
    event.type === "process" ? [] : [event],
  );

test("text events cut no character, wherever the output is cut, and have the offsets of their bytes", async () => {
  const text = "aé€😀\u0000ü😀€éz";
  const bytes = Buffer.from(text);
  for (let first = 1; first <= 6; first += 1) {
    for (let second = 1; second <= 6; second += 1) {
      let at = 0;
      const events = await shownText(cut(bytes, [first, second]));
      for (const { offset, text: part = "" } of events) {
        assert.is(offset, at);
        assert.not.match(part, "\ufffd");
        at += Buffer.byteLength(part);
      }
      assert.is(events.map((event) => event.text).join(""), text);
    }
  }
});

test("bytes that are no UTF-8 hold no later output back, and a gap ends what came before it", async () => {
  const broken = Buffer.from("a\xc3b\xff\xf0\x9f\x98c\x80", "latin1");
  for (let size = 1; size <= broken.length; size += 1) {
    const text = (await shownText(cut(broken, [size]))).map((event) => event.text).join("");
    assert.is(text, broken.toString("utf8"));
  }
  const half = Buffer.from("é").subarray(0, 1);
  const gap: OutputEvent[] = [
    { type: "stdout", offset: 0, bytes: half },
    { type: "stderr", offset: 0, bytes: Buffer.from("beside") },
    { type: "stdout", offset: 100, bytes: Buffer.from("later") },
    { type: "stdout", offset: 105, bytes: half },
  ];
  assert.equal(await shownText(gap), [
    { type: "stderr", offset: 0, text: "beside" },
    { type: "stdout", offset: 0, text: "\ufffd" },
    { type: "stdout", offset: 100, text: "later" },
    { type: "stdout", offset: 105, text: "\ufffd" },
  ]);
});

test("a character whose bytes are written one by one comes as one event", async () => {
  const edge = open();
  const go = join(folder, "go");
  const script = `printf '\\303'; until [ -e ${go} ]; do /bin/sleep 0.01; done; printf '\\251.'`;
  const { pid } = await start(edge, script, { background: true });
  await eventually(async () => (await processOf(edge, pid)).stdoutBytes === 1);
  const [asText, asBytes] = await Promise.all(
    ["", "&encoding=base64"].map((query) => stream(edge, `${PROCESSES}/${pid}?follow=true${query}`)),
  );
  assert.ok(asText && asBytes);
  const bytes = eventsOf(asBytes);
  const { value: begun } = await bytes.next();
  assert.equal(begun, { type: "stdout", offset: 0, base64: "ww==" });
  // Only now there is more.
  writeFileSync(go, "");
  const [text, end, ...others] = await all(eventsOf(asText));
  assert.equal([text, end?.type, others], [{ type: "stdout", offset: 0, text: "é." }, "process", []]);
  const [second, last] = await all(bytes);
  assert.equal(
    [second, last?.type],
    [{ type: "stdout", offset: 1, base64: Buffer.from("\xa9.", "latin1").toString("base64") }, "process"],
  );
});

test("a stream begins with the process and ends with its exit code, in the form that was asked for", async () => {
  const edge = open();
  const body = shell("echo out; exit 4");
  const lines = await stream(edge, `${PROCESSES}?follow=true`, { body });
  assert.is(lines.headers.get("content-type"), "application/x-ndjson");
  const [first, output, last, ...others] = await all(eventsOf(lines));
  assert.equal(output, { type: "stdout", offset: 0, text: "out\n" });
  assert.equal(
    [first, last].map((event) => event?.type === "process" && [event.process.state, event.process.exitCode]),
    [
      ["running", undefined],
      ["ended", 4],
    ],
  );
  assert.equal(others, []);
  const accept = "text/event-stream";
  const events = await stream(edge, `${PROCESSES}?follow=true`, { body, accept });
  assert.is(events.headers.get("content-type"), accept);
  const text = await events.text();
  assert.match(text, /^:\n\nevent: process\ndata: \{.*"state":"running".*\}\n\n/);
  assert.match(text, '\n\nevent: stdout\ndata: {"type":"stdout","offset":0,"text":"out\\n"}\n\n');
  assert.match(text, /event: process\ndata: \{.*"exitCode":4.*\}\n\n$/);
});

test("an output is read from an offset, and one that is longer than what is kept says so", async () => {
  const edge = open();
  const { pid } = await start(edge, "printf 0123456789; printf abc >&2", { background: true });
  await eventually(async () => (await processOf(edge, pid)).state === "ended");
  const of = async (query: string) => {
    const { stdout, stderr } = await processOf(edge, pid, query);
    return [stdout, stderr];
  };
  assert.equal(await of(""), ["0123456789", "abc"]);
  assert.equal(await of("?stdoutFrom=4&stderrFrom=-1"), ["456789", "c"]);
  assert.equal(await of("?stdoutFrom=-100&stderrFrom=100"), ["0123456789", ""]);
  const followed = await all(eventsOf(await stream(edge, `${PROCESSES}/${pid}?follow=true&stdoutFrom=8&stderrFrom=3`)));
  assert.equal(followed[0], { type: "stdout", offset: 8, text: "89" });

  const flood = await start(edge, "/usr/bin/head -c 3000000 /dev/zero; printf end", { background: true });
  await eventually(async () => (await processOf(edge, flood.pid, "?stdoutFrom=-1")).state === "ended");
  const kept = await processOf(edge, flood.pid);
  assert.equal([kept.stdoutBytes, kept.stdout?.length, kept.truncated], [3_000_003, MIB, true]);
  assert.ok(kept.stdout?.endsWith("end"));
  // What is no longer kept is a gap: the first event's offset says so.
  const [late] = await all(eventsOf(await stream(edge, `${PROCESSES}/${flood.pid}?follow=true&stdoutFrom=10`)));
  assert.is(late?.type === "stdout" && late.offset, 3_000_003 - MIB);
});

test("an answer has the first MiB of each output, and says if there was more", async () => {
  const edge = open();
  const whole = await start(edge, `/usr/bin/head -c ${MIB} /dev/zero; /usr/bin/head -c ${MIB} /dev/zero >&2`);
  assert.equal([whole.stdout?.length, whole.stderr?.length, whole.truncated], [MIB, MIB, undefined]);
  const more = await start(edge, `printf begin; /usr/bin/head -c ${MIB} /dev/zero`);
  assert.equal([more.stdout?.length, more.truncated, more.stdoutBytes], [MIB, true, MIB + 5]);
  assert.ok(more.stdout?.startsWith("begin"));
});

test("a process in the foreground ends when its client goes, and the answer is 499", async () => {
  const edge = open();
  const gone = new AbortController();
  const waiting = edge.call(`POST ${PROCESSES}`, { body: shell("exec /bin/sleep 600"), signal: gone.signal });
  await eventually(async () => (await running(edge)).length === 1);
  const response = await stream(edge, `${PROCESSES}?follow=true`, {
    body: shell("exec /bin/sleep 600"),
    gone: gone.signal,
  });
  await eventually(async () => (await running(edge)).length === 2);
  gone.abort();
  assert.is((await waiting).status, 499);
  assert.ok((await errorOf(response.text())) !== undefined, "the stream does not look complete");
  await eventually(async () => (await running(edge)).length === 0);
});

test("a connection that is lost breaks a stream off, and an answer says what may have been done", async () => {
  const kill = new AbortController();
  const edge = open((options) =>
    exec({ ...options, signal: AbortSignal.any([options.signal, kill.signal].filter((one) => one !== undefined)) }),
  );
  const body = shell("echo begun; exec /bin/sleep 600");
  const response = await stream(edge, `${PROCESSES}?follow=true`, { body });
  const events = eventsOf(response);
  await events.next();
  assert.equal((await events.next()).value, { type: "stdout", offset: 0, text: "begun\n" });
  const waiting = edge.call(`POST ${PROCESSES}`, { body });
  await eventually(async () => (await running(edge)).length === 2);
  kill.abort(new NetworkError("cut", { requestWasSent: true }));
  const { status, error } = await waiting;
  assert.equal([status, error], [503, 'the connection to instance "a" was lost; it may have been done']);
  assert.ok((await errorOf(all(events))) !== undefined, "the stream does not look complete");
});

test("an upload that breaks off leaves the file as it was", async () => {
  const edge = open();
  writeFileSync(join(folder, "file"), "old");
  let send: ReadableStreamDefaultController<Uint8Array> | undefined;
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      send = controller;
    },
  });
  const request = new Request(`http://edge.test${FILES}/${below}/file`, {
    method: "PUT",
    body,
    duplex: "half",
  } as RequestInit);
  const answer = edge.handler(request);
  send?.enqueue(new Uint8Array(100_000));
  const part = () => readdirSync(folder).find((name) => name !== "file");
  await eventually(() => part() !== undefined && readFileSync(join(folder, part() ?? "")).length === 100_000);
  assert.is((await edge.call(`GET ${FILES}/${below}/file`)).text, "old");
  assert.equal(((await edge.call(`GET ${FILES}?folder=${below}`)).json as unknown[]).length, 1);
  send?.error(new Error("gone"));
  const response = await answer;
  assert.is(response.status, 400);
  assert.equal(await response.json(), { error: "body: broke off before its end" });
  await eventually(() => part() === undefined);
  assert.is(readFileSync(join(folder, "file"), "utf8"), "old");
});

test.run();
