import { readFileSync } from "node:fs";
import { Agent, type AgentOptions, type RequestOptions, request } from "node:https";
import { parse } from "yaml";

export interface ApiRequest {
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Path and query. */
  path: string;
  body?: unknown;
  /** @default application/json */
  contentType?: string;
  /** @default 10000 */
  limitMs?: number;
}

export interface ApiResponse {
  readonly status: number;
  readonly text: string;
}

/** What the cluster's own tools need of an API server: single calls, and a stream of lines. */
export interface ApiClient {
  /** Resolves with whatever the server answers, and rejects only when it does not. */
  call(request: ApiRequest): Promise<ApiResponse>;
  /** Resolves when the server ends the stream. */
  lines(path: string, onLine: (line: Buffer) => void, signal: AbortSignal): Promise<void>;
  close(): void;
}

/** Returns a client of the API server that a kubeconfig with inline credentials names. */
export function createApiClient(kubeconfigPath: string, options: { maxSockets?: number } = {}): ApiClient {
  const { server, tls, headers: authorization } = readKubeconfig(kubeconfigPath);
  const agent = new Agent({ keepAlive: true, maxSockets: options.maxSockets ?? 32, ...tls });
  const watches = new Agent({ keepAlive: false, ...tls });
  const send = (method: string, path: string, extra: RequestOptions, body?: Buffer): ReturnType<typeof request> => {
    const headers = { ...authorization, ...extra.headers };
    const outgoing = request(new URL(path, server), { method, ...extra, headers });
    outgoing.end(body);
    return outgoing;
  };
  return {
    call({ method, path, body, contentType, limitMs }) {
      const content = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
      const headers = content && {
        "content-type": contentType ?? "application/json",
        "content-length": content.length,
      };
      return new Promise((resolve, reject) => {
        const outgoing = send(
          method,
          path,
          { agent, timeout: limitMs ?? 10_000, ...(headers && { headers }) },
          content,
        );
        outgoing.once("error", reject);
        outgoing.once("timeout", () => {
          const error: NodeJS.ErrnoException = new Error(`Cannot ${method} ${path}: no answer in time`);
          error.code = "ETIMEDOUT";
          outgoing.destroy(error);
        });
        outgoing.once("response", (incoming) => {
          const chunks: Buffer[] = [];
          incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
          incoming.once("error", reject);
          incoming.once("end", () =>
            resolve({ status: incoming.statusCode ?? 0, text: Buffer.concat(chunks).toString("utf8") }),
          );
        });
      });
    },
    lines(path, onLine, signal) {
      return new Promise((resolve, reject) => {
        const outgoing = send("GET", path, { agent: watches, signal });
        outgoing.once("error", reject);
        outgoing.once("response", (incoming) => {
          if (incoming.statusCode !== 200) {
            outgoing.destroy(new Error(`Cannot GET ${path}: status ${incoming.statusCode}`));
            return;
          }
          let rest: Buffer = Buffer.alloc(0);
          incoming.on("data", (chunk: Buffer) => {
            rest = splitLines(rest.length === 0 ? chunk : Buffer.concat([rest, chunk]), onLine);
          });
          incoming.once("error", reject);
          incoming.once("close", resolve);
        });
      });
    },
    close() {
      agent.destroy();
      watches.destroy();
    },
  };
}

function splitLines(buffer: Buffer, onLine: (line: Buffer) => void): Buffer {
  let start = 0;
  for (let end = buffer.indexOf(10); end !== -1; end = buffer.indexOf(10, start)) {
    if (end > start) onLine(buffer.subarray(start, end));
    start = end + 1;
  }
  return buffer.subarray(start);
}

interface Kubeconfig {
  clusters: [{ cluster: { server: string; "certificate-authority-data": string } }];
  users: [{ user: { token: string } | { "client-certificate-data": string; "client-key-data": string } }];
}

/** How to reach an API server, and the headers that say as whom where the connection does not. */
export interface ApiAccess {
  readonly server: string;
  readonly tls: Pick<AgentOptions, "ca" | "cert" | "key">;
  readonly headers: { readonly authorization?: string };
}

/** Reads a kubeconfig with an inline authority, and an inline token or certificate. */
export function readKubeconfig(path: string): ApiAccess {
  const { clusters, users } = parse(readFileSync(path, "utf8")) as Kubeconfig;
  const decode = (text: string): Buffer => Buffer.from(text, "base64");
  const { server, "certificate-authority-data": authority } = clusters[0].cluster;
  const { user } = users[0];
  const ca = decode(authority);
  if ("token" in user) return { server, tls: { ca }, headers: { authorization: `Bearer ${user.token}` } };
  const cert = decode(user["client-certificate-data"]);
  return { server, tls: { ca, cert, key: decode(user["client-key-data"]) }, headers: {} };
}
