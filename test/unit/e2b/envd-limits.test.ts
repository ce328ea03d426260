// @runtimes bun node deno
// What one tenant's calls may take up, with the real program.

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { systemClock } from "../../../crds/client/clock.ts";
import { connectErrorOf } from "../../../edge/e2b/connect/connect-error.ts";
import { chooseServe } from "../../../edge/edge.ts";
import { HttpError } from "../../../edge/http/http-error.ts";
import type { Server } from "../../../edge/serve/serve.ts";
import { errorOf } from "../../error-of.ts";
import { eventually } from "../../eventually.ts";
import { insideExec } from "../edge/inside/inside-exec.ts";
import { type TestEdge, testEdge } from "../edge/test-edge.ts";
import { silentLog } from "../silent-log.ts";
import { type EnvdClient, envdClient, type Message, ran } from "./envd-client.ts";

const test = suite("the limits of envd");
const KEY = "the-key-of-this-edge";
const sh = (script: string, ...more: string[]) => ({ cmd: "/bin/sh", args: ["-c", script, ...more] });

let edge: TestEdge;
let server: Server;
let client: EnvdClient;
let folder: string;

test.before(async () => {
  edge = testEdge({ apiKey: KEY, clock: systemClock, exec: await insideExec() });
  edge.cluster.addWorkload("app");
  edge.cluster.addClaim({
    ...{ tenantId: "a", workloadRef: "app" },
    status: {
      ...{ phase: "Active", instanceId: "inst-a", endpoint: { host: "10.0.0.1", port: 8080 }, source: "cold" },
      claimedAt: "2026-01-01T00:00:00Z",
    },
  });
  server = await (await chooseServe())({
    ...{ handler: edge.handler, listen: { hostname: "127.0.0.1", port: 0 }, log: silentLog },
  });
  client = envdClient(server.url, { "e2b-sandbox-id": "app--a", "x-api-key": KEY });
  folder = mkdtempSync(join(tmpdir(), "tenancy-envd-limits-"));
});
test.after(async () => {
  await edge.channels.close();
  await server.stop({ graceMs: 500 });
  rmSync(folder, { recursive: true, force: true });
});

const fs = (call: string, message: object) => client.unary(`filesystem.Filesystem/${call}`, message);

/** Starts a process, and leaves its stream. */
async function startAndLeave(message: object): Promise<number> {
  const gone = new AbortController();
  const messages = await client.stream("process.Process/Start", message, { signal: gone.signal });
  const { content } = (await messages.next()).value as Message;
  gone.abort();
  // A runtime may throw the abort here.
  await messages.return().catch(() => undefined);
  return content.event?.start.pid;
}

test("processes with the longest arguments are listed with their start, found by tag, and shown whole", async () => {
  const long = Array.from({ length: 7 }, () => "ü<".repeat(20_000));
  const pids: number[] = [];
  for (let index = 0; index < 12; index += 1)
    pids.push(await startAndLeave({ process: sh("exec sleep 1000", ...long), tag: `t${index}` }));
  const { processes } = await client.unary("process.Process/List", {});
  assert.equal(
    processes.map(({ pid, tag }: { pid: number; tag: string }) => [pid, tag]),
    pids.map((pid, index) => [pid, `t${index}`]),
  );
  const { args } = processes[0].config;
  assert.equal([args.length, args.slice(0, 2)], [3, ["-c", "exec sleep 1000"]]);
  const [, shown = "", missing] = /^((?:ü<)+ü?)… \((\d+) more bytes\)$/.exec(args[2]) ?? [];
  assert.is(Buffer.byteLength(shown) + Number(missing), 7 * 60_000);
  const rest = async (path: string) => {
    const headers = { authorization: `Bearer ${KEY}` };
    return (await edge.call(`GET /api/v1/tenants/a/instances/app/processes${path}`, { headers })).json;
  };
  assert.is(((await rest("")) as object[]).length, 12);
  const [pid] = pids;
  const one = await edge.call(`POST /api/v1/tenants/a/instances/app/processes/${pid}/signal`, {
    ...{ headers: { authorization: `Bearer ${KEY}` }, body: { signal: "CONT" } },
  });
  assert.equal((one.json as { command: string[] }).command, ["/bin/sh", "-c", "exec sleep 1000", ...long]);
  for (const tag of pids.map((_, index) => `t${index}`))
    await client.unary("process.Process/SendSignal", { process: { tag }, signal: "SIGNAL_SIGKILL" });
  const { error } = await ran(
    await client.stream("process.Process/Start", { process: sh("true"), tag: "x".repeat(1025) }),
  );
  assert.match(error?.message ?? "", /tag: must have at most 1024 characters/);
});

test("a time limit of more than a timer takes does not end the call at once", async () => {
  for (const limitMs of ["2147483648", "9999999999"]) {
    const headers = { "connect-timeout-ms": limitMs };
    const process = sh("read line; echo got $line");
    const messages = await client.stream("process.Process/Start", { process, stdin: true }, { headers });
    const { content } = (await messages.next()).value as Message;
    const input = { process: { pid: content.event?.start.pid }, input: { stdin: btoa("it\n") } };
    await client.unary("process.Process/SendInput", input, headers);
    const { stdout, error } = await ran(messages);
    assert.equal([stdout, error], ["got it\n", undefined]);
  }
});

test("a busy edge is no end of the sandbox", () => {
  const codeOf = (status: number) => connectErrorOf(new HttpError(status, "why")).code;
  assert.equal([502, 503, 504].map(codeOf), ["unavailable", "resource_exhausted", "deadline_exceeded"]);
});

test("a watcher whose folder has gone counts until it is removed", async () => {
  const watcherIds: string[] = [];
  const watch = async (name: string) => {
    const path = join(folder, name);
    mkdirSync(path);
    const { watcherId } = await fs("CreateWatcher", { path });
    watcherIds.push(watcherId);
    rmSync(path, { recursive: true });
    // Once the end was told, the folder is not watched any more.
    await eventually(async () => (await errorOf(fs("GetWatcherEvents", { watcherId }))) !== undefined);
  };
  for (let index = 0; index < 16; index += 1) await watch(`gone${index}`);
  const refused = await errorOf(watch("another"));
  assert.match(String(refused), /resource_exhausted: .*16 folders are watched already|unavailable: .*16 folders/);
  await fs("RemoveWatcher", { watcherId: watcherIds[0] });
  await watch("after");
  for (const watcherId of watcherIds.slice(1)) await fs("RemoveWatcher", { watcherId });
});

test("changes that a client has not got, since it left, are told by the next call", async () => {
  const path = join(folder, "left");
  mkdirSync(path);
  const [{ watcherId }, other] = [await fs("CreateWatcher", { path }), await fs("CreateWatcher", { path })];
  const named = (events: { name: string }[]) => events.map(({ name }) => name);
  const headers = { "e2b-sandbox-id": "app--a", "x-api-key": KEY, "content-type": "application/json" };
  const left: number[] = [];
  for (let index = 0; index < 40; index += 1) {
    const file = `f${index}`;
    writeFileSync(join(path, file), "");
    // By then the watcher has most probably got it too.
    await eventually(async () => named((await fs("GetWatcherEvents", other)).events).includes(file));
    const gone = new AbortController();
    const request = new Request("http://x/filesystem.Filesystem/GetWatcherEvents", {
      ...{ method: "POST", headers, body: JSON.stringify({ watcherId }) },
    });
    const answered = edge.handler(request, { clientGone: gone.signal });
    for (let turn = 0; turn < index % 10; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    gone.abort(new Error("left"));
    const answer = await answered;
    left.push(answer.status);
    const told = answer.status === 200 ? named(((await answer.json()) as { events: { name: string }[] }).events) : [];
    await eventually(async () => {
      if (!told.includes(file)) told.push(...named((await fs("GetWatcherEvents", { watcherId })).events));
      return told.includes(file);
    });
  }
  assert.ok(left.includes(499));
});

test("a list of many megabytes is sent whole at its client's pace, or is refused", async () => {
  const path = `${folder}/many/${"d".repeat(200)}/${"d".repeat(200)}/${"d".repeat(200)}`;
  mkdirSync(path, { recursive: true });
  const expected = Array.from({ length: 2500 }, (_, index) => `${index}${"f".repeat(200)}`).sort();
  for (const name of expected) writeFileSync(join(path, name), "");
  const { entries } = await fs("ListDir", { path });
  assert.equal(
    entries.map(({ name }: { name: string }) => name),
    expected,
  );
  // A fifth list is not made while four of the tenant are not read.
  const unread: Response[] = [];
  const asked = Array.from({ length: 5 }, async () => {
    const answer = await edge.handler(
      new Request("http://x/filesystem.Filesystem/ListDir", {
        ...{ method: "POST", body: JSON.stringify({ path }) },
        headers: { "e2b-sandbox-id": "app--a", "x-api-key": KEY, "content-type": "application/json" },
      }),
    );
    if (answer.status === 200) unread.push(answer);
  });
  await eventually(() => unread.length >= 4);
  for (let count = 0; count < 20; count += 1) await fs("Stat", { path });
  assert.is(unread.length, 4);
  for (const { body } of unread) await body?.cancel();
  await Promise.all(asked);
  assert.is(unread.length, 5);
  await unread[4]?.body?.cancel();
  for (let index = 2500; index < 8000; index += 1) writeFileSync(join(path, `${index}${"f".repeat(200)}`), "");
  assert.match(String(await errorOf(fs("ListDir", { path }))), /list its folders one by one/);
});

test.run();
