import { createHash } from "node:crypto";
import { once } from "node:events";
import type { ClientRequest, IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import * as assert from "uvu/assert";
import { WebSocket } from "ws";
import type { Case } from "../../at-once.ts";
import { type FrontDoor, limit, readAnswer } from "./front-door.ts";

const MIB = 1024 * 1024;

async function json<T>(door: FrontDoor, host: string, path: string): Promise<T> {
  return JSON.parse(String((await door.send(host, path)).body)) as T;
}

/** Has what waits in the program for that word go on. */
function tell(door: FrontDoor, host: string, name: string): Promise<unknown> {
  return door.until(`${name} to be waited for`, () => json<boolean>(door, host, `/tell?name=${name}`));
}

async function responseOf(request: ClientRequest): Promise<IncomingMessage> {
  const [response] = (await once(request, "response", limit())) as [IncomingMessage];
  return response;
}

export const events: Case<FrontDoor> = [
  "Node: each Server-Sent Event arrives before the program sends the next",
  async (door) => {
    const host = door.host("app", "ann");
    const request = door.open(host, "/events?count=20", { headers: { accept: "text/event-stream" } });
    request.end();
    const response = await responseOf(request);
    let seen = 0;
    for await (const chunk of response as AsyncIterable<Buffer>) {
      for (const [, id] of String(chunk).matchAll(/^id: (\d+)$/gm)) {
        seen += 1;
        assert.is(Number(id), seen);
        await tell(door, host, `event-${id}`);
      }
    }
    assert.is(seen, 20);
  },
];

/** Bytes that differ everywhere, and their digest once they have been read. */
function manyBytes(total: number): { stream: Readable; hash: ReturnType<typeof createHash> } {
  const hash = createHash("sha256");
  function* pieces(): Generator<Buffer> {
    for (let sent = 0; sent < total; ) {
      const piece = Buffer.alloc(Math.min(256 * 1024, total - sent), "fedcba9876543210");
      piece.writeDoubleLE(sent, 0);
      hash.update(piece);
      sent += piece.length;
      yield piece;
    }
  }
  return { stream: Readable.from(pieces(), { objectMode: false, highWaterMark: 256 * 1024 }), hash };
}

/** Uploads, and compares what the program has got. */
export async function upload(door: FrontDoor, host: string, bytes: number, isChunked: boolean): Promise<void> {
  const headers = isChunked ? { "transfer-encoding": "chunked" } : { "content-length": bytes };
  const request = door.open(host, "/digest", { method: "PUT", headers });
  const { stream, hash } = manyBytes(bytes);
  const [answer] = await Promise.all([readAnswer(request), pipeline(stream, request)]);
  const seen = JSON.parse(String(answer.body)) as Record<string, unknown>;
  const framing = isChunked ? "chunked" : "length";
  assert.equal(seen, { bytes, sha256: hash.digest("hex"), trailers: {}, framing });
}

/** Downloads in chunks, and compares with what the program says in the trailer that it has sent. */
export async function download(door: FrontDoor, host: string, bytes: number): Promise<void> {
  const request = door.open(host, `/download?chunked&bytes=${bytes}`, { headers: { te: "trailers" } });
  request.end();
  const response = await responseOf(request);
  const hash = createHash("sha256");
  let received = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    hash.update(chunk);
    received += chunk.length;
  }
  assert.equal([received, response.trailers["x-sha256"]], [bytes, hash.digest("hex")]);
}

export const manyMegabytes: Case<FrontDoor> = [
  "Node: 64 MiB go up by length and in chunks, and come down, the same at both ends",
  async (door) => {
    const host = door.host("app", "ann");
    await Promise.all([upload(door, host, 64 * MIB, false), upload(door, host, 64 * MIB, true)]);
    await download(door, door.host("app", "ben"), 64 * MIB);
  },
];

export const slowReaders: Case<FrontDoor> = [
  "Node: who reads slowly holds up who writes, in both directions",
  async (door) => {
    const host = door.host("kept", "slow");
    const total = 128 * MIB;
    const request = door.open(host, `/download?bytes=${total}`);
    request.end();
    const response = await responseOf(request);
    response.pause();
    let last = -1;
    const held = await door.until("the program to be held up", async () => {
      const { written, isHeld } = await json<{ written: number; isHeld: boolean }>(door, host, "/download-state");
      const isStill = isHeld && written === last;
      last = written;
      return isStill && written;
    });
    assert.ok(held < total / 2, `${held} bytes are on their way`);
    let received = 0;
    for await (const chunk of response as AsyncIterable<Buffer>) received += chunk.length;
    assert.is(received, total);

    const slow = door.open(host, "/digest?waits", { method: "PUT", headers: { "content-length": total } });
    const { stream, hash } = manyBytes(total);
    const answer = readAnswer(slow);
    const sent = pipeline(stream, slow);
    const [socket] = (slow.socket === null ? await once(slow, "socket", limit()) : [slow.socket]) as [
      NonNullable<typeof slow.socket>,
    ];
    let before = -1;
    await door.until("the client to be held up", async () => {
      const written = socket.bytesWritten - socket.writableLength;
      const isStill = written > 0 && written === before && socket.writableNeedDrain;
      before = written;
      return isStill;
    });
    assert.ok(before < total / 2, `${before} bytes are on their way`);
    await tell(door, host, "read");
    await sent;
    const seen = JSON.parse(String((await answer).body)) as { sha256: string };
    assert.is(seen.sha256, hash.digest("hex"));
  },
];

export const trailers: Case<FrontDoor> = [
  "Node: trailers go both ways, and an answer before the body's end is seen",
  async (door) => {
    const host = door.host("app", "ann");
    const request = door.open(host, "/digest", { method: "PUT", headers: { trailer: "x-own" } });
    request.write("some");
    request.addTrailers({ "x-own": "told at the end" });
    request.end();
    const { trailers: seen } = JSON.parse(String((await readAnswer(request)).body)) as { trailers: object };
    assert.equal(seen, { "x-own": "told at the end" });

    const early = door.open(host, "/early", { method: "PUT", headers: { "content-length": 64 * MIB } });
    early.write("x".repeat(MIB));
    early.on("error", () => undefined);
    const answer = await readAnswer(early);
    assert.equal([answer.status, String(answer.body)], [403, "no"]);
    early.destroy();
  },
];

function openSocket(door: FrontDoor, host: string, protocols: string[], path = "/socket"): WebSocket {
  return new WebSocket(`ws://127.0.0.1:${door.port}${path}`, protocols, {
    headers: { host, "x-tenancy-key": door.apiKey },
    perMessageDeflate: { threshold: 0 },
  });
}

export const webSockets: Case<FrontDoor> = [
  "Node: WebSockets with compression, a sub-protocol, messages of many megabytes, and each end's close code",
  async (door) => {
    const host = door.host("app", "ann");
    const socket = openSocket(door, host, ["other", "chosen"]);
    await once(socket, "open", limit());
    assert.is(socket.protocol, "chosen");
    assert.match(socket.extensions, /permessage-deflate/);
    const echo = async (data: Buffer | string) => {
      const [answer] = await Promise.all([once(socket, "message", limit()), socket.send(data)]);
      return answer[0] as Buffer;
    };
    assert.is(String(await echo("héllo")), "héllo");
    const { stream, hash } = manyBytes(32 * MIB);
    const big = Buffer.concat(await stream.toArray());
    const back = await echo(big);
    assert.is(createHash("sha256").update(back).digest("hex"), hash.digest("hex"));
    const pong = once(socket, "pong", limit());
    socket.ping("there?");
    assert.is(String((await pong)[0]), "there?");
    const closed = once(socket, "close", limit());
    socket.send("close 4321");
    const [code, reason] = (await closed) as [number, Buffer];
    assert.equal([code, String(reason)], [4321, "as asked"]);

    const other = openSocket(door, host, []);
    await once(other, "open", limit());
    other.close(4322, "by the client");
    await once(other, "close", limit());
    await door.until("the program to see the close code", async () =>
      (await door.stack.kubectl("logs", "-l", "tenancy.dev/workload=app", "-c", "workload", "--tail=-1")).includes(
        "websocket closed: 4322 by the client",
      ),
    );
  },
];

export const otherHandshakes: Case<FrontDoor> = [
  "Node: a WebSocket by the path, and a handshake that the program refuses",
  async (door) => {
    const address = `127.0.0.1:${door.port}`;
    const socket = openSocket(door, address, [], "/t/ann/app/socket?a=b");
    await once(socket, "open", limit());
    socket.send("by the path");
    assert.is(String((await once(socket, "message", limit()))[0]), "by the path");
    socket.terminate();

    const refused = openSocket(door, address, [], "/t/ann/app/closed");
    refused.on("error", () => undefined);
    const [, response] = (await once(refused, "unexpected-response", limit())) as [unknown, IncomingMessage];
    assert.is(response.statusCode, 403);
    assert.is(String(await response.toArray()), "not here");
  },
];

export const sideBySide: Case<FrontDoor> = [
  "Node: two tenants that ask at the same time read nothing of each other",
  async (door) => {
    const tenants = ["ann", "ben"];
    const pods = await Promise.all(
      tenants.map(async (tenant) => (await json<{ pod: string }>(door, door.host("app", tenant), "/who")).pod),
    );
    assert.is.not(pods[0], pods[1]);
    await Promise.all(
      tenants.flatMap((tenant, index) =>
        Array.from({ length: 8 }, async (_, lane) => {
          for (let round = 0; round < 50; round += 1) {
            const body = `${tenant} ${lane} ${round} `.repeat(1 + 200 * (round % 5));
            // A busy machine lets a kept connection end, or the API server be silent for 2 s; who asks asks again.
            const answer = await door.until("an answer of the pod", async () => {
              const one = await door.send(door.host("app", tenant), `/${tenant}`, { method: "POST", body });
              if (one.status !== 502 && one.status !== 503) return one;
              console.log(`note: asked again after ${one.status} ${one.body}`);
              return undefined;
            });
            const seen = JSON.parse(String(answer.body)) as Record<string, string>;
            assert.equal([seen.pod, seen.body, seen.url], [pods[index], body, `/${tenant}`]);
          }
        }),
      ),
    );
  },
];
