import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { CloudEvent, HTTP } from "cloudevents";
import { Webhook } from "standardwebhooks";

/** A request as it came. */
export interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly events: readonly CloudEvent<unknown>[];
}

/** A sink that reads events with the SDK of CloudEvents. */
export interface Receiver {
  readonly url: string;
  /** What it has taken, in order, repetitions included. */
  readonly taken: Received[];
  /** The ids of all events that it has taken, in order. */
  ids(): string[];
  stop(): Promise<void>;
}

/**
 * @param options.secret requests without a valid signature get 401
 * @param options.answer the status of each answer; undefined: none, the connection is cut. @default 204
 * @param options.port @default any
 */
export async function startReceiver(
  options: {
    secret?: string;
    answer?: (received: Received, response: ServerResponse) => number | undefined;
    port?: number;
  } = {},
): Promise<Receiver> {
  const { secret, answer = () => 204 } = options;
  const taken: Received[] = [];
  const server = createServer(async (request, response) => {
    const { headers } = request;
    const pieces: Buffer[] = [];
    for await (const piece of request) pieces.push(piece);
    const body = Buffer.concat(pieces).toString("utf8");
    try {
      if (secret !== undefined) new Webhook(secret).verify(body, headers as Record<string, string>);
    } catch {
      response.writeHead(401).end("the signature is wrong");
      return;
    }
    // The constructor validates.
    const events = [HTTP.toEvent<unknown>({ headers, body })].flat().map((read) => new CloudEvent(read));
    const received = { headers, body, events };
    const status = answer(received, response);
    if (status === undefined) {
      request.socket.destroy();
      return;
    }
    if (status < 300) taken.push(received);
    response.writeHead(status).end();
  });
  await new Promise<void>((resolve) => server.listen(options.port ?? 0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/events`,
    taken,
    ids: () => taken.flatMap(({ events }) => events.map(({ id }) => id)),
    async stop() {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}
