import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { type ClientRequest, request as httpRequest, type IncomingMessage, type OutgoingHttpHeaders } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as assert from "uvu/assert";
import { importImages } from "../../../scripts/cluster/images.ts";
import { freePort } from "../../../scripts/cluster/process/free-port.ts";
import { waitUntil } from "../../../scripts/cluster/process/wait-until.ts";
import { type Stack, startStack } from "../claims/stack.ts";
import { COMMANDS, frontDoorImage, IMAGE } from "./image.ts";

const LIMIT_MS = 300_000;
/** For `once`. */
export const limit = () => ({ signal: AbortSignal.timeout(LIMIT_MS) });

export interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage["headers"];
  readonly trailers: IncomingMessage["trailers"];
  readonly body: Buffer;
}

/** Where a request goes; without the API key where `headers` says so. */
export interface Asked {
  readonly method?: string;
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: string | Buffer;
}

/** `npm start` on a local cluster of its own, with the programs of this folder as workloads. */
export interface FrontDoor {
  readonly stack: Stack;
  readonly apiKey: string;
  readonly port: number;
  /** A folder of the test. */
  readonly folder: string;
  /** `<workload>--<tenant>.localhost:<port>`. */
  host(workload: string, tenant: string): string;
  /** Calls the REST API. */
  api(method: string, path: string, body?: unknown): Promise<Record<string, unknown>>;
  /** Sends a request by Node's client, and reads its answer to the end. */
  send(host: string, path: string, asked?: Asked): Promise<Answer>;
  /** Opens a request by Node's client, with the API key. */
  open(host: string, path: string, asked?: Omit<Asked, "body">): ClientRequest;
  /** Sends bytes over a socket, and returns all that comes until what came is enough. */
  raw(text: string, isEnough: (answer: string) => boolean): Promise<string>;
  until<T>(what: string, look: () => Promise<T | undefined | false>): Promise<T>;
  stop(): Promise<void>;
}

export async function startFrontDoor(name: string): Promise<FrontDoor> {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-front-door-"));
  const apiKey = `key-${randomBytes(16).toString("hex")}`;
  const port = await freePort();
  const [stack, image] = await Promise.all([
    startStack(name, {
      ...{ TENANCY_API_KEY: apiKey, TENANCY_PROXY_LISTEN: `127.0.0.1:${port}` },
      // Longer than a busy machine takes to start all pods of these tests at once.
      TENANCY_PROXY_WAIT: "240",
    }),
    frontDoorImage(folder),
  ]);
  await importImages(name, [image]);

  const door: FrontDoor = {
    ...{ stack, apiKey, port, folder },
    host: (workload, tenant) => `${workload}--${tenant}.localhost:${port}`,
    async api(method, path, body) {
      const response = await fetch(`${stack.url}/api/v1${path}`, {
        method,
        headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json" },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      });
      const text = await response.text();
      assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}\n${stack.output()}`);
      return JSON.parse(text) as Record<string, unknown>;
    },
    open(host, path, { method = "GET", headers = {} } = {}) {
      const all = { host, "x-tenancy-key": apiKey, ...headers };
      return httpRequest({ host: "127.0.0.1", port, path, method, headers: all, agent: false });
    },
    async send(host, path, { body, ...asked } = {}) {
      const request = door.open(host, path, asked);
      request.end(body);
      return await readAnswer(request);
    },
    raw: (text, isEnough) =>
      new Promise((resolve, reject) => {
        const socket = connect({ host: "127.0.0.1", port });
        let answer = "";
        socket.setTimeout(LIMIT_MS, () => socket.destroy(new Error(`no answer to ${text}; so far: ${answer}`)));
        socket.on("error", reject);
        socket.on("data", (chunk) => {
          answer += chunk.toString("latin1");
          if (isEnough(answer)) socket.end();
        });
        socket.on("close", () => resolve(answer));
        socket.write(text, "latin1");
      }),
    async until<T>(what: string, look: () => Promise<T | undefined | false>): Promise<T> {
      const explain = () => stack.output();
      return (await waitUntil(look, { what, limitMs: LIMIT_MS, intervalMs: 50, explain })) as T;
    },
    async stop() {
      rmSync(folder, { recursive: true });
      assert.is(await stack.interrupt(), 0, stack.output());
    },
  };

  const health = { httpGet: { path: "/", port: 8080 }, intervalSeconds: 1 };
  const common = { image: { ref: IMAGE }, resources: { vcpus: 1, memoryMb: 256, diskGb: 1 }, health };
  const network = { ports: [8080], expose: "link" };
  const specs: Record<string, object> = {
    site: { entrypoint: COMMANDS.nginx, network, health: { ...health, httpGet: { path: "/page.txt", port: 8080 } } },
    wsgi: { entrypoint: COMMANDS.wsgi, network },
    app: { entrypoint: COMMANDS.node, network: { ports: [8080, 9000, 9001], expose: "link" } },
    kept: {
      entrypoint: COMMANDS.node,
      network,
      filesystem: { overlayDirs: ["/data"] },
      // Longer than a busy machine takes from an answer to a look at what gave it.
      idle: { timeoutSeconds: 10 },
    },
  };
  await Promise.all(
    Object.entries(specs).map(([workload, spec]) =>
      door.api("POST", "/workloads", { name: workload, spec: { ...common, ...spec } }),
    ),
  );
  return door;
}

/** Reads the answer to a request that is under way. */
export async function readAnswer(request: ClientRequest): Promise<Answer> {
  const [response] = (await once(request, "response", limit())) as [IncomingMessage];
  const parts: Buffer[] = [];
  for await (const chunk of response as AsyncIterable<Buffer>) parts.push(chunk);
  const { statusCode: status = 0, headers, trailers } = response;
  return { status, headers, trailers, body: Buffer.concat(parts) };
}

/** Where a tenant's pod is on the cluster's network. */
export async function podOf(door: FrontDoor, tenant: string): Promise<{ instanceId: string; host: string }> {
  const { claims } = (await door.api("GET", `/tenants/${tenant}`)) as {
    claims: { instanceId: string; endpoint: { host: string } }[];
  };
  const [claim] = claims;
  assert.ok(claim, `tenant ${tenant} has no claim`);
  return { instanceId: claim.instanceId, host: claim.endpoint.host };
}
