// @runtimes bun node deno
// @limit 300
// What a stranger, another key, a page or a wrong message gets from /mcp.
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { createOpenCalls } from "../../../edge/mcp/open-calls.ts";
import { errorOf } from "../../error-of.ts";
import { eventually } from "../../eventually.ts";
import { testEdge } from "../edge/test-edge.ts";
import { clientEdge, INSTANCE, KEY } from "../rest-client/client-edge.ts";
import { connectMcp } from "./mcp-client.ts";

const test = suite("mcp: hostile callers");
let running: Awaited<ReturnType<typeof clientEdge>>;
const keys: Record<string, { key: string; id: string }> = {};
const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

test.before(async () => {
  running = await clientEdge({ hasKeys: true });
  for (const [name, body] of Object.entries({
    ann: { role: "tenant", tenants: ["ann"] },
    bob: { role: "tenant", tenants: ["bob"] },
    reader: { role: "reader" },
    leaving: { role: "tenant", tenants: ["ann"] },
  })) {
    const made = await running.edge.call("POST /api/v1/keys", { body: { name, ...body }, headers: bearer(KEY) });
    keys[name] = made.json as { key: string; id: string };
  }
});
test.after(() => running.stop());

const keyOf = (name: string): string => keys[name]?.key ?? "";
const types = { "content-type": "application/json", accept: "application/json, text/event-stream" };
const ping = { jsonrpc: "2.0", id: 1, method: "ping" };

async function post(headers: Record<string, string>, message: unknown = ping) {
  return await running.edge.call("POST /mcp", { headers: { ...types, ...headers }, body: message });
}

async function newSession(key: string): Promise<string> {
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } };
  const { status, headers } = await post(bearer(key), { jsonrpc: "2.0", id: 1, method: "initialize", params });
  assert.is(status, 200);
  return headers.get("mcp-session-id") ?? "";
}

const ofSession = (key: string, session: string) => ({ ...bearer(key), "mcp-session-id": session });

test("without a valid key nothing is answered, and the audit log has it", async () => {
  const before = running.edge.audited.length;
  for (const headers of [{}, bearer("wrong"), { "x-api-key": "wrong" }, { "x-api-key": "a b" }, { cookie: "a=b" }])
    assert.is((await post(headers)).status, 401);
  const added = running.edge.audited.slice(before).map((line) => JSON.parse(line));
  assert.equal(
    added.map(({ route, status, actor }) => [route, status, actor.kind]),
    Array.from({ length: 5 }, () => ["/mcp", 401, "unknown"]),
  );
  assert.is((await post({ "x-api-key": KEY })).status, 200);
});

test("a key of another tenant gets what a tenant without a claim gets, and a reader runs nothing", async () => {
  const bob = await connectMcp(running.url, bearer(keyOf("bob")));
  for (const [name, given] of Object.entries({
    claim: {},
    run: { command: ["true"] },
    write_file: { path: "/tmp/x", content: "" },
    read_file: { path: "/etc/passwd" },
    list_files: {},
    logs: {},
    checkpoint: {},
    release: {},
  })) {
    const { isError, text } = await bob.call(name, given);
    assert.equal([isError, text], [true, 'tenant "ann" does not exist for this key'], name);
  }
  const uri = "tenancy://ann/app/files/etc/passwd";
  assert.match(((await errorOf(bob.client.readResource({ uri }))) as Error).message, "does not exist for this key");
  await bob.client.close();
  const reader = await connectMcp(running.url, bearer(keyOf("reader")));
  assert.match((await reader.call("run", { command: ["true"] })).text, "a key of the role reader may not");
  await reader.client.close();
});

test("what a tool does is in the audit log with the key and the address, and a list of tools is not", async () => {
  const before = running.edge.audited.length;
  const message = (method: string, params: object) => ({ jsonrpc: "2.0", id: 1, method, params });
  await post(bearer(keyOf("ann")), message("tools/list", {}));
  assert.is(running.edge.audited.length, before);
  const given = { tenant: "ann", workload: "app", command: ["true"] };
  await post(bearer(keyOf("ann")), message("tools/call", { name: "run", arguments: given }));
  const { actor, address, route, object } = JSON.parse(running.edge.audited.at(-1) ?? "");
  assert.equal([actor.id, address, object.tenant], [keys.ann?.id, "192.0.2.7", "ann"]);
  assert.is(route, "/api/v1/tenants/:id/instances/:workload/processes");
});

test("a session is of one key, on every replica with the same TENANCY_API_KEY, and no other is known", async () => {
  const session = await newSession(keyOf("ann"));
  assert.is((await post(ofSession(keyOf("ann"), session))).status, 200);
  for (const [key, id] of [
    [keyOf("bob"), session],
    [KEY, session],
    [keyOf("ann"), `${session.slice(0, -2)}xx`],
    [keyOf("ann"), "made-up"],
  ] as const) {
    const { status, json } = await post(ofSession(key, id));
    assert.is(status, 404);
    assert.match(JSON.stringify(json), "begin a new one with initialize");
  }
  const root = await newSession(KEY);
  const headers = { ...types, ...ofSession(KEY, root) };
  assert.is((await testEdge({ apiKey: KEY }).call("POST /mcp", { headers, body: ping })).status, 200);
  assert.is((await testEdge({ apiKey: "other" }).call("POST /mcp", { headers, body: ping })).status, 401);
});

test("a cancellation ends no call of another session", async () => {
  const end = new AbortController();
  const ann = await connectMcp(running.url, bearer(keyOf("ann")));
  const pieces: string[] = [];
  const options = {
    signal: end.signal,
    onprogress: ({ message }: { message?: string | undefined }) => void pieces.push(message ?? ""),
  };
  const script = "echo begun; read line; echo $line; sleep 1000";
  const called = ann.call("run", { command: ["/bin/sh", "-c", script], stdin: "" }, options).catch(() => undefined);
  await eventually(() => pieces.length > 0);
  const other = await newSession(keyOf("ann"));
  for (let id = 0; id < 5; id += 1)
    await post(ofSession(keyOf("ann"), other), {
      jsonrpc: "2.0",
      method: "notifications/cancelled",
      params: { requestId: id },
    });
  assert.is(await processes(), 1);
  end.abort();
  await called;
  await eventually(async () => (await processes()) === 0);
  await ann.client.close();
});

test("the end of a key ends its calls and what they run", async () => {
  const { key = "", id = "" } = keys.leaving ?? {};
  const mcp = await connectMcp(running.url, bearer(key));
  const begun = new Promise<void>((resolve) => {
    mcp
      .call("run", { command: ["/bin/sh", "-c", "echo begun; sleep 1000"] }, { onprogress: () => resolve() })
      .catch(() => undefined);
  });
  await begun;
  await running.edge.call(`DELETE /api/v1/keys/${id}`, { headers: bearer(KEY) });
  await eventually(async () => (await processes()) === 0);
  assert.match(((await errorOf(mcp.call("claim"))) as Error).message, "wrong API key");
  await mcp.client.close();
});

async function processes(): Promise<number> {
  const { json } = await running.edge.call(`GET /api/v1/instances/${INSTANCE}/processes`, { headers: bearer(KEY) });
  return (json as unknown[]).length;
}

test("messages that are too large, too deep, several at once or none are refused", async () => {
  const content = "x".repeat(1024 * 1024);
  for (const [message, status] of [
    [{ ...ping, params: { content } }, 413],
    [`${"[".repeat(100_000)}`, 400],
    [[ping, ping], 400],
    ["no JSON", 400],
    [{ method: "ping" }, 400],
    [{ ...ping, params: null }, 400],
  ] as const)
    assert.is((await post(bearer(KEY), message)).status, status);
  assert.is((await post({ ...bearer(KEY), accept: "application/json" })).status, 406);
  assert.is((await post({ ...bearer(KEY), "mcp-protocol-version": "1999-01-01" })).status, 400);
  for (const method of ["GET", "DELETE", "PUT"]) {
    const { status, headers } = await running.edge.call(`${method} /mcp`, { headers: bearer(KEY) });
    assert.equal([status, headers.get("allow")], [405, "POST"]);
  }
});

test("a thousand sessions are valid beside each other", async () => {
  const sessions = new Set<string>();
  for (let i = 0; i < 1000; i += 1) sessions.add(await newSession(KEY));
  assert.is(sessions.size, 1000);
  for (const session of sessions) assert.is((await post(ofSession(KEY, session))).status, 200);
});

test("the open messages of a key are limited, and forgotten when they end", async () => {
  const calls = createOpenCalls(2);
  const ended: string[] = [];
  const add = (ref: string, id: number) =>
    calls.add({ ref, session: ref, id, end: () => void ended.push(`${ref}${id}`) });
  const first = add("a", 1);
  const second = add("a", 2);
  assert.throws(() => add("a", 3), /2 messages of this key are open/);
  add("b", 1);
  first();
  first();
  add("a", 1);
  assert.throws(() => add("a", 4), /2 messages/);
  second();
  calls.cancel("a", 2);
  calls.cancel("a", "1");
  calls.cancel("a", 1);
  assert.equal(ended, ["a1"]);
});

test("without a key, pages of other sites and names that were made to point here are refused", async () => {
  const open = testEdge();
  const closed = testEdge({ localOnly: true });
  const asked = (edge: typeof open, headers: Record<string, string>) =>
    edge.call("POST /mcp", { headers: { ...types, ...headers }, body: ping });
  assert.is((await asked(open, {})).status, 200);
  assert.is((await asked(open, { "sec-fetch-site": "cross-site" })).status, 403);
  assert.is((await asked(closed, { host: "evil.example" })).status, 403);
  assert.is((await asked(closed, { host: "localhost:8080" })).status, 200);
});

test.run();
