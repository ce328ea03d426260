import type { Clock } from "../../../crds/client/clock.ts";
import { createPoster } from "../post-json.ts";
import type { Fetch } from "./fetch-answer.ts";

/** A hundred updates are a few hundred kilobytes. */
const MAX_REPLY_BYTES = 16 * 1024 * 1024;
/** Less than the server's own patience with idle connections. */
const KEEP_ALIVE_MS = 30_000;

/**
 * `fetch` for the bot API that sends a request once: Deno's own sends a POST a second time when the connection ends before the
 * answer, which would be a second message in the chat (docs/decisions/740-grammy-over-our-own-connections.md).
 */
export function createPostFetch(options: { clock: Clock }): Fetch {
  const post = createPoster({ clock: options.clock, keepAliveMs: KEEP_ALIVE_MS });
  return async (url, { body, signal }) => {
    const reply = await post({
      url: new URL(url),
      body: typeof body === "string" ? body : "{}",
      maxReplyBytes: MAX_REPLY_BYTES,
      checkStatus: anyStatus,
      signal: signal ?? new AbortController().signal,
    });
    return { status: reply.status, text: async () => Buffer.from(reply.body).toString("utf8") };
  };
}

/** Errors of the bot API have a body that says more than the status. */
function anyStatus(): void {
  // Each is read.
}
