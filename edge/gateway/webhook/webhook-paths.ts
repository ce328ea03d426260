import type { RequestContext } from "../../http/request-context.ts";

/** Answers one webhook's requests, of any method. @throws HttpError */
export type AnswerWebhook = (request: Request, context: RequestContext) => Promise<Response>;

/** The paths that webhook triggers hold at the moment. */
export interface WebhookPaths {
  find(path: string): AnswerWebhook | undefined;
  /** Serves a path, instead of whoever did until now; the function it returns ends that, unless another has it by then. */
  hold(path: string, answer: AnswerWebhook): () => void;
}

/** Makes an empty table of paths; each is matched whole and as sent. */
export function createWebhookPaths(): WebhookPaths {
  const holders = new Map<string, AnswerWebhook>();
  return {
    find: (path) => holders.get(path),
    hold(path, answer) {
      holders.set(path, answer);
      return () => {
        if (holders.get(path) === answer) holders.delete(path);
      };
    },
  };
}
