import type { Clock } from "../../../crds/client/clock.ts";

/** A silent stream of events gets a comment after so long, for what is between client and server. */
const KEEP_ALIVE_MS = 15_000;

/** How a client reads events. */
type StreamKind = "text/event-stream" | "application/x-ndjson";

/** Server-sent events for those who accept them, otherwise lines of JSON. */
export function streamKindOf({ headers }: Request): StreamKind {
  return headers.get("accept")?.includes("text/event-stream") === true ? "text/event-stream" : "application/x-ndjson";
}

/**
 * A response with events as they come: as server-sent events, named by their type, or as lines of JSON. An error breaks
 * the stream off, so that it never looks complete.
 *
 * Follows https://html.spec.whatwg.org/multipage/server-sent-events.html and https://github.com/ndjson/ndjson-spec.
 *
 * @param options.leave called when the client has gone, also while the next event is awaited: it ends them
 */
export function eventStream(
  events: AsyncIterator<{ readonly type: string }, void>,
  { kind, clock, leave }: { kind: StreamKind; clock: Clock; leave: () => Promise<unknown> },
): Response {
  const isSse = kind === "text/event-stream";
  let isLeft = false;
  let cancelTimer = (): void => undefined;
  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        if (!isSse) return;
        const keepAlive = (): void => {
          // A client that does not read needs none.
          if ((controller.desiredSize ?? 0) > 0) controller.enqueue(Buffer.from(":\n\n"));
          cancelTimer = clock.after(KEEP_ALIVE_MS, keepAlive);
        };
        // The response's head is sent with its first byte on some runtimes.
        keepAlive();
      },
      async pull(controller) {
        try {
          const { done, value } = await events.next();
          if (isLeft) return;
          if (done === true) {
            cancelTimer();
            controller.close();
            return;
          }
          const json = JSON.stringify(value);
          controller.enqueue(Buffer.from(isSse ? `event: ${value.type}\ndata: ${json}\n\n` : `${json}\n`));
        } catch (error) {
          cancelTimer();
          if (!isLeft) controller.error(error);
        }
      },
      async cancel() {
        isLeft = true;
        cancelTimer();
        await leave();
      },
    },
    { highWaterMark: 1 },
  );
  return new Response(body, { headers: { "content-type": kind, "x-accel-buffering": "no" } });
}
