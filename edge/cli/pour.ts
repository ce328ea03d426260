import type { Writable } from "node:stream";
import { CommandError } from "./command.ts";
import { writeTo } from "./io.ts";

/**
 * Writes an answer as it comes, byte for byte, at the pace of the reader.
 *
 * @param options.onBytes called with the number of each piece
 * @throws CommandError if the connection is lost before its end; the signal's reason
 */
export async function pourTo(
  output: Writable,
  response: Response,
  { signal, onBytes }: { signal: AbortSignal; onBytes?: (bytes: number) => void },
): Promise<void> {
  for await (const piece of piecesOf(response, signal)) {
    onBytes?.(piece.length);
    await writeTo(output, piece);
  }
}

/** The bytes of an answer. @throws as {@link pourTo} does */
export async function* piecesOf(response: Response, signal: AbortSignal): AsyncGenerator<Uint8Array, void> {
  const reader = response.body?.getReader();
  if (reader === undefined) return;
  // Node 20 does not always end an answer with the signal of its request.
  const abort = (): void => void reader.cancel(signal.reason).catch(() => undefined);
  signal.addEventListener("abort", abort, { once: true });
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((cause: Error) => {
        signal.throwIfAborted();
        throw new CommandError(`the connection was lost: ${cause.message}`, { exitCode: 6, cause });
      });
      signal.throwIfAborted();
      if (done) return;
      yield value;
    }
  } finally {
    signal.removeEventListener("abort", abort);
    await reader.cancel().catch(() => undefined);
  }
}
