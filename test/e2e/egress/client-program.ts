// The workload: makes the calls that it is told to make, and says what came of them.
import { createHash, randomBytes } from "node:crypto";
import { createSocket } from "node:dgram";
import { connect as connectHttp2 } from "node:http2";
import { Agent, request as requestHttps } from "node:https";
import { connect as connectPlain } from "node:net";
import { Readable } from "node:stream";
import { connect as connectTls, type TLSSocket } from "node:tls";
import { WebSocket } from "ws";
import type { Answer, Call, HttpAnswer, HttpCall, StreamCall } from "./messages.ts";

const LIMIT_MS = 50_000;

process.on("message", ({ id, call }: { id: number; call: Call }) => {
  perform(call).then(
    (value) => process.send?.({ id, answer: { value } satisfies Answer }),
    (error: NodeJS.ErrnoException) =>
      process.send?.({ id, answer: { error: error.code ?? error.message } satisfies Answer }),
  );
});
process.send?.("ready");

function perform(call: Call): Promise<unknown> {
  switch (call.kind) {
    case "http":
      return http(call);
    case "stream":
      return stream(call);
    case "websocket":
      return webSocket(call.url, call.messages);
    case "hold":
      return hold(call.url);
    case "datagram":
      return datagram(call);
    case "plain":
      return exchange(connectPlain({ host: call.host, port: call.port }), call.text);
    case "tls":
      return tls(call);
    default:
      return call satisfies never;
  }
}

interface Sent {
  method: string;
  headers: Record<string, string>;
  body: Iterable<Buffer> | undefined;
  onData: (chunk: Buffer) => void;
}

interface Connection {
  /** Resolves with the status when all has been received. */
  send(path: string, sent: Sent): Promise<number>;
  close(): void;
}

function connect(version: 1 | 2, origin: string): Connection {
  if (version === 1) {
    const agent = new Agent({ keepAlive: true, maxSockets: 1, ALPNProtocols: ["http/1.1"] });
    return {
      close: () => agent.destroy(),
      send: (path, { method, headers, body, onData }) =>
        new Promise((resolve, reject) => {
          const outgoing = requestHttps(new URL(path, origin), {
            agent,
            method,
            headers,
            timeout: LIMIT_MS,
            servername: new URL(origin).hostname,
          });
          outgoing.once("timeout", () => outgoing.destroy(new Error("timeout")));
          outgoing.once("error", reject);
          outgoing.once("response", (incoming) => {
            incoming.on("data", onData);
            incoming.once("error", reject);
            incoming.once("end", () => resolve(incoming.statusCode ?? 0));
          });
          if (body === undefined) outgoing.end();
          else Readable.from(body).pipe(outgoing);
        }),
    };
  }
  const session = connectHttp2(origin);
  const failed = new Promise<never>((_, reject) => {
    session.once("error", reject);
    session.once("close", () => reject(new Error("closed")));
  });
  failed.catch(() => undefined);
  return {
    close: () => session.destroy(),
    send: (path, { method, headers, body, onData }) => {
      const answered = new Promise<number>((resolve, reject) => {
        const stream = session.request(
          { ":path": path, ":method": method, ...headers },
          { endStream: body === undefined },
        );
        let status = 0;
        stream.setTimeout(LIMIT_MS, () => stream.destroy(new Error("timeout")));
        stream.once("response", (answer) => {
          status = Number(answer[":status"]);
        });
        stream.on("data", onData);
        stream.once("error", reject);
        stream.once("end", () => resolve(status));
        if (body !== undefined) Readable.from(body).pipe(stream);
      });
      return Promise.race([answered, failed]);
    },
  };
}

async function http({ version, url, method, headers = {}, uploadBytes }: HttpCall): Promise<HttpAnswer> {
  const { origin, pathname, search } = new URL(url);
  const hash = createHash("sha256");
  function* blocks(): Generator<Buffer> {
    for (let left = uploadBytes ?? 0; left > 0; left -= 1 << 20) {
      const block = randomBytes(Math.min(left, 1 << 20));
      hash.update(block);
      yield block;
    }
  }
  const received: Buffer[] = [];
  const connection = connect(version, origin);
  try {
    const status = await connection.send(pathname + search, {
      method: method ?? (uploadBytes === undefined ? "GET" : "POST"),
      headers,
      body: uploadBytes === undefined ? undefined : blocks(),
      onData: (chunk) => received.push(chunk),
    });
    return { status, body: Buffer.concat(received).toString("utf8"), sha256: hash.digest("hex") };
  } finally {
    connection.close();
  }
}

/** Resolves with the text of a stream, each piece of which is sent when the one before is said to have arrived. */
async function stream({ version, url, isHeld = false }: StreamCall): Promise<string> {
  const { origin, pathname } = new URL(url);
  const [connection, teller] = [connect(version, origin), connect(version, origin)];
  const get = { method: "GET", headers: {}, body: undefined };
  let text = "";
  try {
    await new Promise<unknown>((resolve, reject) => {
      const onData = (chunk: Buffer): void => {
        text += chunk.toString("utf8");
        if (text.endsWith("\n") && !isHeld) teller.send("/arrived", { ...get, onData: () => undefined }).catch(reject);
      };
      connection.send(pathname, { ...get, onData }).then(resolve, reject);
    });
    return text;
  } finally {
    connection.close();
    teller.close();
  }
}

function webSocket(url: string, messages: readonly string[]): Promise<string[]> {
  return new Promise((resolve, reject) => {
    const received: string[] = [];
    const socket = new WebSocket(url, { handshakeTimeout: LIMIT_MS });
    socket.once("error", reject);
    socket.once("close", () => reject(new Error("closed")));
    socket.on("message", (data) => {
      received.push(String(data));
      const next = messages[received.length - 1];
      if (next !== undefined) return socket.send(next);
      resolve(received);
      socket.terminate();
    });
  });
}

function hold(url: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url, { handshakeTimeout: LIMIT_MS });
    socket.on("error", reject);
    socket.once("message", () => resolve());
  });
}

function tls({ host, serverName, text, isSlow = false }: Extract<Call, { kind: "tls" }>): Promise<string> {
  if (!isSlow) return exchange(connectTls(options(host, serverName)), text ?? "");
  // The handshake goes through a socket that sends a byte at a time.
  const raw = connectPlain({ host, port: 443, noDelay: true });
  const write = raw.write.bind(raw);
  let isFirst = true;
  raw.write = ((chunk: Buffer, ...rest: []) => {
    if (!isFirst || chunk.length < 100) return write(chunk, ...rest);
    isFirst = false;
    void (async () => {
      for (const byte of chunk) {
        write(Buffer.of(byte));
        await new Promise((resolve) => setImmediate(resolve));
      }
    })();
    return true;
  }) as typeof raw.write;
  return exchange(connectTls({ ...options(host, serverName), socket: raw }), text ?? "");
}

function options(host: string, serverName: string | undefined) {
  // The handshake is what is asked for; Node takes an empty name as none.
  return { host, port: 443, servername: serverName ?? "", rejectUnauthorized: false, ALPNProtocols: ["http/1.1"] };
}

/** Resolves with what comes back until the end. */
function exchange(socket: TLSSocket | ReturnType<typeof connectPlain>, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let received = "";
    socket.setTimeout(LIMIT_MS, () => socket.destroy(new Error("timeout")));
    socket.once("error", reject);
    socket.on("data", (chunk: Buffer) => {
      received += chunk.toString("latin1");
    });
    socket.once("close", (hadError) => hadError || resolve(received));
    socket.write(text);
  });
}

function datagram({ host, port, answerMs }: Extract<Call, { kind: "datagram" }>): Promise<string> {
  // A query for the address of example.org (RFC 1035, section 4).
  const query = Buffer.from("000701000001000000000000076578616d706c65036f72670000010001", "hex");
  const socket = createSocket(host.includes(":") ? "udp6" : "udp4");
  return new Promise<string>((resolve, reject) => {
    const limit = setTimeout(() => reject(new Error("no answer")), answerMs);
    socket.once("error", reject);
    socket.once("message", () => {
      clearTimeout(limit);
      resolve("answered");
    });
    socket.send(query, port, host, (error) => {
      if (error) reject(error);
    });
  }).finally(() => socket.close());
}
