import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import { createServer as createSecureServer } from "node:https";
import type { AddressInfo } from "node:net";

/** What a server answers; `hang`: nothing, ever. */
export type Answer = { status?: number; headers?: Record<string, string>; body?: string } | "hang";

export interface SeenRequest {
  readonly path: string;
  readonly authorization: string | undefined;
  readonly accept: string | undefined;
}

export interface TestServer {
  /** `host:port` */
  readonly host: string;
  readonly requests: SeenRequest[];
  stop(): Promise<void>;
}

/** A real server of HTTP; 404 where the handler has no answer. */
export async function startServer(
  handler: (path: string, request: SeenRequest) => Answer | undefined,
  { address = "127.0.0.1", tls }: { address?: string; tls?: { key: string; cert: string } } = {},
): Promise<TestServer> {
  const requests: SeenRequest[] = [];
  const listener: RequestListener = (request, response) => {
    const seen = seenOf(request);
    requests.push(seen);
    const answer = handler(seen.path, seen) ?? { status: 404 };
    if (answer === "hang") return;
    response.writeHead(answer.status ?? 200, answer.headers);
    response.end(answer.body);
  };
  const server = tls === undefined ? createServer(listener) : createSecureServer(tls, listener);
  await new Promise<void>((resolve) => server.listen(0, address, resolve));
  return {
    host: `${address}:${(server.address() as AddressInfo).port}`,
    requests,
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function seenOf({ url = "", headers }: IncomingMessage): SeenRequest {
  return { path: url, authorization: headers.authorization, accept: headers.accept };
}

export function digestOf(body: string): string {
  return `sha256:${createHash("sha256").update(body).digest("hex")}`;
}

/** An image of one platform, as a registry holds it. */
export interface TestImage {
  readonly config: string;
  readonly manifest: string;
  readonly digest: string;
}

export function imageOf(config: unknown): TestImage {
  const text = JSON.stringify({ architecture: "amd64", os: "linux", config });
  const manifest = JSON.stringify({ schemaVersion: 2, config: { digest: digestOf(text) }, layers: [] });
  return { config: text, manifest, digest: digestOf(manifest) };
}

/** What a registry answers that has these manifests by tag, and all by digest. */
export function serving(
  tags: Readonly<Record<string, string>>,
  ...images: readonly (TestImage | string)[]
): (path: string) => Answer | undefined {
  const texts = images.flatMap((image) => (typeof image === "string" ? [image] : [image.config, image.manifest]));
  const blobs = new Map([...texts, ...Object.values(tags)].map((text) => [digestOf(text), text]));
  return (path) => {
    const [, name = ""] = /^\/v2\/(?:[^/]+\/)+(?:manifests|blobs)\/([^/]+)$/.exec(path) ?? [];
    const body = tags[name] ?? blobs.get(name);
    return body === undefined ? undefined : { body };
  };
}
