import { once } from "node:events";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import WebSocket from "ws";
import { type Clock, systemClock } from "../../../crds/client/clock.ts";
import { createDeferred } from "../../../crds/waits.ts";
import { root } from "../../../edge/access/actor.ts";
import { createEventHub, type EventHub } from "../../../edge/api/events/event-hub.ts";
import { eventsRoute } from "../../../edge/api/events/routes.ts";
import { healthRoute } from "../../../edge/api/system.ts";
import { createAudit } from "../../../edge/audit/audit.ts";
import { createApiKeyCheck, createFindActor } from "../../../edge/http/api-key.ts";
import type { EventSocket, SocketListener } from "../../../edge/http/event-socket.ts";
import { createHandler, type Handler } from "../../../edge/http/handler.ts";
import { createPageCheck } from "../../../edge/http/page-check.ts";
import { createSessions, type Sessions } from "../../../edge/http/session.ts";
import type { Serve, Server } from "../../../edge/serve/serve.ts";
import { eventually } from "../../eventually.ts";
import { manualClock } from "../manual-clock.ts";
import { silentLog } from "../silent-log.ts";
import { openWire } from "./open-wire.ts";

const standing = () => ({ fresh: true, versions: { claims: "7" } });

/** A client of `/ws`, with what it got. */
interface Client {
  socket: WebSocket;
  messages: { id: string; type: string; object?: { name: string } }[];
  closed: Promise<number>;
}

/**
 * What `/ws` must do on every runtime, over real sockets; runs at once.
 *
 * @param options.lingers whether the runtime keeps a timer for a client that broke off, which would hold the process up
 */
export function socketSuite(name: string, serve: Serve, { lingers = false }: { lingers?: boolean } = {}): void {
  const test = suite(`${name}: /ws`);
  let hub: EventHub;
  let server: Server;

  test.before.each(async () => {
    hub = createEventHub({ instance: "edge1", clock: systemClock, standing });
    server = await serve({ handler: handlerOf(hub), listen: { hostname: "127.0.0.1", port: 0 }, log: silentLog });
  });
  test.after.each(async () => {
    hub.close();
    await server.stop({ graceMs: 500 });
  });

  // The figures are printed before the timer.
  test.after(() => void (lingers && setTimeout(() => process.exit(), 200)));

  test("the audit log has the start and the end of a socket that looks into an instance", async () => {
    const lines: string[] = [];
    const output = { write: (line: string) => void lines.push(line), close: async () => undefined };
    const opened: EventSocket[] = [];
    const listener: SocketListener = {
      protocols: [],
      onOpen: (socket) => void opened.push(socket),
      onMessage: () => undefined,
      onClose: () => undefined,
    };
    const path = "/api/v1/instances/:id/terminal";
    const handler = createHandler({
      routes: [{ method: "GET", path, handle: (_, { upgrade }) => upgrade?.(listener) ?? new Response() }],
      audit: createAudit({ output, asksForKey: false, clock: systemClock }),
      log: silentLog,
      instance: "test",
    });
    const own = await serve({ handler, listen: { hostname: "127.0.0.1", port: 0 }, log: silentLog });
    const url = `${own.url.replace("http", "ws")}/api/v1/instances/inst-a/terminal`;
    for (const closeCode of [1000, undefined]) {
      [lines.length, opened.length] = [0, 0];
      const socket = new WebSocket(url);
      await once(socket, "open");
      await eventually(() => opened.length === 1 && lines.length === 1);
      if (closeCode === undefined) socket.terminate();
      else opened[0]?.close(closeCode, "the process has ended");
      await eventually(() => lines.length === 2);
      const [start, end] = lines.map((line) => JSON.parse(line));
      assert.equal([start.stage, start.status, start.address], ["ResponseStarted", 101, "127.0.0.1"]);
      const { stage, ms, time, closeCode: code, ...rest } = end;
      assert.equal([stage, code], ["ResponseComplete", closeCode]);
      assert.ok(ms >= start.ms && time >= start.time);
      const { stage: _, ms: __, time: ___, ...same } = start;
      assert.equal(rest, same);
    }
    await own.stop({ graceMs: 500 });
  });

  function handlerOf(
    events: EventHub,
    { apiKey, sessions, clock = systemClock }: { apiKey?: string; sessions?: Sessions; clock?: Clock } = {},
  ): Handler {
    const checkPage = createPageCheck({ localOnly: true, origins: new Set(["https://app.example.com"]) });
    const authenticate = apiKey === undefined ? undefined : createApiKeyCheck(createFindActor(apiKey), sessions);
    return createHandler({
      routes: [healthRoute, eventsRoute({ events, checkPage, requireKey: apiKey !== undefined, clock, authenticate })],
      authenticate,
      log: silentLog,
      instance: "test",
    });
  }

  /** The hub with something between it and its clients. */
  function watch(events: EventHub, between: (listener: SocketListener) => SocketListener): EventHub {
    const client: EventHub["client"] = (wish) => between(events.client(wish));
    return Object.create(events, { client: { value: client } });
  }

  async function open(query = "", headers: Record<string, string> = {}): Promise<Client> {
    const socket = new WebSocket(`${server.url.replace("http", "ws")}/ws${query}`, { headers });
    const messages: Client["messages"] = [];
    socket.on("message", (data) => messages.push(JSON.parse(String(data))));
    const closed = new Promise<number>((resolve) => socket.on("close", resolve));
    const before = hub.size;
    await new Promise((resolve, reject) => socket.on("open", resolve).on("error", reject));
    await eventually(() => hub.size > before);
    return { socket, messages, closed };
  }

  const tell = (
    type: "instance.added" | "claim.active",
    tenant: string | undefined,
    object: string,
    workload = "app",
  ) => hub.publish({ type, tenant, workload, object: { name: object } });
  const names = ({ messages }: Client) => messages.map(({ type, object }) => `${type} ${object?.name ?? ""}`.trim());
  const handshake = (path: string, more = "") =>
    `GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-version: 13\r\n` +
    `${more || "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"}\r\n`;

  test("messages come in order, with id, type, time and object, and filters hold", async () => {
    const all = await open();
    const ofA = await open("?tenant=a");
    const types = await open("?type=claim&workload=app");
    for (let count = 0; count < 50; count += 1) tell("instance.added", count % 2 ? "a" : "b", `p${count}`);
    tell("claim.active", "a", "mine");
    tell("claim.active", "a", "other", "web");
    tell("instance.added", undefined, "warm");
    await eventually(() => all.messages.length === 53 && ofA.messages.length === 27 && types.messages.length === 1);
    assert.equal(Object.keys(all.messages[0] ?? {}), ["id", "type", "time", "object"]);
    assert.equal(
      all.messages.map(({ id }) => id),
      Array.from({ length: 53 }, (_, index) => `edge1-${index + 1}`),
    );
    assert.equal(names(types), ["claim.active mine"]);
    assert.is(names(ofA).at(-1), "claim.active other");
  });

  test("since replays what was missed before anything newer, or says resync", async () => {
    for (let count = 1; count <= 5; count += 1) tell("instance.added", "a", `p${count}`);
    const missed = await open("?since=edge1-3");
    tell("instance.added", "a", "p6");
    await eventually(() => missed.messages.length === 3);
    assert.equal(names(missed), ["instance.added p4", "instance.added p5", "instance.added p6"]);
    const filtered = await open("?since=edge1-0&tenant=b");
    for (const since of ["edge0-3", "edge1-99", "edge1-x", "nonsense"]) {
      const lost = await open(`?since=${since}`);
      await eventually(() => lost.messages.length === 1);
      assert.equal(names(lost), ["resync"], since);
      assert.is(lost.messages[0]?.id, "edge1-6");
    }
    assert.equal(filtered.messages, []);
    for (let count = 0; count < 5000; count += 1) tell("instance.added", "a", `q${count}`);
    const late = await open("?since=edge1-6");
    await eventually(() => late.messages.length === 1);
    assert.equal(names(late), ["resync"]);
  });

  test("a client that does not read is dropped, the others go on, and nothing piles up", async () => {
    const wire = openWire(server.url, handshake("/ws"));
    await wire.seen("101");
    await eventually(() => hub.size === 1);
    wire.socket.pause();
    const good = await open("?type=claim.active");
    const rss = process.memoryUsage.rss();
    const big = "x".repeat(20_000);
    for (let round = 0; round < 400 && hub.size === 2; round += 1) {
      for (let count = 0; count < 20; count += 1) tell("instance.added", "a", big);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    assert.is(hub.size, 1, "the slow client is still there");
    assert.ok(process.memoryUsage.rss() - rss < 150_000_000);
    tell("claim.active", "a", "on");
    await eventually(() => good.messages.length === 1);
    wire.socket.destroy();
  });

  test("clients that do not read cannot take more than what all may leave unread; the slowest go, one that reads stays", async () => {
    const bound = 1024 * 1024;
    hub = createEventHub({ instance: "edge1", clock: systemClock, maxWaitingBytes: bound, standing });
    const opened: EventSocket[] = [];
    const watched = watch(hub, (listener) => ({
      ...listener,
      onOpen(socket) {
        opened.push(socket);
        listener.onOpen(socket);
      },
    }));
    await server.stop({ graceMs: 0 });
    server = await serve({ handler: handlerOf(watched), listen: { hostname: "127.0.0.1", port: 0 }, log: silentLog });
    const wires = Array.from({ length: 6 }, () => openWire(server.url, handshake("/ws")));
    for (const wire of wires) await wire.seen("101");
    await eventually(() => hub.size === wires.length);
    for (const { socket } of wires) socket.pause();
    const good = await open();
    const big = "x".repeat(20_000);
    let most = 0;
    let told = 0;
    await eventually(() => {
      tell("instance.added", "a", big);
      told += 1;
      most = Math.max(
        most,
        opened.reduce((sum, { waitingBytes }) => sum + waitingBytes, 0),
      );
      return hub.size === 1;
    });
    await eventually(() => good.messages.length === told);
    // Of each frame the header comes on top.
    assert.ok(most > bound / 2 && most <= bound * 1.01, `at most ${most} bytes waited`);
    await eventually(() => opened.reduce((sum, { waitingBytes }) => sum + waitingBytes, 0) < bound / 2);
    for (const { socket } of wires) socket.destroy();
  });

  test("where the key is asked for, it comes as a header or as a subprotocol that is not sent back", async () => {
    await server.stop({ graceMs: 0 });
    const key = "s3cret-Key/+=";
    server = await serve({
      handler: handlerOf(hub, { apiKey: key }),
      listen: { hostname: "127.0.0.1", port: 0 },
      log: silentLog,
    });
    const word = (text: string) => `tenancy.bearer.${Buffer.from(text).toString("base64url")}`;
    await open("", { authorization: `Bearer ${key}` });
    const address = `${server.url.replace("http", "ws")}/ws`;
    for (const protocols of [
      ["tenancy.events", word(key)],
      [word(key), "tenancy.events"],
    ]) {
      const socket = new WebSocket(address, protocols);
      await new Promise((resolve, reject) => socket.on("open", resolve).on("error", reject));
      assert.is(socket.protocol, "tenancy.events");
    }
    const samples: [path: string, more: string, status: number, message: string][] = [
      ["/ws", "", 401, "missing API key"],
      [`/ws?key=${key}&authorization=Bearer%20${key}`, "", 401, "missing API key"],
      ["/ws", `sec-websocket-protocol: tenancy.events, ${word("wrong")}\r\n`, 401, "wrong API key"],
      ["/ws", `sec-websocket-protocol: tenancy.events, tenancy.bearer.\r\n`, 401, "wrong API key"],
      ["/ws", `authorization: Bearer x\r\nsec-websocket-protocol: ${word(key)}\r\n`, 401, "wrong API key"],
      ["/ws", `sec-websocket-protocol: ${word(key)}\r\n`, 400, "also offer tenancy.events"],
    ];
    for (const [path, more, status, message] of samples) {
      const wire = openWire(server.url, handshake(path, `sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n${more}`));
      await wire.seen(message);
      assert.match(wire.received(), new RegExp(`^HTTP/1.1 ${status} `), more);
      assert.not.ok(wire.received().includes(word(key)));
      wire.socket.destroy();
    }
  });

  test("a listener hears of a client that leaves before its handshake is answered", async () => {
    const asked = createDeferred<void>();
    const answered = createDeferred<void>();
    let isClosed = false;
    const listener = {
      onOpen: () => undefined,
      onMessage: () => undefined,
      onClose() {
        isClosed = true;
      },
    };
    const handler: Handler = async (_, context) => {
      asked.resolve();
      await answered.promise;
      try {
        return context?.upgrade?.(listener) ?? new Response();
      } catch (error) {
        // Bun refuses to answer it.
        listener.onClose();
        throw error;
      }
    };
    const slow = await serve({ handler, listen: { hostname: "127.0.0.1", port: 0 }, log: silentLog });
    const wire = openWire(slow.url, handshake("/"));
    await asked.promise;
    wire.socket.resetAndDestroy();
    await wire.closed;
    answered.resolve();
    await eventually(() => isClosed);
    await slow.stop({ graceMs: 0 });
  });

  test("a socket that a session opened is closed with 4401 when that ends, one that the key opened is not", async () => {
    await server.stop({ graceMs: 0 });
    const apiKey = "s3cret-Key/+=";
    const origins = new Set(["https://app.example.com", "*"]);
    const clock = manualClock();
    const sessions = createSessions({ apiKey, origins, lifetimeMs: 60_000, clock });
    server = await serve({
      handler: handlerOf(hub, { apiKey, sessions, clock }),
      listen: { hostname: "127.0.0.1", port: 0 },
      log: silentLog,
    });
    const { host } = new URL(server.url);
    const issued = await sessions.issue(new Request(server.url), root);
    const cookie = issued.cookie.split(";")[0] ?? "";
    const byKey = await open("", { cookie, authorization: `Bearer ${apiKey}`, origin: `http://${host}` });
    const bySession = await open("", { cookie, origin: `http://${host}` });
    // Not by a page of another port, and by none that says nothing of where it is.
    for (const more of [`origin: http://127.0.0.1:1\r\n`, "origin: null\r\n", ""]) {
      const headers = `sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\ncookie: ${cookie}\r\n${more}`;
      const wire = openWire(server.url, handshake("/ws", headers));
      await wire.seen("HTTP/1.1 403 ");
      wire.socket.destroy();
    }
    await clock.pass(59_999);
    assert.is(hub.size, 2);
    await clock.pass(1);
    assert.is(clock.now(), issued.expiresAt);
    assert.is(await bySession.closed, 4401);
    await eventually(() => hub.size === 1);
    tell("instance.added", "a", "p");
    await eventually(() => byKey.messages.length === 1);
    const late = openWire(
      server.url,
      handshake(
        "/ws",
        `sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\ncookie: ${cookie}\r\norigin: http://${host}\r\n`,
      ),
    );
    await late.seen("HTTP/1.1 401 ");
    late.socket.destroy();
  });

  test("hundreds of clients hear of an event, and are forgotten when they go", async () => {
    const clients: Client[] = [];
    for (let batch = 0; batch < 6; batch += 1) {
      clients.push(
        ...(await Promise.all(Array.from({ length: 50 }, (_, index) => open(index % 2 ? "" : "?tenant=a")))),
      );
    }
    assert.is(hub.size, 300);
    const from = performance.now();
    tell("instance.added", "a", "p");
    await eventually(() => clients.every(({ messages }) => messages.length === 1));
    console.log(`note: ${name}: 300 clients heard of an event within ${(performance.now() - from).toFixed(0)} ms`);
    for (const { socket } of clients) socket.terminate();
    await eventually(() => hub.size === 0);
  });

  test("a stop tells every client 1001 and does not wait for them", async () => {
    const clients = [await open(), await open("?tenant=a")];
    hub.close();
    assert.is(await server.stop({ graceMs: 60_000 }), true);
    assert.equal(await Promise.all(clients.map(({ closed }) => closed)), [1001, 1001]);
  });

  test("a ping is answered behind what was told before, to whoever asks alone", async () => {
    const [asks, hears] = [await open("?type=claim"), await open()];
    tell("claim.active", "a", "first");
    tell("instance.added", "a", "second");
    for (const text of ["ping", "Ping", '{"type":"ping"}']) asks.socket.send(text);
    await eventually(() => asks.messages.length === 2);
    tell("claim.active", "a", "third");
    await eventually(() => asks.messages.length === 3 && hears.messages.length === 3);
    assert.equal(
      asks.messages.map(({ id, type }) => `${id} ${type}`),
      ["edge1-1 claim.active", "edge1-2 pong", "edge1-3 claim.active"],
    );
    const { time, ...pong } = asks.messages[1] as { time?: string; id: string; type: string };
    assert.equal(pong, { id: "edge1-2", type: "pong", ...standing() });
    assert.is(new Date(time ?? "").toISOString(), time);
    assert.not.ok(hears.messages.some(({ type }) => type === "pong"));
  });

  test("a flood of pings is answered twice, the last of them too", async () => {
    const clock = manualClock();
    let made = 0;
    const counted = () => ({ ...standing(), made: ++made });
    hub = createEventHub({ instance: "edge1", clock, standing: counted });
    let heard = 0;
    const watched = watch(hub, (listener) => ({
      ...listener,
      onMessage(text) {
        heard += 1;
        listener.onMessage(text);
      },
    }));
    await server.stop({ graceMs: 0 });
    server = await serve({ handler: handlerOf(watched), listen: { hostname: "127.0.0.1", port: 0 }, log: silentLog });
    const { socket, messages } = await open();
    for (let count = 0; count < 1000; count += 1) socket.send("ping");
    await eventually(() => heard === 1000);
    assert.is(made, 1);
    tell("instance.added", "a", "p");
    await clock.pass(100);
    await eventually(() => messages.length === 3);
    await clock.pass(1000);
    assert.is(made, 2);
    assert.equal(
      messages.map(({ id, type }) => `${id} ${type}`),
      ["edge1-0 pong", "edge1-1 instance.added", "edge1-1 pong"],
    );
    assert.is(clock.pending(), 0);
  });

  test("other messages of a client mean nothing, and a large one ends the client alone", async () => {
    const [chatty, rude] = [await open(), await open()];
    chatty.socket.send("hello");
    rude.socket.send("x".repeat(100_000));
    await rude.closed;
    tell("instance.added", "a", "p");
    await eventually(() => chatty.messages.length === 1);
  });

  test("a client that breaks off is forgotten", async () => {
    const wire = openWire(server.url, handshake("/ws"));
    await wire.seen("101");
    await eventually(() => hub.size === 1);
    wire.socket.destroy();
    await eventually(() => {
      // Some runtimes notice only when they write.
      tell("instance.added", "a", "p");
      return hub.size === 0;
    });
  });

  test("what is no handshake gets an answer in JSON", async () => {
    const plain = await fetch(`${server.url}/ws`);
    assert.is(plain.status, 426);
    assert.match(((await plain.json()) as { error: string }).error, "connect to it with a ws:// address");
    for (const [request, status, message] of [
      [handshake("/ws", "sec-websocket-key: short\r\n"), 400, "sec-websocket-key"],
      [handshake("/ws?type=claim.lost"), 400, "is not an event type"],
      [handshake("/ws?tenant=-a"), 400, "query.tenant"],
      [handshake("/ws?since="), 400, "query.since"],
      [handshake("/ws").replace("version: 13", "version: 8"), 426, "must be 13"],
      [handshake("/nothing"), 404, "there is no route"],
      [handshake("/api/v1/health"), 200, '{"status":"ok"}'],
    ] as const) {
      const wire = openWire(server.url, request);
      await wire.seen(message);
      assert.match(wire.received(), new RegExp(`^HTTP/1.1 ${status} `), request);
      wire.socket.destroy();
    }
    assert.is(hub.size, 0);
  });

  test("pages of other sites are refused, this site's and the named ones are not", async () => {
    const { host } = new URL(server.url);
    for (const origin of ["https://evil.example", "null", `http://${host}.evil.example`]) {
      const wire = openWire(
        server.url,
        handshake("/ws", `sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\norigin: ${origin}\r\n`),
      );
      await wire.seen("a page of another site");
      assert.match(wire.received(), /^HTTP\/1\.1 403 /);
      wire.socket.destroy();
    }
    await open("", { origin: `http://${host}` });
    await open("", { origin: "https://app.example.com" });
    const rebound = openWire(server.url, handshake("/ws").replace("host: 127.0.0.1", "host: evil.example"));
    await rebound.seen("names a machine other");
    rebound.socket.destroy();
  });

  test.run();
}
