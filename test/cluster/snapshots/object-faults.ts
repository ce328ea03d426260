import { createServer, type IncomingMessage, request as requestOverHttp, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/**
 * What goes wrong with a request:
 * - `refused`: 500, and nothing is done; `slowDown`: the same with 503
 * - `lost`: it is carried out, and the connection ends without its answer; `failed`: carried out, and answered with 500
 * - `late`: the connection ends at once, and it is carried out some time later
 * - `cut`: the answer's body ends in the middle
 * - `conflict`: 409, and nothing is done, since something else was under way
 * - `expired`: 403, the credentials are too old; `denied`: 403, they may not
 * - `pretended`: 200, and nothing is done
 * - `slow`: the answer takes its time
 */
export type ObjectFault =
  | ("refused" | "slowDown" | "lost" | "failed" | "late" | "cut" | "expired" | "slow")
  | ("denied" | "pretended" | "conflict");

export interface ObjectFaultProxy {
  readonly endpoint: string;
  /** Asked for each request; undefined passes it on as it is. */
  decide: (request: {
    method: string;
    path: string;
    headers: IncomingMessage["headers"];
  }) => ObjectFault | undefined | Promise<ObjectFault | undefined>;
  /** How often each fault was. */
  readonly counts: Map<ObjectFault, number>;
  /** Waits until all requests are done that have come, also late ones. */
  settled(): Promise<void>;
  close(): Promise<void>;
}

const LATE_MS = 150;

/** Passes requests on to an S3 server. Signatures hold, since the server checks the name that the client has used. */
export async function startObjectFaults(endpoint: string): Promise<ObjectFaultProxy> {
  const { hostname, port } = new URL(endpoint);
  const underWay = new Set<Promise<void>>();
  const counts: ObjectFaultProxy["counts"] = new Map();

  function pass(asked: IncomingMessage, body: Buffer): Promise<{ answer: IncomingMessage; content: Buffer }> {
    return new Promise((resolve, reject) => {
      const { method, url: path, headers } = asked;
      const onward = requestOverHttp({ hostname, port, method, path, headers }, (answer) => {
        const chunks: Buffer[] = [];
        answer.on("data", (chunk: Buffer) => chunks.push(chunk));
        answer.on("end", () => resolve({ answer, content: Buffer.concat(chunks) }));
      });
      onward.on("error", reject).end(body);
    });
  }

  async function handle(asked: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of asked as AsyncIterable<Buffer>) chunks.push(chunk);
    const body = Buffer.concat(chunks);
    const fault = await proxy.decide({ method: asked.method ?? "", path: asked.url ?? "", headers: asked.headers });
    if (fault !== undefined) counts.set(fault, (counts.get(fault) ?? 0) + 1);
    const refuse = (status: number, code: string): void => {
      response.writeHead(status, { "content-type": "application/xml" });
      response.end(asked.method === "HEAD" ? "" : `<Error><Code>${code}</Code><Message>a fault</Message></Error>`);
    };
    switch (fault) {
      case "refused":
        return refuse(500, "InternalError");
      case "slowDown":
        return refuse(503, "SlowDown");
      case "conflict":
        return refuse(409, "ConditionalRequestConflict");
      case "expired":
        return refuse(403, "ExpiredToken");
      case "denied":
        return refuse(403, "AccessDenied");
      case "pretended":
        return void response.writeHead(200, { etag: '"pretended"' }).end();
      case "late":
        asked.socket.destroy();
        await new Promise((resolve) => setTimeout(resolve, LATE_MS));
        await pass(asked, body);
        return;
      case "slow":
        await new Promise((resolve) => setTimeout(resolve, LATE_MS));
        break;
      default:
    }
    const { answer, content } = await pass(asked, body);
    if (fault === "lost") return void asked.socket.destroy();
    if (fault === "failed") return refuse(500, "InternalError");
    response.writeHead(answer.statusCode ?? 0, answer.headers);
    if (fault === "cut" && content.length > 1) {
      response.write(content.subarray(0, content.length / 2), () => asked.socket.destroy());
      return;
    }
    response.end(content);
  }

  const server = createServer((asked, response) => {
    const done: Promise<void> = handle(asked, response)
      .catch(() => void asked.socket.destroy())
      .finally(() => underWay.delete(done));
    underWay.add(done);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const proxy: ObjectFaultProxy = {
    endpoint: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    decide: () => undefined,
    counts,
    async settled() {
      while (underWay.size > 0) await Promise.all(underWay);
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return proxy;
}
