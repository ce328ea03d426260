import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TriggerPayload } from "../../../edge/gateway/trigger-payload.ts";

/** A tenant's container that speaks HTTP, on loopback. */
export interface Container {
  readonly port: number;
  /** Every payload that reached it. */
  readonly payloads: TriggerPayload[];
  /** Answers a payload; the default echoes it. */
  onPayload: (payload: TriggerPayload, response: ServerResponse) => void;
  stop(): Promise<void>;
}

export async function startContainer(): Promise<Container> {
  const payloads: TriggerPayload[] = [];
  const container = { onPayload: echo };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const payload = JSON.parse(Buffer.concat(chunks).toString()) as TriggerPayload;
      payloads.push(payload);
      container.onPayload(payload, response);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return Object.assign(container, {
    port: (server.address() as AddressInfo).port,
    payloads,
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  });
}

function echo(payload: TriggerPayload, response: ServerResponse): void {
  response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(payload));
}
