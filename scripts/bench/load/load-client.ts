import { Agent, request as sendRequest } from "node:http";

/** Sends HTTP requests over persistent connections, like a platform's back end. */
export interface LoadClient {
  /** @throws Error if there is no complete response */
  call(method: string, path: string, body?: unknown): Promise<{ status: number; text: string }>;
  /** Opens this many connections, so that no timed request has to. */
  open(connections: number): Promise<void>;
  close(): void;
}

/**
 * Makes a client of one server.
 *
 * @param options.url such as `http://127.0.0.1:8080`
 * @param options.silenceMs how long the server may be silent until a call fails. @default 40000
 */
export function createLoadClient(options: { url: string; silenceMs?: number }): LoadClient {
  const { hostname: host, port } = new URL(options.url);
  const agent = new Agent({ keepAlive: true, maxFreeSockets: 1024, scheduling: "lifo", noDelay: true });
  const timeout = options.silenceMs ?? 40_000;

  function call(method: string, path: string, body?: unknown): Promise<{ status: number; text: string }> {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const headers =
      text === undefined
        ? {}
        : { "content-type": "application/json", "content-length": String(Buffer.byteLength(text)) };
    return new Promise((resolve, reject) => {
      const request = sendRequest({ host, port, agent, method, path, headers, timeout }, (response) => {
        let answer = "";
        response.setEncoding("utf8");
        response.on("data", (chunk: string) => {
          answer += chunk;
        });
        response.on("end", () => resolve({ status: response.statusCode ?? 0, text: answer }));
        response.on("error", reject);
      });
      request.on("timeout", () => request.destroy(new Error(`no answer within ${timeout / 1000} s`)));
      request.on("error", reject);
      request.end(text);
    });
  }

  return {
    call,
    async open(connections) {
      await Promise.all(Array.from({ length: connections }, () => call("GET", "/api/v1/health")));
    },
    close: () => agent.destroy(),
  };
}
