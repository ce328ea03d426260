import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { ClaimStatus } from "../../../crds/claim.ts";
import { systemClock } from "../../../crds/client/clock.ts";
import { annotation } from "../../../crds/labels.ts";
import { type Actor, root } from "../../../edge/access/actor.ts";
import type { Serve, Server } from "../../../edge/serve/serve.ts";
import { eventually } from "../../eventually.ts";
import { insideExec } from "../edge/inside/inside-exec.ts";
import { type TestEdge, testEdge } from "../edge/test-edge.ts";
import { silentLog } from "../silent-log.ts";
import { type EnvdClient, envdClient, type Message, ran } from "./envd-client.ts";

const KEY = "the-key-of-this-edge";
const TENANT_KEY = "the-key-of-a-tenant";
const SANDBOX = { tenantId: "a", workloadRef: "app" };
const active: ClaimStatus = {
  ...{ phase: "Active", instanceId: "inst-a", endpoint: { host: "10.0.0.1", port: 8080 }, source: "cold" },
  claimedAt: "2026-01-01T00:00:00Z",
};
const sh = (script: string) => ({ cmd: "/bin/sh", args: ["-c", script] });
const base64 = (text: string) => Buffer.from(text).toString("base64");

/** What envd must do on every runtime, over real sockets and with the real program; runs at once. */
export function envdSuite(name: string, serve: Serve, { lingers = false }: { lingers?: boolean } = {}): void {
  const test = suite(`${name}: envd`);
  const end = new AbortController();
  const tenant: Actor = { kind: "key", id: "t", ref: "t-1", role: "tenant", tenants: ["a"], ended: end.signal };
  const slow: Actor = { ...tenant, id: "s", ref: "s-1", ended: new AbortController().signal, requestsPerSecond: 1 };
  const keys = {
    actorOf: (text: string) => (text === TENANT_KEY && !end.signal.aborted ? tenant : undefined),
    actorWithRef: (ref: string) => [tenant, slow].find((actor) => actor.ref === ref && !actor.ended.aborted),
  };
  let edge: TestEdge;
  let server: Server;
  let token: string;
  let client: EnvdClient;
  let folder: string;
  let execs = 0;
  let mostTerminals: number | undefined;
  const quotas = {
    current: () => ({ of: () => ({ limits: { terminals: mostTerminals } }) }),
    problem: () => undefined,
  };

  test.before(async () => {
    const exec = await insideExec();
    edge = testEdge({
      ...{ apiKey: KEY, keys, quotas, clock: systemClock },
      exec(options) {
        execs += 1;
        return exec(options);
      },
    });
    edge.cluster.addWorkload("app");
    const by = { kind: "key", id: "t", ref: "t-1" };
    const annotations = { [annotation.e2b]: JSON.stringify({ metadata: {}, by, autoPause: false }) };
    edge.cluster.addClaim({ ...SANDBOX, status: active, annotations });
    server = await serve({ handler: edge.handler, listen: { hostname: "127.0.0.1", port: 0 }, log: silentLog });
    token = await edge.accessTokens.sign(SANDBOX, tenant);
    client = clientOf("app--a", { "x-access-token": token });
    folder = mkdtempSync(join(tmpdir(), "tenancy-envd-"));
  });
  test.after(async () => {
    await edge.channels.close();
    await server.stop({ graceMs: 500 });
    rmSync(folder, { recursive: true, force: true });
    // The figures are printed before the timer.
    if (lingers) setTimeout(() => process.exit(), 200);
  });

  function clientOf(id: string, headers: Record<string, string>): EnvdClient {
    return envdClient(server.url, { "e2b-sandbox-id": id, "e2b-sandbox-port": "49983", ...headers });
  }

  const start = (message: object, init = {}) => client.stream("process.Process/Start", message, init);
  const run = async (script: string, more: object = {}) => await ran(await start({ process: sh(script), ...more }));

  /** Starts a process, and leaves its stream. */
  async function startAndLeave(message: object): Promise<number> {
    const gone = new AbortController();
    const messages = await start(message, { signal: gone.signal });
    const { value } = await messages.next();
    gone.abort();
    // A runtime may throw the abort here.
    await messages.return().catch(() => undefined);
    return (value as Message).content.event.start.pid;
  }

  async function failure(call: Promise<unknown>): Promise<string> {
    let message = "it did not fail";
    await call.catch((error: Error) => {
      message = error.message;
    });
    return message;
  }

  test("a command has its variables and folder, both outputs, and an end as envd writes it", async () => {
    const process = {
      ...sh('echo "$A $E2B_SANDBOX_ID"; pwd; echo problem >&2; exit 3'),
      envs: { A: "ü" },
      cwd: folder,
    };
    const { stdout, stderr, end, error } = await ran(await start({ process }));
    assert.equal([stdout, stderr], [`${Buffer.from("ü").toString("latin1")} app--a\n${folder}\n`, "problem\n"]);
    assert.equal(end, { exitCode: 3, exited: true, status: "exit status 3", error: "exit status 3" });
    assert.is(error, undefined);
    assert.equal((await run("exit 0")).end, { exitCode: 0, exited: true, status: "exit status 0" });
    const killed = { exitCode: -1, exited: false, status: "signal: killed", error: "signal: killed" };
    assert.equal((await run("kill -9 $$")).end, killed);
    // As the SDKs start commands; a bash that is not there is another shell.
    const login = await ran(await start({ process: { cmd: "/nowhere/bash", args: ["-l", "-c", "echo $0"] } }));
    assert.equal(login.stdout, "sh\n");
    assert.match((await run("true", { process: { cmd: "no-such-program" } })).error?.message ?? "", /no program/);
    assert.match(
      (await run("", { process: { ...sh("true"), cwd: "/nowhere" } })).error?.code ?? "",
      "invalid_argument",
    );
  });

  test("commands after the first cost no request of the API server and no exec", async () => {
    await run("true");
    const before = [edge.cluster.calls.length, execs];
    for (let count = 0; count < 5; count += 1) assert.is((await run("echo x")).stdout, "x\n");
    await client.unary("filesystem.Filesystem/Stat", { path: "/" });
    assert.is((await client.send("/health")).status, 204);
    assert.equal([edge.cluster.calls.length, execs], before);
  });

  test("a deadline ends the command, and the stream with deadline_exceeded", async () => {
    const headers = { "connect-timeout-ms": "300" };
    const { error, pid } = await ran(await start({ process: sh("echo begun; sleep 1000") }, { headers }));
    assert.is(error?.code, "deadline_exceeded");
    await eventually(async () => !(await pids()).includes(pid));
    const refused = await failure(client.unary("process.Process/List", {}, { "connect-timeout-ms": "1e3" }));
    assert.match(refused, /^invalid_argument: connect-timeout-ms/);
  });

  async function pids(): Promise<number[]> {
    const { processes } = await client.unary("process.Process/List", {});
    return processes.map(({ pid }: { pid: number }) => pid);
  }

  test("a process outlives its stream, is found by pid and tag, and loses no output", async () => {
    const script = "echo before; read a; echo got $a; cat; exit 5";
    const process = { ...sh(script), envs: { OWN: "1" } };
    const pid = await startAndLeave({ process, tag: "one", stdin: true });
    const { processes } = await client.unary("process.Process/List", {});
    const config = { cmd: "/bin/sh", args: ["-c", script], envs: { OWN: "1" } };
    assert.equal(processes, [{ pid, config, tag: "one" }]);
    const connected = ran(await client.stream("process.Process/Connect", { process: { tag: "one" } }));
    await client.unary("process.Process/SendInput", { process: { pid }, input: { stdin: base64("hello\n") } });
    await client.unary("process.Process/SendInput", { process: { tag: "one" }, input: { stdin: base64("the rest") } });
    await client.unary("process.Process/CloseStdin", { process: { pid } });
    const { stdout, end } = await connected;
    assert.is(stdout, "before\ngot hello\nthe rest");
    assert.is((end as { exitCode: number }).exitCode, 5);
    const late = await ran(await client.stream("process.Process/Connect", { process: { pid } }));
    assert.equal([late.stdout, late.end], [stdout, end]);
    assert.match(
      await failure(client.unary("process.Process/SendSignal", { process: { pid }, signal: 15 })),
      /^not_found/,
    );
    const { error } = await ran(await client.stream("process.Process/Connect", { process: { tag: "one" } }));
    assert.is(error?.code, "not_found");
  });

  test("input of a stream is given in its order, and what has no input or no terminal refuses it", async () => {
    const pid = await startAndLeave({ process: sh("cat") });
    const connected = ran(await client.stream("process.Process/Connect", { process: { pid } }));
    const lines = Array.from({ length: 200 }, (_, index) => `${index}\n`);
    const { envelope } = await import("./envd-client.ts");
    const body = Buffer.concat([
      envelope({ start: { process: { pid } } }),
      envelope({ keepalive: {} }),
      ...lines.map((line) => envelope({ data: { input: { stdin: base64(line) } } })),
    ]);
    const headers = { "content-type": "application/connect+json" };
    const sent = await client.send("/process.Process/StreamInput", { method: "POST", headers, body });
    assert.equal(Buffer.from(await sent.arrayBuffer()), Buffer.concat([envelope({}), envelope({}, 2)]));
    const input = { process: { pid }, input: { pty: base64("x") } };
    assert.match(await failure(client.unary("process.Process/SendInput", input)), /^invalid_argument/);
    const resize = { process: { pid }, pty: { size: { cols: 80, rows: 24 } } };
    assert.match(await failure(client.unary("process.Process/Update", resize)), /^invalid_argument/);
    await client.unary("process.Process/CloseStdin", { process: { pid } });
    assert.is((await connected).stdout, lines.join(""));
    const closed = await startAndLeave({ process: sh("sleep 1000"), stdin: false });
    const more = { process: { pid: closed }, input: { stdin: base64("x") } };
    assert.match(await failure(client.unary("process.Process/SendInput", more)), /^failed_precondition/);
    await client.unary("process.Process/SendSignal", { process: { pid: closed }, signal: "SIGNAL_SIGKILL" });
    const { end } = await ran(await client.stream("process.Process/Connect", { process: { pid: closed } }));
    assert.is((end as { status: string }).status, "signal: killed");
  });

  test("a terminal has its size, and another one when that changes", async () => {
    const size = { cols: 90, rows: 20 };
    const messages = await start({ process: { cmd: "/bin/sh", args: [] }, pty: { size } });
    const { value } = await messages.next();
    const process = { pid: (value as Message).content.event.start.pid };
    const type = (text: string) => client.unary("process.Process/SendInput", { process, input: { pty: base64(text) } });
    await type("stty size\n");
    const sizes: string[] = [];
    let text = "";
    for await (const { isEnd, content } of messages) {
      if (isEnd) break;
      text += Buffer.from(content.event.data?.pty ?? "", "base64").toString();
      if (sizes.length === 0 && text.includes("20 90\r\n")) {
        sizes.push("20 90");
        await client.unary("process.Process/Update", { process, pty: { size: { cols: 100, rows: 30 } } });
        await type("stty size; exit 4\n");
      }
      if (content.event.end) sizes.push(String(content.event.end.exitCode));
    }
    assert.match(text, "30 100\r\n");
    assert.equal(sizes, ["20 90", "4"]);
  });

  test("terminals and connected clients count as the open terminals of a tenant, until they end", async () => {
    mostTerminals = 1;
    const terminal = () => start({ process: { cmd: "/bin/cat" }, pty: { size: { cols: 80, rows: 24 } } });
    const messages = await terminal();
    const pid = ((await messages.next()).value as Message).content.event.start.pid;
    assert.is((await ran(await terminal())).error?.code, "resource_exhausted");
    const connect = () => client.stream("process.Process/Connect", { process: { pid } });
    assert.is((await ran(await connect())).error?.code, "resource_exhausted");
    assert.is((await run("echo no terminal")).stdout, "no terminal\n");
    await client.unary("process.Process/SendSignal", { process: { pid }, signal: 9 });
    assert.is((await ran(messages)).error, undefined);
    assert.is((await ran(await connect())).error, undefined);
    mostTerminals = undefined;
  });

  test("a client that reads slowly gets every byte, and holds no other call up", async () => {
    const count = 6 * 2 ** 20;
    const messages = await start({ process: sh(`head -c ${count} /dev/zero; echo end`) });
    await messages.next();
    assert.is((await run("echo other")).stdout, "other\n");
    const { stdout } = await ran(messages);
    assert.equal([stdout.length, stdout.slice(-4)], [count + 4, "end\n"]);
  });

  test("files are written with their folders, read whole and in part, and listed as envd lists them", async () => {
    const form = new FormData();
    form.append("file", new Blob(["one"]), join(folder, "new/ü 1.txt"));
    form.append("other", new Blob(["ignored"]), join(folder, "ignored"));
    form.append("file", new Blob(["x".repeat(300_000)]), join(folder, "large"));
    const written = await client.send("/files", { method: "POST", body: form });
    assert.equal(await written.json(), [
      { path: join(folder, "new/ü 1.txt"), name: "ü 1.txt", type: "file" },
      { path: join(folder, "large"), name: "large", type: "file" },
    ]);
    assert.equal(readdirSync(folder).sort(), ["large", "new"]);
    const packed = { "content-type": "application/octet-stream", "content-encoding": "gzip" };
    const raw = { method: "POST", headers: packed, body: gzipSync("packed") };
    assert.is((await client.send(`/files?path=${join(folder, "gz")}`, raw)).status, 200);
    assert.is(readFileSync(join(folder, "gz"), "utf8"), "packed");
    const part = await client.send(`/files?path=${join(folder, "gz")}`, { headers: { range: "bytes=1-3" } });
    assert.equal([part.status, part.headers.get("content-range"), await part.text()], [206, "bytes 1-3/6", "ack"]);
    symlinkSync("gz", join(folder, "link"));
    const { entries } = await client.unary("filesystem.Filesystem/ListDir", { path: folder, depth: 2 });
    const shown = entries.map(({ name, type, path, size, permissions, symlinkTarget }: Record<string, string>) =>
      [name, type, path?.slice(folder.length), size, permissions, symlinkTarget?.slice(folder.length)].join(" "),
    );
    assert.equal(shown, [
      "gz FILE_TYPE_FILE /gz 6 -rw-r--r-- ",
      "large FILE_TYPE_FILE /large 300000 -rw-r--r-- ",
      "link FILE_TYPE_FILE /link 2 Lrwxrwxrwx /gz",
      "new FILE_TYPE_DIRECTORY /new 0 drwxr-xr-x ",
      "ü 1.txt FILE_TYPE_FILE /new/ü 1.txt 3 -rw-r--r-- ",
    ]);
    const { entry } = await client.unary("filesystem.Filesystem/Stat", { path: join(folder, "gz") });
    const user = process.getuid?.() === 0 ? "root" : entry.owner;
    assert.equal([entry.mode, entry.owner, entry.group], [0o644, user, user === "root" ? "root" : entry.group]);
    assert.ok(Math.abs(Date.parse(entry.modifiedTime) - Date.now()) < 600_000);
  });

  test("folders are made once, moved and removed, and errors have envd's codes", async () => {
    const fs = (call: string, message: object) => client.unary(`filesystem.Filesystem/${call}`, message);
    const [one, two] = [join(folder, "deep/one"), join(folder, "other/two")];
    assert.is((await fs("MakeDir", { path: one })).entry.type, "FILE_TYPE_DIRECTORY");
    assert.match(await failure(fs("MakeDir", { path: one })), /^already_exists/);
    writeFileSync(join(folder, "plain"), "");
    assert.match(await failure(fs("MakeDir", { path: join(folder, "plain") })), /^invalid_argument/);
    assert.is((await fs("Move", { source: one, destination: two })).entry.path, two);
    assert.match(await failure(fs("Move", { source: one, destination: two })), /^not_found/);
    assert.match(await failure(fs("Stat", { path: one })), /^not_found/);
    assert.match(await failure(fs("ListDir", { path: join(folder, "plain") })), /^invalid_argument/);
    assert.equal(await fs("Remove", { path: join(folder, "other") }), {});
    assert.equal(await fs("Remove", { path: join(folder, "other") }), {});
    assert.match(await failure(fs("Stat", { path: "a\0b" })), /^invalid_argument/);
    assert.match(await failure(fs("Stat", { path: "~someone/x" })), /^invalid_argument/);
    // Relative to the folder in which commands start.
    assert.is(`${(await fs("Stat", { path: "" })).entry.path}\n`, (await run("pwd")).stdout);
    for (const [path, status] of [
      [folder, 400],
      [join(folder, "none"), 404],
      ["%00", 400],
    ] as const) {
      const answer = await client.send(`/files?path=${path}`);
      assert.is(answer.status, status);
      assert.is(((await answer.json()) as { code: number }).code, status);
    }
  });

  test("a watched folder tells what changes, by a stream and by asking", async () => {
    const watched = join(folder, "watched");
    await client.unary("filesystem.Filesystem/MakeDir", { path: watched });
    writeFileSync(join(watched, "old"), "");
    const { watcherId } = await client.unary("filesystem.Filesystem/CreateWatcher", { path: watched });
    const gone = new AbortController();
    const messages = await client.stream("filesystem.Filesystem/WatchDir", { path: watched }, { signal: gone.signal });
    assert.equal((await messages.next()).value, { isEnd: false, content: { start: {} } });
    await run(`cd ${watched}; echo 1 > new; chmod 600 old`);
    const expected = ["CREATE new", "WRITE new", "CHMOD old"];
    const text = ({ type, name }: { type: string; name: string }) => `${type.replace("EVENT_TYPE_", "")} ${name}`;
    const streamed: string[] = [];
    for await (const { content } of messages) {
      streamed.push(text(content.filesystem));
      if (streamed.length === expected.length) break;
    }
    gone.abort();
    assert.equal(streamed, expected);
    const asked: string[] = [];
    await eventually(async () => {
      const { events } = await client.unary("filesystem.Filesystem/GetWatcherEvents", { watcherId });
      asked.push(...events.map(text));
      return asked.length >= expected.length;
    });
    assert.equal(asked, expected);
    await client.unary("filesystem.Filesystem/RemoveWatcher", { watcher_id: watcherId });
    assert.match(await failure(client.unary("filesystem.Filesystem/GetWatcherEvents", { watcherId })), /^not_found/);
    assert.match(
      await failure(client.unary("filesystem.Filesystem/CreateWatcher", { path: watched, includeEntry: true })),
      /^unimplemented/,
    );
  });

  test("an upload that breaks off, or is no form, leaves no file", async () => {
    const to = join(folder, "broken");
    const form = (end: string) =>
      `--b\r\nContent-Disposition: form-data; name="file"; filename="${to}"\r\n\r\nhalf${end}`;
    const headers = { "content-type": "multipart/form-data; boundary=b" };
    const refused = async (init: RequestInit) =>
      (await client.send(`/files?path=${to}`, { method: "POST", ...init })).status;
    assert.is(await refused({ headers, body: form("") }), 400);
    assert.is(await refused({ headers, body: "no form at all" }), 400);
    assert.is(await refused({ headers: { "content-type": "multipart/form-data" }, body: form("\r\n--b--") }), 400);
    assert.is(await refused({ headers: { "content-type": "text/plain" }, body: "x" }), 400);
    const octets = { "content-type": "application/octet-stream" };
    assert.is(await refused({ headers: { ...octets, "content-encoding": "gzip" }, body: "no gzip" }), 400);
    const cut = gzipSync("x".repeat(100_000)).subarray(0, 60);
    assert.is(await refused({ headers: { ...octets, "content-encoding": "gzip" }, body: cut }), 400);
    assert.not(readdirSync(folder).includes("broken"));
    // The pod learns of the end a little later.
    await eventually(() => !readdirSync(folder).some((name) => name.startsWith(".tenancy-part-")));
    assert.is(await refused({ headers, body: form("\r\n--b--") }), 200);
    assert.is(readFileSync(to, "utf8"), "half");
  });

  function signed(
    path: string,
    operation: string,
    more: { user?: string; expiration?: number; by?: string } = {},
  ): string {
    const { user = "", expiration, by = token } = more;
    const raw = [path, operation, user, by, ...(expiration === undefined ? [] : [expiration])].join(":");
    const signature = `v1_${createHash("sha256").update(raw).digest("base64").replace(/=+$/, "")}`;
    const query = { path, signature, ...(user && { username: user }) };
    const end = expiration === undefined ? {} : { signature_expiration: String(expiration) };
    return `/files?${new URLSearchParams({ ...query, ...end })}`;
  }

  test("a signed address reads or writes its file only, until it expires", async () => {
    const stranger = clientOf("app--a", {});
    const path = join(folder, "signed");
    const later = Math.floor(Date.now() / 1000) + 3600;
    const body = () => ({
      method: "POST",
      headers: { "content-type": "application/octet-stream" },
      body: "by address",
    });
    const status = async (address: string, init?: RequestInit, by = stranger) => (await by.send(address, init)).status;
    assert.is(await status(signed(path, "write", { expiration: later }), body()), 200);
    assert.is(await (await stranger.send(signed(path, "read"))).text(), "by address");
    assert.is(await status(signed(path, "read"), body()), 401);
    assert.is(await status(signed(path, "write")), 401);
    assert.is(await status(signed(path, "read", { expiration: later - 7200 })), 401);
    assert.is(await status(signed(path, "read", { expiration: later }).replace(String(later), String(later + 1))), 401);
    assert.is(await status(signed(path, "read", { expiration: later }).replace(/&signature_exp.*/, "")), 401);
    assert.is(await status(signed(path, "read").replace("signed", "other")), 401);
    assert.is(await status(signed(path, "read"), {}, clientOf("app--b", {})), 401);
    assert.is(await status(`${signed(path, "read")}&wake=true`), 400);
    assert.is(await status(signed(path, "read", { user: "nobody" })), 400);
    const other = await edge.accessTokens.sign(SANDBOX, { kind: "key", id: "x", ref: "x-1" });
    assert.is(await status(signed(path, "read", { by: other })), 401);
    const ofRoot = await edge.accessTokens.sign(SANDBOX, root);
    assert.is(await status(signed(path, "read", { by: ofRoot })), 200);
  });

  test("a stranger, and a key of another tenant, learn nothing of a sandbox", async () => {
    const asks = async (id: string, headers: Record<string, string>) => {
      const answers: string[] = [];
      for (const path of ["/health", "/files?path=/etc/passwd", "/envs", "/nowhere"]) {
        const response = await clientOf(id, headers).send(path);
        answers.push(`${response.status} ${await response.text()}`.replaceAll(id, "ID").replaceAll(/"[ab]"/g, "T"));
      }
      answers.push(await failure(clientOf(id, headers).unary("process.Process/List", {})));
      return answers;
    };
    const ofOther = await edge.accessTokens.sign({ ...SANDBOX, tenantId: "b" }, tenant);
    for (const headers of [{}, { "x-access-token": "x.y" }, { "x-access-token": ofOther }, { "x-api-key": "wrong" }]) {
      const known = await asks("app--a", headers);
      for (const answer of known) assert.match(answer, /^(401 |unauthenticated: )/);
      assert.equal(await asks("app--c", headers), known);
      assert.equal(await asks("no id", headers), known);
    }
    edge.cluster.addClaim({ tenantId: "b", workloadRef: "app", status: { ...active, instanceId: "inst-b" } });
    const [there, missing] = [
      await asks("app--b", { "x-api-key": TENANT_KEY }),
      await asks("app--d", { "x-api-key": TENANT_KEY }),
    ];
    const blind = (answers: string[]) => answers.map((answer) => answer.replaceAll(/tenant \\?"[bd]\\?"/g, "T"));
    assert.equal(blind(there), blind(missing));
    assert.match(there[0] ?? "", /^404 /);
    assert.is((await clientOf("app--a", { authorization: `Bearer ${TENANT_KEY}` }).send("/health")).status, 204);
  });

  test("a sandbox that does not run is never woken: 502, and unavailable", async () => {
    const key = { "x-api-key": KEY };
    edge.cluster.addClaim({ tenantId: "p", workloadRef: "app", status: { phase: "Pending" } });
    for (const id of ["app--p", "app--none", "not an id"]) {
      const asleep = clientOf(id, key);
      assert.is((await asleep.send("/health")).status, 502);
      assert.is((await asleep.send("/files?path=/x")).status, 502);
      assert.match(await failure(asleep.unary("process.Process/List", {})), /^unavailable: .*was not found/);
      const { error } = await ran(await asleep.stream("process.Process/Start", { process: sh("true") }));
      assert.is(error?.code, "unavailable");
    }
    assert.is((await clientOf("app--a", { ...key, "e2b-sandbox-port": "8080" }).send("/health")).status, 502);
  });

  test("messages that lie, are too large or packed are refused, and the next call is served", async () => {
    const call = async (body: Uint8Array<ArrayBuffer> | ReadableStream, headers: Record<string, string> = {}) => {
      const response = await client.send("/process.Process/Start", {
        ...{ method: "POST", body, duplex: "half" },
        headers: { "content-type": "application/connect+json", ...headers },
      } as RequestInit);
      return Buffer.from(await response.arrayBuffer()).toString();
    };
    const head = (flags: number, length: number) => {
      const bytes = new Uint8Array(5);
      bytes[0] = flags;
      new DataView(bytes.buffer).setUint32(1, length);
      return bytes;
    };
    assert.match(await call(head(0, 10)), "invalid_argument");
    assert.match(await call(head(0, 2 ** 32 - 1)), "resource_exhausted");
    assert.match(await call(head(1, 0)), "unimplemented");
    assert.match(await call(head(2, 0)), "invalid_argument");
    assert.match(await call(head(64, 0)), "invalid_argument");
    assert.match(await call(new Uint8Array()), "invalid_argument");
    assert.match(await call(head(0, 0), { "connect-content-encoding": "gzip" }), "unimplemented");
    assert.match(await call(new Uint8Array(100_000_000)), "resource_exhausted");
    const deep = `{"process":${"[".repeat(5000)}`;
    assert.match(await call(Buffer.concat([head(0, deep.length), Buffer.from(deep)])), "invalid_argument");
    for (const [type, code] of [
      ["application/proto", "invalid_argument"],
      ["application/json", "invalid_argument"],
    ] as const) {
      const init = { method: "POST", headers: { "content-type": type }, body: "[]" };
      const response = await client.send("/process.Process/List", init);
      assert.is(((await response.json()) as { code: string }).code, code);
    }
    assert.is((await run("echo fine")).stdout, "fine\n");
  });

  test("whatever a message holds, its sender gets an error that it can fix, and nothing is started", async () => {
    const before = await pids();
    const size = { size: { cols: 80, rows: 24 } };
    const fields = [
      ...["process", "input", "pty", "tag", "stdin", "signal", "start", "data", "path", "source", "destination"],
      ...["depth", "recursive", "watcherId", "pid", "cmd", "args", "envs", "cwd", "size", "cols", "rows", "__proto__"],
    ];
    const leaf = fc.oneof(
      ...[
        fc.constantFrom(
          null,
          true,
          -1,
          0,
          4096,
          1e300,
          0.5,
          "",
          "/",
          "~",
          "..",
          "\0",
          "//../x",
          "SIGNAL_SIGKILL",
          size,
        ),
      ],
      ...[fc.string(), fc.integer(), fc.constant([]), fc.constant("A".repeat(5000))],
    );
    const { message } = fc.letrec((tie) => ({
      message: fc.dictionary(fc.constantFrom(...fields), tie("value") as fc.Arbitrary<unknown>, { maxKeys: 5 }),
      value: fc.oneof({ maxDepth: 3 }, leaf, tie("message"), fc.array(leaf, { maxLength: 3 })),
    }));
    const unary = [
      ...["List", "Update", "SendInput", "SendSignal", "CloseStdin"].map((call) => `process.Process/${call}`),
      ...["Stat", "MakeDir", "ListDir", "CreateWatcher", "GetWatcherEvents", "RemoveWatcher"].map(
        (call) => `filesystem.Filesystem/${call}`,
      ),
    ];
    const streams = ["process.Process/Start", "process.Process/Connect", "process.Process/StreamInput"];
    const fixable =
      /^(invalid_argument|not_found|already_exists|permission_denied|failed_precondition|resource_exhausted|unimplemented|it did not fail)/;
    for (const [call, sent] of fc.sample(fc.tuple(fc.constantFrom(...unary), message), 150)) {
      // What is made or listed has to be below this test's folder.
      const path = /MakeDir|ListDir|CreateWatcher/.test(call) ? { path: join(folder, "none/none") } : {};
      const answer = await failure(client.unary(call, { ...(sent as object), ...path }));
      assert.match(answer, fixable, JSON.stringify([call, sent]));
    }
    for (const [call, sent] of fc.sample(fc.tuple(fc.constantFrom(...streams), message), 60)) {
      const { pid, error } = await ran(
        await client.stream(call, { ...(sent as object), ...(/Start/.test(call) && { tag: 1 }) }),
      );
      assert.is(pid, 0);
      assert.match(error?.code ?? "", fixable, JSON.stringify([call, sent]));
    }
    assert.equal(await pids(), before);
  });

  test("calls are for the workload's user only", async () => {
    const as = (user: string) => ({ authorization: `Basic ${base64(`${user}:`)}` });
    const { error } = await ran(await start({ process: sh("true") }, { headers: as("somebody") }));
    assert.match(`${error?.code} ${error?.message}`, /^invalid_argument .*"somebody"/);
    for (const user of ["user", (await run("id -un")).stdout.trim()])
      assert.is((await ran(await start({ process: sh("true") }, { headers: as(user) }))).error, undefined);
    assert.is((await client.send("/files?path=/etc/passwd&username=somebody")).status, 400);
  });

  test("the requests a second of a key count for the tokens that it has asked for", async () => {
    const limited = clientOf("app--a", { "x-access-token": await edge.accessTokens.sign(SANDBOX, slow) });
    const answers = await Promise.all(Array.from({ length: 50 }, () => limited.send("/health")));
    assert.equal([...new Set(answers.map(({ status }) => status))].sort(), [204, 429]);
  });

  test("the audit log has calls with their sandbox, and refusals with their status", () => {
    const records = edge.audited.map((line) => JSON.parse(line));
    const start = records.find(({ route, status }) => route === "/process.Process/Start" && status === 200);
    assert.equal([start.object.tenant, start.object.workload, start.actor.id, start.act], ["a", "app", "t", "change"]);
    assert.ok(start.object.pid);
    const refused = records.find(({ route, status }) => route === "/process.Process/Start" && status === 502);
    assert.equal([refused.object.tenant, refused.outcome, refused.actor.kind], ["p", "failed", "root"]);
    assert.not(edge.audited.some((line) => line.includes(token)));
    assert.equal(
      edge.log.filter(({ level }) => level === "error"),
      [],
    );
  });

  test("the end of a key ends its streams and its tokens", async () => {
    const messages = await start({ process: sh("echo begun; sleep 1000") });
    await messages.next();
    end.abort();
    await failure(
      (async () => {
        for await (const message of messages) assert.not(message.isEnd);
      })(),
    );
    assert.match(await failure(client.unary("process.Process/List", {})), /^unauthenticated/);
    assert.is((await clientOf("app--a", {}).send(signed(join(folder, "signed"), "read"))).status, 401);
  });

  test.run();
}
