import type { AnswerWebhook } from "../../http/handler.ts";

/** The paths that webhook triggers serve now. */
export interface WebhookPaths {
  find(path: string): AnswerWebhook | undefined;
  /**
   * Serves a path instead of its current handler; returns a function that ends this, unless another handler has the
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

/** Paths of the edge itself: the API, its documents, events, probes and the dashboard with its files. */
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
 * Why a webhook cannot have a path; undefined if it can.
 *
 * A path whose first segment belongs to the edge is refused in any case and encoding, since proxies in front may decode
 * it.
 */
export function pathProblem(path: string): string | undefined {
  const base = "http://edge.invalid";
  const normal = URL.canParse(path, base) ? new URL(path, base).pathname : undefined;
  if (normal !== path) return `is not normalized: use ${normal ?? "a valid path"}, without . and .. segments`;
  let decoded: string;
  try {
    decoded = decodeURIComponent(path).toLowerCase();
  } catch {
    return "is not valid percent-encoding";
  }
  const first = decoded.split("/").find((segment) => segment !== "");
  if (first === undefined) return "belongs to the edge; choose another, such as /hooks/my-trigger";
  if (decoded.includes("//")) return "has an empty segment; write it without //";
  if (RESERVED.includes(first))
    return `belongs to the edge, as does everything below /${first}; choose another, such as /hooks${path}`;
  return undefined;
}
