// @runtimes bun node deno
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer as createSecureServer } from "node:https";
import { type AddressInfo, connect as connectTo, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "uvu";
import * as assert from "uvu/assert";
import { NetworkError } from "../../../crds/client/api-error.ts";
import { createTransport, type RequestRecord, type Transport } from "../../../crds/client/transport.ts";
import { makeSelfSigned } from "../../../operator/snapshots/self-signed.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { manualClock } from "../manual-clock.ts";
import { answerJson, type FakeApiServer, startFakeApiServer } from "./fake-api-server.ts";

const limits = { limitMs: 60_000, intervalMs: 2 };
const servers: (FakeApiServer | { close(): unknown })[] = [];
const transports: Transport[] = [];

test.after.each(async () => {
  for (const transport of transports.splice(0)) transport.close();
  for (const server of servers.splice(0)) await server.close();
});

async function serve(answer: Parameters<typeof startFakeApiServer>[0]): Promise<FakeApiServer> {
  const server = await startFakeApiServer(answer);
  servers.push(server);
  return server;
}

function connect(server: string, options: Partial<Parameters<typeof createTransport>[0]> = {}): Transport {
  const transport = createTransport({ config: { server }, ...options });
  transports.push(transport);
  return transport;
}

async function networkError(promise: Promise<unknown>): Promise<NetworkError> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof NetworkError) return error;
    throw error;
  }
  throw new Error("there was an answer");
}

test("createTransport sends what it is told under the server's path, and says who it is", async () => {
  const server = await serve((_, response) => answerJson(response, { ok: true }));
  const transport = connect(`${server.url}/k8s/one/`, { role: "operator", version: "1.2.3" });
  const answer = await transport.request({ method: "POST", path: "/api?x=1", body: '{"é":1}' });
  assert.is(answer.status, 200);
  assert.equal(JSON.parse(answer.body.toString()), { ok: true });
  const [request] = server.requests;
  assert.equal([request?.method, request?.path, request?.body], ["POST", "/k8s/one/api", '{"é":1}']);
  const { accept, "user-agent": agent, "content-type": type, "content-length": length } = request?.headers ?? {};
  assert.equal([accept, agent, type, length], ["application/json", "tenancy-operator/1.2.3", "application/json", "8"]);
});

test("createTransport keeps few connections for many calls, and no more than it may", async () => {
  const server = await serve((_, response) => answerJson(response, {}));
  const transport = connect(server.url, { maxSockets: 4 });
  for (let index = 0; index < 20; index++) await transport.request({ method: "GET", path: "/" });
  assert.is(server.connections(), 1);
  await Promise.all(Array.from({ length: 100 }, () => transport.request({ method: "GET", path: "/" })));
  assert.ok(server.connections() <= 4, `${server.connections()} connections`);
});

test("createTransport gives streams connections of their own", async () => {
  const server = await serve((request, response) => {
    if (request.path === "/stream") response.writeHead(200).write("x");
    else answerJson(response, {});
  });
  const transport = connect(server.url, { maxSockets: 1 });
  const streams = await Promise.all([1, 2, 3].map(() => transport.stream({ method: "GET", path: "/stream" })));
  assert.is((await transport.request({ method: "GET", path: "/" })).status, 200);
  for (const stream of streams) if (stream.kind === "stream") stream.response.on("error", () => undefined).destroy();
});

test("createTransport lets no call wait for pods that an admission webhook holds up", async () => {
  const held: (() => void)[] = [];
  const server = await serve((request, response) => {
    if (request.method === "POST") held.push(() => answerJson(response, {}));
    else answerJson(response, {});
  });
  const transport = connect(server.url, { maxSockets: 1 });
  const create = { method: "POST", path: "/pods", body: "{}", verb: "create", resource: "pods" } as const;
  const creates = [1, 2, 3].map(() => transport.request(create));
  const bind = { method: "PATCH", path: "/pods/p", body: "{}", verb: "patch", resource: "pods" } as const;
  assert.is((await transport.request(bind)).status, 200);
  const all = Promise.all(creates);
  let done = false;
  void all.then(() => (done = true));
  while (!done) {
    for (const answer of held.splice(0)) answer();
    await new Promise((resolve) => setImmediate(resolve));
  }
  for (const { status } of await all) assert.is(status, 200);
});

test("createTransport resolves a stream that is refused with the whole answer", async () => {
  const server = await serve((_, response) => answerJson(response, { reason: "Expired" }, { status: 410 }));
  const opened = await connect(server.url).stream({ method: "GET", path: "/" });
  assert.ok(opened.kind === "refusal");
  assert.equal([opened.answer.status, opened.answer.body.toString()], [410, '{"reason":"Expired"}']);
});

test("createTransport sends a GET again that met a connection the server had closed", async () => {
  const server = await serve((request, response) => {
    // The second request on a connection ends it without a byte, as a server does whose idle time ran out at that
    // moment.
    const { socket } = request as unknown as { socket: { served?: boolean; destroy(): void } };
    if (socket.served) socket.destroy();
    else answerJson(response, {});
    socket.served = true;
  });
  const transport = connect(server.url);
  for (let index = 0; index < 4; index++)
    assert.is((await transport.request({ method: "GET", path: "/" })).status, 200);
  assert.ok(server.requests.length > 4, "none was sent again");
});

test("createTransport never sends a write again that may have been carried out", async () => {
  const server = await serve((request, response) => {
    if (request.method === "GET") answerJson(response, {});
    else request.socket.destroy();
  });
  const transport = connect(server.url);
  for (const method of ["POST", "PUT", "PATCH", "DELETE"] as const) {
    await transport.request({ method: "GET", path: "/" });
    const error = await networkError(transport.request({ method, path: "/", body: "{}" }));
    assert.is(error.requestWasSent, true);
    assert.is(server.requests.filter((request) => request.method === method).length, 1, method);
  }
});

test("createTransport never sends a write again that was aborted or timed out on a kept connection", async () => {
  const server = await serve((request, response) => {
    if (request.method === "GET") answerJson(response, {});
  });
  const clock = manualClock();
  const transport = connect(server.url, { clock });
  const writes = () => server.requests.filter((request) => request.method === "POST").length;

  await transport.request({ method: "GET", path: "/" });
  const stop = new AbortController();
  const aborted = transport.request({ method: "POST", path: "/", body: "{}", signal: stop.signal });
  await waitUntil(() => writes() === 1, { what: "the first write", ...limits });
  stop.abort(new Error("stopped"));
  assert.match(String(await aborted.catch((error: unknown) => error)), "stopped");

  await transport.request({ method: "GET", path: "/" });
  const timedOut = networkError(transport.request({ method: "POST", path: "/", body: "{}" }));
  await waitUntil(() => writes() === 2, { what: "the second write", ...limits });
  await clock.runNext();
  assert.is((await timedOut).requestWasSent, true);

  // Whatever would still be sent would arrive before these.
  await transport.request({ method: "GET", path: "/" });
  await transport.request({ method: "GET", path: "/" });
  assert.is(writes(), 2);
});

test("createTransport says that nothing was sent where it could not connect", async () => {
  const server = await startFakeApiServer((_, response) => answerJson(response, {}));
  await server.close();
  const error = await networkError(connect(server.url).request({ method: "POST", path: "/x", body: "{}" }));
  assert.is(error.requestWasSent, false);
  assert.match(error.message, `Cannot POST ${server.url}/x: `);
  assert.ok(error.cause instanceof Error);
});

test("createTransport fails when an answer ends in the middle", async () => {
  const server = await serve((request, response) => {
    response.writeHead(200, { "content-length": "100" });
    response.write("half", () => request.socket.destroy());
  });
  const error = await networkError(connect(server.url).request({ method: "GET", path: "/" }));
  assert.is(error.requestWasSent, true);
  assert.is(server.requests.length, 1);
});

test("createTransport gives up when its time is over, also in the middle of an answer", async () => {
  const server = await serve((request, response) => {
    if (request.path === "/half") response.writeHead(200, { "content-length": "100" }).write("half");
  });
  for (const path of ["/none", "/half"]) {
    const clock = manualClock();
    const pending = networkError(connect(server.url, { clock, timeoutMs: 7000 }).request({ method: "GET", path }));
    await waitUntil(() => server.requests.some((request) => request.path === path), { what: path, ...limits });
    assert.is(await clock.runNext(), 7000);
    assert.match((await pending).message, /no answer within 7000 ms/);
  }
});

test("createTransport keeps no idle connection after one was found dead", async () => {
  const server = await serve((request, response) => {
    if (request.path !== "/none") answerJson(response, {});
  });
  const clock = manualClock();
  const transport = connect(server.url, { clock });
  await Promise.all([1, 2, 3, 4].map(() => transport.request({ method: "GET", path: "/" })));
  assert.is(server.connections(), 4);
  const pending = networkError(transport.request({ method: "GET", path: "/none" }));
  await waitUntil(() => server.requests.length === 5, { what: "the request", ...limits });
  await clock.runNext();
  await pending;
  await waitUntil(() => server.connections() === 0, { what: "all connections to close", ...limits });
});

test("createTransport ends a call at once when its signal is aborted, and leaves no connection behind", async () => {
  const server = await serve(() => undefined);
  const stop = new AbortController();
  const pending = connect(server.url).request({ method: "GET", path: "/", signal: stop.signal });
  await waitUntil(() => server.requests.length === 1, { what: "the request", ...limits });
  const reason = new Error("stopped");
  stop.abort(reason);
  assert.is(await pending.catch((error: unknown) => error), reason);
  await waitUntil(() => server.connections() === 0, { what: "the connection to close", ...limits });
  const late = connect(server.url).request({ method: "GET", path: "/", signal: stop.signal });
  assert.is(await late.catch((error: unknown) => error), reason);
});

test("createTransport fails what is under way when it is closed, and what comes later", async () => {
  const server = await serve(() => undefined);
  const transport = connect(server.url);
  const pending = networkError(transport.request({ method: "GET", path: "/" }));
  await waitUntil(() => server.requests.length === 1, { what: "the request", ...limits });
  transport.close();
  assert.instance(await pending, NetworkError);
  assert.match(
    (await networkError(transport.request({ method: "GET", path: "/" }))).message,
    /the transport is closed/,
  );
});

test("createTransport waits as long as a throttling server asks, within the call's own time", async () => {
  let throttle = 2;
  const server = await serve((_, response) => {
    if (throttle-- > 0) answerJson(response, {}, { status: 429, headers: { "retry-after": "3" } });
    else answerJson(response, { done: true });
  });
  const clock = manualClock(undefined, { longestPauseMs: 30_000 });
  const transport = connect(server.url, { clock, timeoutMs: 60_000 });
  assert.is((await transport.request({ method: "POST", path: "/", body: "{}" })).status, 200);
  assert.equal([server.requests.length, clock.delays], [3, [3000, 3000]]);
  throttle = Number.POSITIVE_INFINITY;
  assert.is((await connect(server.url).request({ method: "GET", path: "/", timeoutMs: 2000 })).status, 429);
  assert.is(server.requests.length, 4);
});

test("createTransport sends nothing after the call's time, also where its timers were late", async () => {
  const server = await serve((_, response) =>
    answerJson(response, {}, { status: 429, headers: { "retry-after": "3" } }),
  );
  const clock = manualClock(undefined, { longestPauseMs: 13_000 });
  // As where the process was suspended for ten seconds.
  const late = { now: clock.now, after: (ms: number, run: () => void) => clock.after(ms + 10_000, run) };
  const transport = connect(server.url, { clock: late });
  assert.is((await transport.request({ method: "POST", path: "/", body: "{}", timeoutMs: 7500 })).status, 429);
  assert.equal([server.requests.length, clock.delays], [1, [13_000]]);
  const ended = await networkError(transport.request({ method: "POST", path: "/", body: "{}", timeoutMs: 0 }));
  assert.is(ended.requestWasSent, false);
  assert.is(server.requests.length, 1);
});

test("createTransport sends nothing on a connection that it gets after the call's time", async () => {
  let answer = (): void => undefined;
  const server = await serve((_, response) => {
    answer = () => answerJson(response, {});
  });
  const clock = manualClock();
  const transport = connect(server.url, { clock, maxSockets: 1 });
  const first = transport.request({ method: "GET", path: "/first" });
  await waitUntil(() => server.requests.length === 1, { what: "the first request", ...limits });
  const second = networkError(transport.request({ method: "POST", path: "/second", body: "{}", timeoutMs: 1000 }));
  for (let turns = 0; turns < 3; turns += 1) await new Promise((resolve) => setImmediate(resolve));
  // As where the process is suspended: its timers have not run yet.
  clock.set(clock.now() + 3000);
  answer();
  await first;
  assert.match((await second).message, "no answer within 1000 ms");
  const third = transport.request({ method: "GET", path: "/third" });
  await waitUntil(() => server.requests.length > 1, { what: "the third request", ...limits });
  answer();
  await third;
  assert.equal(
    server.requests.map(({ path }) => path),
    ["/first", "/third"],
  );
});

test("createTransport sends nothing after the call's time where the handshake was under way until then", async () => {
  const [from, until] = [new Date(Date.now() - 3_600_000), new Date(Date.now() + 3_600_000)];
  const { certificate, key } = makeSelfSigned({ name: "localhost", from, until });
  const requests: string[] = [];
  const server = createSecureServer({ cert: certificate, key }, (request, response) => {
    requests.push(request.url ?? "");
    response.end("{}");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // Holds the client's first bytes back.
  let go = (): void => undefined;
  const between = createServer((client) => {
    go = () => {
      const behind = connectTo((server.address() as AddressInfo).port, "127.0.0.1");
      client.pipe(behind).pipe(client);
      for (const socket of [client, behind]) socket.on("error", () => undefined);
    };
  });
  await new Promise<void>((resolve) => between.listen(0, "127.0.0.1", resolve));
  servers.push(between, server);
  const clock = manualClock();
  const url = `https://localhost:${(between.address() as AddressInfo).port}`;
  const transport = connect(url, { config: { server: url, caData: certificate }, clock });
  const late = networkError(transport.request({ method: "POST", path: "/late", body: "{}", timeoutMs: 1000 }));
  const connected = new Promise<void>((resolve) => between.once("connection", () => resolve()));
  await connected;
  // As where the process is suspended: its timers have not run yet.
  clock.set(clock.now() + 3000);
  go();
  const { message, requestWasSent } = await late;
  assert.match(message, "no answer within 1000 ms");
  assert.is(requestWasSent, false);
  const next = transport.request({ method: "POST", path: "/next", body: "{}" });
  await new Promise<void>((resolve) => between.once("connection", () => resolve()));
  go();
  assert.is((await next).status, 200);
  assert.equal(requests, ["/next"]);
});

test("createTransport gives in to a server that throttles again and again", async () => {
  const server = await serve((_, response) =>
    answerJson(response, {}, { status: 429, headers: { "retry-after": "1" } }),
  );
  const transport = connect(server.url, {
    clock: manualClock(undefined, { longestPauseMs: 30_000 }),
    timeoutMs: 60_000,
  });
  assert.is((await transport.request({ method: "GET", path: "/" })).status, 429);
  assert.is(server.requests.length, 6);
});

test("createTransport reads a rotated token file after a 401, and asks once more", async () => {
  const folder = await mkdtemp(join(tmpdir(), "token-"));
  const tokenFile = join(folder, "token");
  await writeFile(tokenFile, "old\n");
  let valid = "old";
  const server = await serve((request, response) => {
    answerJson(response, {}, { status: request.headers.authorization === `Bearer ${valid}` ? 200 : 401 });
  });
  const transport = connect(server.url, { config: { server: server.url, tokenFile } });
  const call = async () => (await transport.request({ method: "POST", path: "/", body: "{}" })).status;
  assert.is(await call(), 200);
  valid = "new";
  assert.is(await call(), 401);
  assert.is(server.requests.length, 2, "the same token is not sent twice");
  await writeFile(tokenFile, "new\n");
  assert.is(await call(), 200);
  assert.is(server.requests.length, 4);
  await rm(folder, { recursive: true });
});

test("createTransport looks at a token file again without being refused, and lives through its absence", async () => {
  const folder = await mkdtemp(join(tmpdir(), "token-"));
  const tokenFile = join(folder, "token");
  await writeFile(tokenFile, "one");
  const server = await serve((_, response) => answerJson(response, {}));
  const clock = manualClock();
  const warnings: string[] = [];
  const warn = (_: object, message: string) => warnings.push(message);
  const log = { debug: warn, info: warn, warn, error: warn };
  const transport = connect(server.url, { config: { server: server.url, tokenFile }, clock, log });
  async function tokenAfter(seconds: number): Promise<string | undefined> {
    clock.after(seconds * 1000, () => undefined);
    await clock.runNext();
    await transport.request({ method: "GET", path: "/" });
    return server.requests.at(-1)?.headers.authorization;
  }
  assert.is(await tokenAfter(0), "Bearer one");
  await writeFile(tokenFile, "two");
  assert.is(await tokenAfter(5), "Bearer one");
  assert.is(await tokenAfter(5), "Bearer two");
  await rm(folder, { recursive: true });
  assert.is(await tokenAfter(10), "Bearer two");
  assert.equal(warnings, ["cannot read the cluster credential again, the last one stays in use"]);
});

test("createTransport names the file that it cannot read, or that is empty", async () => {
  const tokenFile = join(tmpdir(), "no-such-token");
  const missing = connect("http://127.0.0.1:1", { config: { server: "http://127.0.0.1:1", tokenFile } });
  const error = await missing.request({ method: "GET", path: "/" }).catch((cause: unknown) => cause);
  assert.match(String(error), `Cannot read the token ${tokenFile}: `);
  assert.throws(
    () => createTransport({ config: { server: "ftp://one" } }),
    /Cannot connect to the API server "ftp:\/\/one"/,
  );
  assert.throws(() => createTransport({ config: { server: "one" } }), /not an http or https URL/);
});

test("createTransport reports every try to onRequest", async () => {
  const server = await serve((_, response) => answerJson(response, { a: 1 }, { status: 404 }));
  const records: RequestRecord[] = [];
  const transport = connect(server.url, { onRequest: (record) => records.push(record) });
  await transport.request({ method: "GET", path: "/", verb: "list", resource: "pods" });
  await server.close();
  await networkError(transport.request({ method: "DELETE", path: "/" }));
  const seen = records.map(({ durationMs, ...rest }) => ({ ...rest, timed: durationMs > 0 }));
  assert.equal(seen, [
    { verb: "list", resource: "pods", status: 404, bytes: 7, timed: true },
    { verb: "delete", resource: "", status: 0, bytes: 0, timed: true },
  ]);
});

test("createTransport fails on what is no HTTP", async () => {
  const server: Server = createServer((socket) => socket.end("220 mail.example.com ESMTP\r\n"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  servers.push(server);
  const { port } = server.address() as { port: number };
  await networkError(connect(`http://127.0.0.1:${port}`).request({ method: "GET", path: "/" }));
});

test.run();
