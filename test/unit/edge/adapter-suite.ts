import { createHash, randomBytes } from "node:crypto";
import { readdirSync } from "node:fs";
import { Agent, request as httpRequest } from "node:http";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { ClaimStatus } from "../../../crds/claim.ts";
import { systemClock } from "../../../crds/client/clock.ts";
import type { Handler } from "../../../edge/http/handler.ts";
import { jsonResponse } from "../../../edge/http/response.ts";
import type { Serve, Server } from "../../../edge/serve/serve.ts";
import { eventually } from "../../eventually.ts";
import { rawTar } from "../archive/raw-tar.ts";
import { silentLog } from "../silent-log.ts";
import { serveStore } from "../snapshots/store-server.ts";
import { openWire } from "./open-wire.ts";
import { snapshotsFolder } from "./snapshots-folder.ts";
import { testEdge } from "./test-edge.ts";

const GRACE = { graceMs: 60_000 };
const active: ClaimStatus = { phase: "Active", instanceId: "inst-a", endpoint: { host: "10.0.0.1", port: 8080 } };

/**
 * What every runtime's adapter must do, over real sockets; runs at once.
 *
 * @param options.cuts whether a stop closes what is left after the grace, or answers it with a 503
 * @param options.closes whether a connection is closed behind its last answer, or that is left to the client
 */
export function adapterSuite(
  name: string,
  serve: Serve,
  { cuts = true, closes = true }: { cuts?: boolean; closes?: boolean } = {},
): void {
  const test = suite(name);
  const listen = { hostname: "127.0.0.1", port: 0 };
  const start = (handler: Handler): Promise<Server> => serve({ handler, listen, log: silentLog });

  async function serving(handler: Handler, use: (server: Server) => Promise<void>): Promise<void> {
    const server = await start(handler);
    try {
      await use(server);
    } finally {
      await server.stop({ graceMs: 0 });
    }
  }

  test("answers over the wire, and takes bodies with and without a declared length", async () => {
    const edge = testEdge();
    edge.cluster.addClaim({ tenantId: "a", workloadRef: "app", status: active });
    await serving(edge.handler, async ({ url }) => {
      const health = await fetch(`${url}/api/v1/health`);
      assert.equal(await health.json(), { status: "ok" });
      assert.ok(health.headers.get("x-request-id"));
      const body = '{"workload":"app"}';
      for (const framing of [
        `content-length: ${body.length}\r\n\r\n${body}`,
        `transfer-encoding: chunked\r\n\r\n5\r\n${body.slice(0, 5)}\r\nd\r\n${body.slice(5)}\r\n0\r\n\r\n`,
      ]) {
        const wire = openWire(
          url,
          `POST /api/v1/tenants/a/claim HTTP/1.1\r\nhost: x\r\nconnection: close\r\n${framing}`,
        );
        await wire.closed;
        assert.match(wire.received(), /^HTTP\/1\.1 201 /);
        assert.match(wire.received(), '"source":"existing"');
      }
    });
  });

  test("passes headers, query, path and method on", async () => {
    const handler: Handler = async (request) => {
      const { pathname, search } = new URL(request.url);
      return Response.json([
        request.method,
        pathname,
        search,
        request.headers.get("X-Two"),
        request.headers.get("none"),
      ]);
    };
    await serving(handler, async ({ url }) => {
      const wire = openWire(
        url,
        "DELETE /a%20b//c?x=%31&y HTTP/1.1\r\nHost: edge.test\r\nx-two: 1\r\nX-Two: 2\r\nconnection: close\r\n\r\n",
      );
      await wire.closed;
      assert.match(wire.received(), '["DELETE","/a%20b//c","?x=%31&y","1, 2",null]');
    });
  });

  test("passes the address of the client on", async () => {
    await serving(
      async (request, context) => Response.json(context?.peerOf?.(request)),
      async ({ url }) => assert.is(await (await fetch(url)).json(), "127.0.0.1"),
    );
  });

  test("a JSON answer has the length of its bytes, its status and its headers", async () => {
    const headers = { "set-cookie": "a=b; Path=/", "x-more": "1" };
    await serving(
      async () => jsonResponse({ text: "é🙂" }, { status: 202, headers }),
      async ({ url }) => {
        const wire = openWire(url, "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        await wire.closed;
        const received = Buffer.from(wire.received(), "latin1").toString();
        assert.match(received, /^HTTP\/1\.1 202 Accepted\r\n/);
        for (const line of [
          "content-length: 17",
          "set-cookie: a=b; Path=/",
          "x-more: 1",
          "content-type: application/json",
        ])
          assert.match(received.toLowerCase(), `\r\n${line.toLowerCase()}`);
        assert.match(received, /\r\n\r\n\{"text":"é🙂"\}$/);
      },
    );
  });

  test("HEAD sends headers with the length and no body", async () => {
    await serving(testEdge().handler, async ({ url }) => {
      const wire = openWire(url, "HEAD /api/v1/health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
      await wire.closed;
      assert.match(wire.received(), /^HTTP\/1\.1 200 /);
      assert.match(wire.received(), /\r\ncontent-length: 15\r\n/i);
      assert.match(wire.received(), /\r\n\r\n$/);
    });
  });

  test("hundreds of requests go over one connection", async () => {
    await serving(testEdge().handler, async ({ url }) => {
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      const ports = new Set<number>();
      for (let count = 0; count < 300; count += 1) {
        await new Promise<void>((resolve, reject) => {
          const path = count % 2 === 0 ? "/api/v1/health" : "/api/v1/nothing";
          httpRequest(`${url}${path}`, { agent }, (response) => {
            ports.add(response.socket.localPort ?? 0);
            assert.is(response.statusCode, count % 2 === 0 ? 200 : 404);
            response.resume().on("end", resolve).on("error", reject);
          })
            .on("error", reject)
            .end();
        });
      }
      agent.destroy();
      assert.is(ports.size, 1);
    });
  });

  test("a broken Host header is a 400 in JSON, not a page", async () => {
    await serving(testEdge().handler, async ({ url }) => {
      const wire = openWire(url, "GET /api/v1/tenants HTTP/1.1\r\nhost: a b\r\nconnection: close\r\n\r\n");
      await wire.closed;
      assert.match(wire.received(), /^HTTP\/1\.1 400 /);
      assert.match(wire.received(), '{"error":"request: its target or its Host header is not valid"}');
    });
  });

  // https://github.com/oven-sh/bun/issues/6556
  const answersAnyMethod = process.versions.bun === undefined;
  for (const method of ["TRACE", "PROPFIND", "CONNECT", "BREW", "get"]) {
    const isKnown = method.length > 4;
    const target = method === "CONNECT" ? "example.com:443" : "/api/v1/health";
    const says = isKnown || answersAnyMethod ? "is a 405 or 501 in JSON" : "ends the connection";
    test(`method ${method} ${says}, and the server goes on`, async () => {
      await serving(testEdge().handler, async ({ url }) => {
        const wire = openWire(url, `${method} ${target} HTTP/1.1\r\nhost: edge.test\r\nconnection: close\r\n\r\n`);
        await wire.closed;
        if (isKnown || answersAnyMethod) {
          assert.match(wire.received(), /^HTTP\/1\.1 (405|501) /);
          assert.match(wire.received(), /\{"error":"[^"]+"\}/);
          if (wire.received().startsWith("HTTP/1.1 405 ")) assert.match(wire.received(), /\r\nallow: GET, HEAD/i);
        } else {
          assert.is(wire.received(), "");
        }
        assert.is((await fetch(`${url}/api/v1/health`)).status, 200);
      });
    });
  }

  // https://github.com/oven-sh/bun/pull/33660
  const endsHeadAtOnce = process.versions.bun === undefined;
  const when = endsHeadAtOnce ? "goes out before" : "is whole only with";
  test(`the head of a streamed answer ${when} its first byte`, async () => {
    let print = (): void => undefined;
    const printed = new Promise<void>((resolve) => {
      print = resolve;
    });
    const quiet = new ReadableStream({
      async pull(controller) {
        await printed;
        controller.enqueue(new TextEncoder().encode("line"));
        controller.close();
      },
    });
    const handler = async () => new Response(quiet, { headers: { "content-type": "text/plain" } });
    await serving(handler, async ({ url }) => {
      const wire = openWire(url, "GET / HTTP/1.1\r\nhost: edge.test\r\n\r\n");
      await wire.seen(endsHeadAtOnce ? "\r\n\r\n" : "text/plain\r\n");
      assert.match(wire.received(), /^HTTP\/1\.1 200 /);
      assert.is(wire.received().includes("\r\n\r\n"), endsHeadAtOnce);
      print();
      await wire.seen("line");
      wire.socket.destroy();
    });
  });

  test("too many headers and what is no HTTP are answered with a 4xx", async () => {
    await serving(testEdge().handler, async ({ url }) => {
      for (const text of [
        `GET / HTTP/1.1\r\nhost: edge.test\r\nx: ${"x".repeat(1024 * 1024)}\r\n\r\n`,
        "GET / HTTP/1.1\r\nhost: edge.test\r\nno colon\r\n\r\n",
      ]) {
        const wire = openWire(url, text);
        await wire.seen("\r\n\r\n");
        assert.match(wire.received(), /^HTTP\/1\.1 4(00|31) /);
        wire.socket.destroy();
      }
    });
  });

  test("a declared body over 1 MiB is a 413 before it is sent, and the server goes on", async () => {
    await serving(testEdge().handler, async ({ url }) => {
      const wire = openWire(
        url,
        "POST /api/v1/tenants/a/claim HTTP/1.1\r\nhost: x\r\ncontent-length: 5000000000\r\n\r\n{",
      );
      await wire.seen('{"error":"body: is larger than 1048576 bytes"}');
      assert.match(wire.received(), /^HTTP\/1\.1 413 /);
      wire.socket.destroy();
      assert.is((await fetch(`${url}/api/v1/health`)).status, 200);
    });
  });

  test("a streamed body over 1 MiB is a 413 that the client can read", async () => {
    await serving(testEdge().handler, async ({ url }) => {
      const wire = openWire(
        url,
        "POST /api/v1/tenants/a/claim HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n",
      );
      const piece = `10000\r\n${" ".repeat(0x10000)}\r\n`;
      for (let count = 0; count < 20; count += 1) wire.socket.write(piece);
      await wire.seen('{"error":"body: is larger than 1048576 bytes"}');
      assert.match(wire.received(), /^HTTP\/1\.1 413 /);
      wire.socket.destroy();
      assert.is((await fetch(`${url}/api/v1/health`)).status, 200);
    });
  });

  async function servingUploads(use: (url: string, volume: string) => Promise<void>): Promise<void> {
    const volume = snapshotsFolder();
    const served = await serveStore(volume.path);
    const edge = testEdge({ contexts: served.contexts, clock: systemClock });
    edge.cluster.addSnapshots();
    edge.cluster.addWorkload("app", { image: { dockerfile: "Dockerfile" } });
    const answers: Promise<Response>[] = [];
    const handler: Handler = (...request) => {
      const answer = edge.handler(...request);
      answers.push(answer);
      return answer;
    };
    try {
      await serving(handler, ({ url }) => use(url, volume.path));
    } finally {
      await Promise.allSettled(answers);
      await served.close();
      volume.remove();
    }
  }
  const isEmpty = (volume: string) => readdirSync(volume).every((name) => name === ".helper");
  const putContext = "PUT /api/v1/workloads/app/context HTTP/1.1\r\nhost: x\r\n";
  const chunk = (bytes: Buffer) =>
    Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from("\r\n")]);

  test("a build context is kept as it was sent, and one over its limit is a 413", async () => {
    await servingUploads(async (url) => {
      const body = rawTar([{ name: "large", content: randomBytes(4 * 1024 * 1024) }]);
      const sha256 = createHash("sha256").update(body).digest("hex");
      const answer = await fetch(`${url}/api/v1/workloads/app/context`, { method: "PUT", body: new Uint8Array(body) });
      assert.equal(await answer.json(), { sha256, sizeBytes: body.length });
      const wire = openWire(url, `${putContext}content-length: 5000000000\r\n\r\n{`);
      await wire.seen('{"error":"body: is larger than 268435456 bytes"}');
      assert.match(wire.received(), /^HTTP\/1\.1 413 /);
      wire.socket.destroy();
    });
  });

  test("a build context that is refused is answered before its end, and the server goes on", async () => {
    await servingUploads(async (url, volume) => {
      const wire = openWire(url, `${putContext}transfer-encoding: chunked\r\n\r\n`);
      wire.socket.write(chunk(rawTar([{ name: "../a" }]).subarray(0, 512)));
      for (let count = 0; count < 40; count += 1) wire.socket.write(chunk(Buffer.alloc(64 * 1024)));
      await wire.seen("has no plain path");
      assert.match(wire.received(), /^HTTP\/1\.1 400 /);
      wire.socket.destroy();
      await eventually(() => isEmpty(volume));
      assert.is((await fetch(`${url}/api/v1/health`)).status, 200);
    });
  });

  test("a client that goes away in the middle of an upload leaves nothing behind", async () => {
    await servingUploads(async (url, volume) => {
      const wire = openWire(url, `${putContext}content-length: 1000000\r\n\r\n`);
      wire.socket.write(rawTar([{ name: "a" }]).subarray(0, 512));
      await eventually(() => !isEmpty(volume));
      wire.socket.destroy();
      await eventually(() => isEmpty(volume));
    });
  });

  test("a client that goes away ends the wait of its claim call", async () => {
    const edge = testEdge();
    edge.cluster.addWorkload("app");
    await serving(edge.handler, async ({ url }) => {
      const body = '{"workload":"app"}';
      const wire = openWire(
        url,
        `POST /api/v1/tenants/a/claim HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      );
      await eventually(() => edge.cluster.waiters.size === 1);
      wire.socket.destroy();
      await eventually(() => edge.cluster.waiters.size === 0);
      assert.ok(edge.cluster.claim("claim-a-app"));
      assert.is(edge.cluster.claim("claim-a-app").metadata.deletionTimestamp, undefined);
    });
  });

  test("before a stop requests are taken, and each answer is the last of its connection", async () => {
    let isLeaving = false;
    const edge = testEdge({ isLeaving: () => isLeaving });
    edge.cluster.addWorkload("app");
    await serving(edge.handler, async ({ url }) => {
      const body = '{"workload":"app"}';
      const kept = openWire(url, "GET /api/v1/health HTTP/1.1\r\nhost: x\r\n\r\n");
      await kept.seen('{"status":"ok"}');
      assert.not.match(kept.received(), /connection: close/i);
      isLeaving = true;
      const claim = `POST /api/v1/tenants/a/claim HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
      const fresh = openWire(url, claim);
      await eventually(() => edge.cluster.waiters.size === 1);
      edge.cluster.setStatus("claim-a-app", { ...active, source: "pool" });
      kept.socket.write("GET /api/v1/nothing HTTP/1.1\r\nhost: x\r\n\r\n");
      for (const [wire, status] of [
        [kept, 404],
        [fresh, 201],
      ] as const) {
        await wire.seen("}");
        await eventually(() => wire.received().includes(`HTTP/1.1 ${status} `));
        assert.match(wire.received(), /\r\nconnection: close\r\n/i);
        // Deno tells the client and leaves the close to it.
        if (closes) await wire.closed;
        else wire.socket.destroy();
      }
    });
  });

  test("a stop lets the claim in flight finish, takes no new connection, and closes idle ones", async () => {
    const edge = testEdge();
    edge.cluster.addWorkload("app");
    const server = await start(edge.handler);
    const body = '{"workload":"app"}';
    const busy = openWire(
      server.url,
      `POST /api/v1/tenants/a/claim HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    await eventually(() => edge.cluster.waiters.size === 1);
    const idle = openWire(server.url, "GET /api/v1/health HTTP/1.1\r\nhost: x\r\n\r\n");
    await idle.seen('{"status":"ok"}');

    let stopped = false;
    const stop = server.stop(GRACE).then((finished) => {
      stopped = true;
      return finished;
    });
    await idle.closed;
    const late = openWire(server.url, "GET /api/v1/health HTTP/1.1\r\nhost: x\r\n\r\n");
    await late.closed;
    assert.is(late.received(), "");
    assert.not.ok(stopped);

    edge.cluster.setStatus("claim-a-app", { ...active, source: "pool" });
    assert.is(await stop, true);
    await busy.closed;
    assert.match(busy.received(), /^HTTP\/1\.1 201 /);
    assert.match(busy.received(), '"source":"pool"');
  });

  test("a stop cuts what is left after the grace", async () => {
    let isTaken = false;
    const server = await start(() => {
      isTaken = true;
      return new Promise(() => undefined);
    });
    const wire = openWire(server.url, "GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    await eventually(() => isTaken);
    assert.is(await server.stop({ graceMs: 100 }), false);
    await wire.closed;
    if (cuts) assert.is(wire.received(), "");
    else assert.match(wire.received(), /^HTTP\/1\.1 503 .*"the server is stopping; try again"/s);
  });

  test("a stream arrives piece by piece, and ends at its source when the client goes", async () => {
    let pull: ((text: string) => void) | undefined;
    let cancelled = false;
    const handler: Handler = async () =>
      new Response(
        new ReadableStream<Uint8Array>({
          start(controller) {
            pull = (text) => controller.enqueue(new TextEncoder().encode(text));
          },
          cancel() {
            cancelled = true;
          },
        }),
        { headers: { "content-type": "text/plain" } },
      );
    await serving(handler, async ({ url }) => {
      const wire = openWire(url, "GET / HTTP/1.1\r\nhost: x\r\n\r\n");
      await eventually(() => pull !== undefined);
      pull?.("first");
      await wire.seen("first");
      pull?.("second");
      await wire.seen("second");
      wire.socket.destroy();
      await eventually(() => {
        // Some runtimes notice only when they write.
        if (!cancelled) pull?.("x");
        return cancelled;
      });
    });
  });

  test("an address that is taken is an error that names it", async () => {
    await serving(testEdge().handler, async ({ url }) => {
      const taken = { hostname: "127.0.0.1", port: Number(new URL(url).port) };
      try {
        const second = await serve({ handler: testEdge().handler, listen: taken, log: silentLog });
        await second.stop({ graceMs: 0 });
        assert.unreachable("two servers listen on one port");
      } catch (error) {
        assert.match(String(error), /EADDRINUSE|in use/i);
      }
    });
  });

  test("an IPv6 address is served, with brackets in the URL", async () => {
    const server = await serve({ handler: testEdge().handler, listen: { hostname: "::1", port: 0 }, log: silentLog });
    assert.match(server.url, /^http:\/\/\[::1\]:\d+$/);
    assert.is((await fetch(`${server.url}/api/v1/health`)).status, 200);
    await server.stop(GRACE);
  });

  test.run();
}
