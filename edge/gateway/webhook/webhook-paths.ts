import type { AnswerWebhook } from "../../http/handler.ts";

/** The paths that webhook triggers serve at the moment. */
export interface WebhookPaths {
  find(path: string): AnswerWebhook | undefined;
  /**
   * Serves a path in place of its present handler; the function it returns ends that, unless another handler has the
   * path by then.
   */
  register(path: string, answer: AnswerWebhook): () => void;
}

/** Makes an empty table of paths; each is matched whole and as sent. */
export function createWebhookPaths(): WebhookPaths {
  const handlers = new Map<string, AnswerWebhook>();
  return {
    find: (path) => handlers.get(path),
    register(path, answer) {
      handlers.set(path, answer);
      return () => {
        if (handlers.get(path) === answer) handlers.delete(path);
      };
    },
  };
}

/**
 * What the edge serves itself, or is to serve: the API, its documents, events, probes and the dashboard with its files.
 */
const RESERVED = [
  "api",
  "ws",
  "docs",
  "metrics",
  "healthz",
  "readyz",
  "livez",
  "dashboard",
  "assets",
  "favicon.ico",
  "robots.txt",
];

/**
 * Why a webhook cannot have a path; undefined where it can.
 *
 * A path whose first segment is the edge's own is refused in any case and encoding, since proxies in front may decode
 * it.
 */
export function pathProblem(path: string): string | undefined {
  const base = "http://edge.invalid";
  const normal = URL.canParse(path, base) ? new URL(path, base).pathname : undefined;
  if (normal !== path)
    return `is not in its normal form, which is ${normal ?? "unknown"}; write it without . and .. segments`;
  let decoded: string;
  try {
    decoded = decodeURIComponent(path).toLowerCase();
  } catch {
    return "is not valid percent-encoding";
  }
  const first = decoded.split("/").find((segment) => segment !== "");
  if (first === undefined) return "is the edge's own; choose another, such as /hooks/my-trigger";
  if (decoded.includes("//")) return "has an empty segment; write it without //";
  if (RESERVED.includes(first))
    return `is the edge's own, as is all below /${first}; choose another, such as /hooks${path}`;
  return undefined;
}
