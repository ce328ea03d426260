import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { TriggerPayload } from "../../../edge/gateway/drivers/driver.ts";

/**
 * Every tenant's container, each at a loopback address of its own; it speaks HTTP, and refuses what is another
 * tenant's.
 */
export interface Container {
  /** The address of a tenant's container. */
  addressOf(tenantId: string): string;
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
  const tenants: string[] = [];
  const addressOf = (tenantId: string): string => {
    if (!tenants.includes(tenantId)) tenants.push(tenantId);
    const number = tenants.indexOf(tenantId) + 1;
    return `127.72.${number >> 8}.${number & 255}`;
  };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const payload = JSON.parse(Buffer.concat(chunks).toString()) as TriggerPayload;
      // A measurement asks at 127.0.0.1.
      const { localAddress = "" } = request.socket;
      if (localAddress.startsWith("127.72.") && localAddress !== addressOf(payload.tenantId)) {
        response.writeHead(421).end(`${localAddress} is not ${payload.tenantId}'s`);
        return;
      }
      payloads.push(payload);
      container.onPayload(payload, response);
    });
  });
  server.listen(0, "0.0.0.0");
  await once(server, "listening");
  return Object.assign(container, {
    port: (server.address() as AddressInfo).port,
    payloads,
    addressOf,
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
