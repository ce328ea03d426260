import { ApiError, reasonOf } from "./call.ts";

/** A line that is longer than this is no event of the API. */
const MOST_LINE = 4 * 1024 * 1024;

/**
 * The lines of a text that is streamed, without their ends. Leaving the loop ends the connection.
 *
 * @throws ApiError with the status 0 if the connection is lost; the signal's reason
 */
export async function* linesOf(
  response: Response,
  { signal, mostLength = MOST_LINE }: { signal?: AbortSignal | undefined; mostLength?: number } = {},
): AsyncGenerator<string, void> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (reader === undefined) return;
  // On Node 20 an aborted request may leave its answer open, since the signal can be collected as garbage.
  const abort = (): void => void reader.cancel(signal?.reason).catch(() => undefined);
  if (signal?.aborted === true) abort();
  signal?.addEventListener("abort", abort, { once: true });
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((cause: unknown) => {
        signal?.throwIfAborted();
        throw new ApiError(`the connection was lost: ${reasonOf(cause)}`, { status: 0, cause });
      });
      signal?.throwIfAborted();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop() ?? "";
      yield* lines;
      // A line without an end is passed on in pieces, so that it is never held as a whole.
      if (rest.length > mostLength) {
        yield rest;
        rest = "";
      }
    }
    if (rest !== "") yield rest;
  } finally {
    signal?.removeEventListener("abort", abort);
    await reader.cancel().catch(() => undefined);
  }
}

/** Events of the API, as it writes them: each in one line of server-sent events. Follow {@link linesOf}. */
export async function* eventsOf<Event>(
  response: Response,
  options: { signal?: AbortSignal | undefined } = {},
): AsyncGenerator<Event, void> {
  for await (const line of linesOf(response, { ...options, mostLength: Number.POSITIVE_INFINITY }))
    if (line.startsWith("data: ")) yield JSON.parse(line.slice(6)) as Event;
}
