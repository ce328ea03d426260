import type { Clock } from "../../../crds/client/clock.ts";
import { createDeferred } from "../../../crds/waits.ts";
import { createPlaces } from "../../access/places.ts";

const PLACES = {
  ...{ most: 16, mostOfGroup: 4, mostWaiting: 1024, waitMs: 10_000 },
  busy: "many folders are being listed at the moment; try again shortly",
};
/** What the runtime holds of an answer; a shorter one needs no stream. */
const PIECE_BYTES = 64 * 1024;
/** A client that reads nothing for so long is disconnected. */
const UNREAD_MS = 60_000;

/** Limits how many long answers are held in memory at the same time. */
export interface PacedAnswers {
  /**
   * Answers with a JSON text. It is made once a place of this replica and of the tenant is free, and holds the place
   * until the client has read it.
   *
   * @throws HttpError 503 if no place is free for 10 s; 499 when the client disconnects before
   */
  answer(made: { tenantId: string; clientGone: AbortSignal; make: () => Promise<Buffer> }): Promise<Response>;
}

/** Creates the limit of a replica. */
export function createPacedAnswers({ clock }: { clock: Clock }): PacedAnswers {
  const places = createPlaces({ ...PLACES, clock });
  return {
    async answer({ tenantId, clientGone, make }) {
      const response = createDeferred<Response>();
      async function answerInPlace(): Promise<void> {
        const text = await make();
        const headers = { "content-type": "application/json", "content-length": String(text.length) };
        if (text.length <= PIECE_BYTES) {
          response.resolve(new Response(new Uint8Array(text), { headers }));
          return;
        }
        const sent = createDeferred<void>();
        const body = pacedBody(text, { clock, onEnd: sent.resolve });
        response.resolve(new Response(body, { headers: { ...headers, "x-accel-buffering": "no" } }));
        await sent.promise;
      }
      places.take([tenantId, ""], answerInPlace, { clientGone }).catch(response.reject);
      return await response.promise;
    },
  };
}

function pacedBody(
  bytes: Uint8Array,
  { clock, onEnd }: { clock: Pick<Clock, "after">; onEnd: () => void },
): ReadableStream<Uint8Array> {
  let at = 0;
  let stopTimer = (): void => undefined;

  function end(): void {
    stopTimer();
    onEnd();
  }

  function startTimer(controller: ReadableStreamDefaultController<Uint8Array>): void {
    stopTimer();
    stopTimer = clock.after(UNREAD_MS, () => {
      controller.error(new Error(`Cannot send a list: its client has read nothing for ${UNREAD_MS / 1000} s`));
      end();
    });
  }

  return new ReadableStream<Uint8Array>(
    {
      start: startTimer,
      pull(controller) {
        controller.enqueue(bytes.subarray(at, at + PIECE_BYTES));
        at += PIECE_BYTES;
        if (at < bytes.length) {
          startTimer(controller);
          return;
        }
        controller.close();
        end();
      },
      cancel: end,
    },
    { highWaterMark: 0 },
  );
}
