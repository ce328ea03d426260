import type { OpenApiDocument } from "../../../edge/api/openapi/document.ts";
import { answerProblems } from "../../unit/edge/answer-problems.ts";
import { type EdgeProcess, type runtimes, startReadyEdge } from "../../unit/edge/edge-process.ts";

export const KEY = "cluster-test-key";

/** An edge process on a real API server, whose answers are all held against its own document. */
export interface RestEdge {
  readonly process: EdgeProcess;
  /** What answers differed in from the document. */
  readonly problems: string[];
  /** Sends a request to a route; `path` is the route with its parameters filled in. */
  call(
    route: string,
    options?: { path?: string; body?: unknown; key?: string | undefined },
  ): Promise<{ status: number; text: string; json: unknown; headers: Headers }>;
  stop(): Promise<number | string>;
}

/** Starts an edge, and waits until its caches are synced. */
export async function startRestEdge(runtime: keyof typeof runtimes, env: Record<string, string>): Promise<RestEdge> {
  const edge = await startReadyEdge(runtime, { TENANCY_API_KEY: KEY, ...env });
  const headers = { authorization: `Bearer ${KEY}` };
  const document = (await (await fetch(`${edge.url}/api/v1/openapi.json`, { headers })).json()) as OpenApiDocument;
  const problems: string[] = [];
  return {
    process: edge,
    problems,
    async call(route, options = {}) {
      const [method = "GET", pattern = ""] = route.split(" ");
      const key = "key" in options ? options.key : KEY;
      const response = await fetch(`${edge.url}${options.path ?? pattern}`, {
        method,
        headers: {
          ...(key !== undefined && { authorization: `Bearer ${key}` }),
          ...(options.body !== undefined && { "content-type": "application/json" }),
        },
        ...(options.body !== undefined && { body: JSON.stringify(options.body) }),
      });
      const text = await response.text();
      const contentType = response.headers.get("content-type");
      problems.push(...answerProblems(document, { route, status: response.status, contentType, text }));
      const isJson = contentType?.startsWith("application/json") ?? false;
      return { status: response.status, text, json: isJson ? JSON.parse(text) : undefined, headers: response.headers };
    },
    async stop() {
      edge.child.kill("SIGTERM");
      return edge.exited;
    },
  };
}
