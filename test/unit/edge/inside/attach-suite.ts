import { once } from "node:events";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import WebSocket from "ws";
import type { ClaimStatus } from "../../../../crds/claim.ts";
import { systemClock } from "../../../../crds/client/clock.ts";
import { annotation, label } from "../../../../crds/labels.ts";
import type { Actor } from "../../../../edge/access/actor.ts";
import type { Serve, Server } from "../../../../edge/serve/serve.ts";
import { eventually } from "../../../eventually.ts";
import { silentLog } from "../../silent-log.ts";
import { type TestEdge, testEdge } from "../test-edge.ts";
import { insideExec } from "./inside-exec.ts";

const KEY = "the-key-of-this-edge";
const TENANT_KEY = "the-key-of-a-tenant";
const KUBERNETES = "v5.channel.k8s.io";
const active: ClaimStatus = {
  ...{ phase: "Active", instanceId: "inst-a", endpoint: { host: "10.0.0.1", port: 8080 }, source: "cold" },
  claimedAt: "2026-01-01T00:00:00Z",
};

/** A client that is attached to a process. */
interface Attached {
  readonly socket: WebSocket;
  readonly closed: Promise<string>;
  /** What came on each channel, as text; the texts are those of channel -1. */
  on(channel: number): string;
  send(channel: number, bytes: string | Uint8Array): void;
  /** Resolves once the output has this. */
  until(text: string): Promise<void>;
}

/** What attachments must do on every runtime, over real sockets and with the real program; runs at once. */
export function attachSuite(name: string, serve: Serve, { lingers = false }: { lingers?: boolean } = {}): void {
  const test = suite(`${name}: attached clients`);
  const end = new AbortController();
  const tenant: Actor = { kind: "key", id: "t", ref: "t-1", role: "tenant", tenants: ["a"], ended: end.signal };
  const keys = { actorOf: (text: string) => (text === TENANT_KEY ? tenant : undefined), actorWithRef: () => undefined };
  let edge: TestEdge;
  let server: Server;
  let mostTerminals: number | undefined;
  const quotas = {
    current: () => ({ of: () => ({ limits: { terminals: mostTerminals } }) }),
    problem: () => undefined,
  };

  test.before(async () => {
    edge = testEdge({ exec: await insideExec(), apiKey: KEY, keys, quotas, clock: systemClock });
    edge.cluster.addWorkload("app");
    const { metadata } = edge.cluster.addClaim({ tenantId: "a", workloadRef: "app", status: active });
    const annotations = { [annotation.claim]: metadata.name, [annotation.claimUid]: metadata.uid ?? "" };
    edge.cluster.addPod("inst-a", "Running", {
      ...{ labels: { [label.tenant]: "a", [label.workload]: "app" }, annotations, podIP: "10.0.0.1" },
    });
    edge.cluster.addPod("inst-warm", "Running", { labels: { [label.pool]: "p" } });
    server = await serve({ handler: edge.handler, listen: { hostname: "127.0.0.1", port: 0 }, log: silentLog });
  });
  test.after(async () => {
    await edge.channels.close();
    await server.stop({ graceMs: 500 });
    // The figures are printed before the timer.
    if (lingers) setTimeout(() => process.exit(), 200);
  });

  async function start(body: object): Promise<number> {
    const { json, error } = await edge.call("POST /api/v1/instances/inst-a/processes", {
      body: { background: true, ...body },
      headers: { authorization: `Bearer ${KEY}` },
    });
    assert.is(error, undefined);
    return (json as { pid: number }).pid;
  }

  function connect(path: string, protocols: string[] = [], headers: Record<string, string> = {}): WebSocket {
    const authorization = `Bearer ${KEY}`;
    return new WebSocket(`${server.url.replace("http", "ws")}/api/v1/instances${path}`, protocols, {
      headers: { authorization, ...headers },
    });
  }

  async function attach(path: string, protocols: string[] = [], key = KEY): Promise<Attached> {
    const socket = connect(path, protocols, { authorization: `Bearer ${key}` });
    const received = new Map<number, string>();
    const decoder = new TextDecoder();
    socket.on("message", (data: Buffer, isBinary) => {
      const [channel, bytes] = isBinary ? [data[0] ?? 0, data.subarray(1)] : [-1, data];
      received.set(channel, (received.get(channel) ?? "") + decoder.decode(bytes, { stream: channel === 1 }));
    });
    const closed = new Promise<string>((resolve) => socket.on("close", (code, why) => resolve(`${code} ${why}`)));
    await new Promise((resolve, reject) => socket.on("open", resolve).on("error", reject));
    const on = (channel: number) => received.get(channel) ?? "";
    return {
      ...{ socket, closed, on },
      send: (channel, bytes) => socket.send(Buffer.concat([Buffer.from([channel]), Buffer.from(bytes)])),
      until: (text) => eventually(() => on(1).includes(text)),
    };
  }

  async function refusal(socket: WebSocket): Promise<string> {
    return await new Promise((resolve, reject) => {
      socket.on("open", () => reject(new Error("It was not refused")));
      socket.on("unexpected-response", (_, response) => {
        response.on("data", (body) => resolve(`${response.statusCode} ${JSON.parse(String(body)).error}`));
      });
      socket.on("error", () => undefined);
    });
  }

  test("a client of Kubernetes gives input and its end, and gets both outputs and the exit code", async () => {
    const script = "read a; echo got $a; echo problem >&2; cat; exit 5";
    const pid = await start({ command: ["/bin/sh", "-c", script], keepStdin: true });
    const client = await attach(`/inst-a/processes/${pid}/attach`, [KUBERNETES]);
    assert.is(client.socket.protocol, KUBERNETES);
    client.send(0, "hello\n");
    await client.until("got hello\n");
    client.send(0, "the rest");
    client.send(255, new Uint8Array(1));
    assert.is(await client.closed, "1000 the process has ended");
    assert.is(client.on(1), "got hello\nthe rest");
    assert.is(client.on(2), "problem\n");
    const { status, details } = JSON.parse(client.on(3));
    assert.equal([status, details.causes], ["Failure", [{ reason: "ExitCode", message: "5" }]]);
    assert.is(client.on(-1), "");
  });

  test("a lost terminal is found again with what it showed, takes a megabyte at once, and has the client's size", async () => {
    const first = await attach("/inst-a/terminal?cols=100&rows=30");
    first.send(0, "stty size; printf 'gr\\303\\274\\303\\237e\\n'\n");
    await first.until("30 100");
    await first.until("grüße");
    const { pid } = JSON.parse(first.on(-1)).process;
    first.socket.terminate();
    await first.closed;
    const second = await attach(`/inst-a/processes/${pid}/attach`);
    await second.until("grüße");
    second.send(4, JSON.stringify({ Width: 120, Height: 40 }));
    second.send(0, "stty size\n");
    await second.until("40 120");
    second.send(0, "stty -echo; head -c 1048576 | wc -c; exit 7\n");
    await eventually(() => /exit 7\r\n/.test(second.on(1)));
    const line = `${"x".repeat(1023)}\n`;
    for (let sent = 0; sent < 1_048_576; sent += 64 * line.length) second.send(0, line.repeat(64).slice(0, 65_536));
    await second.until("1048576");
    assert.is(await second.closed, "1000 the process has ended");
    assert.match(second.on(-1), '"exitCode":7');
  });

  test("a client that goes leaves a process of the background, and its input, to the next one", async () => {
    const pid = await start({ command: ["/bin/sh", "-c", "while read a; do echo got $a; done"], keepStdin: true });
    const first = await attach(`/inst-a/processes/${pid}/attach`);
    first.send(0, "one\n");
    await first.until("got one\n");
    first.socket.close();
    await first.closed;
    const second = await attach(`/inst-a/processes/${pid}/attach?stdoutFrom=8`);
    second.send(0, "two\n");
    await second.until("got two\n");
    assert.is(second.on(1), "got two\n");
    second.send(255, new Uint8Array(1));
    assert.is(await second.closed, "1000 the process has ended");
  });

  test("a client that asks for offsets learns where output begins, and that it goes on without a gap", async () => {
    const pid = await start({ command: ["/bin/sh", "-c", "echo one; read a; echo $a; echo no >&2"], keepStdin: true });
    // Of output that is not there yet all is sent.
    await (await attach(`/inst-a/processes/${pid}/attach`)).until("one\n");
    const client = await attach(`/inst-a/processes/${pid}/attach?stdoutFrom=2`, ["tenancy.offsets"]);
    await client.until("e\n");
    client.send(0, "two\n");
    assert.is(await client.closed, "1000 the process has ended");
    assert.equal([client.on(1), client.on(2)], ["e\ntwo\n", "no\n"]);
    assert.equal(client.on(-1).match(/{"type":"offset".*?}/g), [
      '{"type":"offset","output":"stdout","offset":2}',
      '{"type":"offset","output":"stderr","offset":0}',
    ]);
  });

  test("a client that asks for offsets learns how much of its input was taken", async () => {
    const pid = await start({ command: ["/bin/sh", "-c", "wc -c"], keepStdin: true });
    const client = await attach(`/inst-a/processes/${pid}/attach`, ["tenancy.offsets"]);
    for (let sent = 0; sent < 10; sent += 1) client.send(0, "x".repeat(60_000));
    client.send(255, new Uint8Array(1));
    assert.is(await client.closed, "1000 the process has ended");
    const taken = [...client.on(-1).matchAll(/{"type":"input","taken":(\d+)}/g)].map(([, bytes]) => Number(bytes));
    assert.equal(taken, [0, 300_000, 600_000]);
  });

  test("a process that ends with much unread output closes its client after all of it, and how it ended", async () => {
    const pid = await start({ command: ["/bin/sh", "-c", "head -c 900000 /dev/zero | tr '\\0' x; exit 3"] });
    const client = await attach(`/inst-a/processes/${pid}/attach`);
    assert.is(await client.closed, "1000 the process has ended");
    assert.ok(client.on(1) === "x".repeat(900_000), `${client.on(1).length}`);
    assert.match(client.on(-1), '"exitCode":3');
  });

  test("a process that floods does not stop another, nor fill this program, and is left by a client that does not read", async () => {
    const pid = await start({ command: ["/bin/sh", "-c", "while :; do echo flood; done"] });
    const client = await attach(`/inst-a/processes/${pid}/attach`);
    await client.until("flood");
    client.socket.pause();
    const before = process.memoryUsage().rss;
    const other = await attach(`/inst-a/processes/${await start({ command: ["/bin/echo", "there"] })}/attach`);
    await other.until("there");
    client.socket.terminate();
    await client.closed;
    const { status } = await edge.call(`POST /api/v1/instances/inst-a/processes/${pid}/signal`, {
      body: { signal: "KILL" },
      headers: { authorization: `Bearer ${KEY}` },
    });
    assert.is(status, 200);
    assert.ok(process.memoryUsage().rss - before < 64 * 1024 * 1024);
  });

  test("what a process does not read ends its client, and so does a message that is too large", async () => {
    const pid = await start({ command: ["/bin/sleep", "60"], keepStdin: true });
    const client = await attach(`/inst-a/processes/${pid}/attach`);
    // What is under way when the server closes the connection can cost the client the reason.
    while (client.socket.readyState === WebSocket.OPEN) {
      client.send(0, Buffer.alloc(65_536));
      client.socket.ping();
      await Promise.race([once(client.socket, "pong"), client.closed]);
    }
    assert.is(await client.closed, "1008 the process does not read");
    const other = await attach(`/inst-a/processes/${pid}/attach`);
    other.send(0, Buffer.alloc(65_537));
    assert.match(await other.closed, /^1009/);
  });

  test("it is refused as a request is, before it opens", async () => {
    assert.match(await refusal(connect("/inst-a/processes/4000000/attach")), "404 instance");
    assert.match(await refusal(connect("/inst-warm/terminal")), "409 instance");
    assert.match(await refusal(connect("/none/terminal")), "404 instance");
    assert.match(await refusal(connect("/inst-a/terminal?cols=0")), "400 query.cols");
    assert.match(
      await refusal(connect("/inst-a/terminal", [], { authorization: "Bearer wrong" })),
      "401 wrong API key",
    );
    const elsewhere = { origin: "https://elsewhere.example.com" };
    assert.match(await refusal(connect("/inst-a/terminal", [], elsewhere)), "403 a page of another site");
  });

  test("a tenant gets no more terminals than its quota allows, however many come at once", async () => {
    const path = "/inst-a/terminal";
    const open: WebSocket[] = [];
    const refused: string[] = [];
    mostTerminals = 2;
    await Promise.all(
      Array.from({ length: 6 }, async () => {
        const socket = connect(path);
        const outcome = refusal(socket).then(
          (said) => refused.push(said),
          () => open.push(socket),
        );
        await outcome;
      }),
    );
    assert.is(open.length, 2);
    assert.equal(
      refused,
      Array(4).fill('429 tenant "a" has 2 of 2 terminals open (terminals): close one, or raise the limit'),
    );
    const [first, second] = open;
    first?.terminate();
    // Its place is free once the edge has seen its end.
    let third: WebSocket | undefined;
    await eventually(async () => {
      const socket = connect(path);
      const isOpen = await refusal(socket).then(
        () => false,
        () => true,
      );
      if (isOpen) third = socket;
      return isOpen;
    });
    second?.terminate();
    third?.terminate();
    mostTerminals = undefined;
  });

  test("the end of a key closes its terminal with 4401, cuts its streams, and leaves those of another key", async () => {
    const pid = await start({ command: ["/bin/sh", "-c", "while :; do echo on; sleep 0.05; done"] });
    const [theirs, other] = [await attach("/inst-a/terminal", [], TENANT_KEY), await attach("/inst-a/terminal")];
    const followed = await fetch(`${server.url}/api/v1/instances/inst-a/processes/${pid}?follow=true`, {
      headers: { authorization: `Bearer ${TENANT_KEY}` },
    });
    const reader = followed.body?.getReader();
    assert.not.ok((await reader?.read())?.done);
    end.abort(new Error("the key has ended"));
    assert.match(await theirs.closed, /^4401 /);
    const rest = (async () => {
      while ((await reader?.read())?.done === false);
    })();
    // A runtime closes the connection, or ends the body.
    await rest.catch(() => undefined);
    other.send(0, "echo go'es' on\n");
    await other.until("goes on");
    other.socket.terminate();
  });

  test("the end of the claim closes it with 4410, and a stop of the edge with 1012", async () => {
    const stopped = await attach("/inst-a/terminal");
    edge.attachments.close();
    assert.match(await stopped.closed, /^1012/);
    const client = await attach("/inst-a/terminal");
    await client.until("");
    edge.cluster.addClaim({ tenantId: "a", workloadRef: "app", status: { ...active, phase: "Releasing" } });
    await edge.channels.close();
    assert.match(await client.closed, /^4410 instance/);
  });

  test.run();
}
