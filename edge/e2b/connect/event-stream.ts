import { randomBytes } from "node:crypto";
import type { Clock } from "../../../crds/client/clock.ts";
import type { Log } from "../../../crds/log.ts";
import { errorAnswer } from "../../http/response.ts";
import { connectErrorOf } from "./connect-error.ts";
import { endEnvelope, messageEnvelope } from "./envelope.ts";

export const STREAM_TYPE = "application/connect+json";

/** Messages that a server sends. */
export interface ServerEvents {
  readonly events: AsyncIterator<object, void>;
  /** Called when the client has gone, also while the next event is awaited: it ends them. */
  readonly leave: () => Promise<unknown>;
}

/**
 * A response with messages as they come, at the client's pace. An error is its last message.
 *
 * @param options.keepAlive the message for a client whose stream was silent for `ms` milliseconds
 */
export function eventStream(
  { events, leave }: ServerEvents,
  { keepAlive, clock, log }: { keepAlive: { ms: number; message: object }; clock: Clock; log: Log },
): Response {
  let isLeft = false;
  let awaited: ReturnType<typeof events.next> | undefined;

  async function nextOrSilence(): Promise<IteratorResult<object, void> | undefined> {
    awaited ??= events.next();
    let cancel = (): void => undefined;
    const silence = new Promise<undefined>((resolve) => {
      cancel = clock.after(keepAlive.ms, () => resolve(undefined));
    });
    try {
      const next = await Promise.race([awaited, silence]);
      if (next !== undefined) awaited = undefined;
      return next;
    } finally {
      cancel();
    }
  }

  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const next = await nextOrSilence();
          if (isLeft) return;
          if (next?.done !== true) {
            controller.enqueue(messageEnvelope(next?.value ?? keepAlive.message));
            return;
          }
          controller.enqueue(endEnvelope());
        } catch (error) {
          if (isLeft) return;
          controller.enqueue(endEnvelope(connectErrorOf(errorAnswer(error, { requestId: streamId(), log }))));
        }
        controller.close();
      },
      async cancel() {
        isLeft = true;
        awaited?.catch(() => undefined);
        await leave();
      },
    },
    { highWaterMark: 1 },
  );
  return new Response(body, { headers: { "content-type": STREAM_TYPE, "x-accel-buffering": "no" } });
}

/** Names an error of a stream, whose request has been answered. */
function streamId(): string {
  return `stream-${randomBytes(4).toString("hex")}`;
}
