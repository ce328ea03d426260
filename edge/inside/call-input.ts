export type CallInput = AsyncIterable<Uint8Array> | ReadableStream<Uint8Array>;

/** Reads an input piece by piece. */
export interface InputReader {
  /** The next piece; undefined at the end. @throws the error of the input */
  next(): Promise<Uint8Array | undefined>;
  /** Releases what the input holds; also while a piece is awaited. */
  stop(): void;
}

/** A `ReadableStream` is read with its reader: unlike its iterator, it can be cancelled while a piece is awaited. */
export function readInput(input: CallInput): InputReader {
  if (input instanceof ReadableStream) {
    const reader = input.getReader();
    return {
      next: async () => (await reader.read()).value,
      stop: () => void reader.cancel().catch(ignore),
    };
  }
  const iterator = input[Symbol.asyncIterator]();
  return {
    async next() {
      const { done, value } = await iterator.next();
      return done ? undefined : value;
    },
    stop: () => void iterator.return?.().catch(ignore),
  };
}

function ignore(): void {
  // The call has ended: its result does not depend on how the input ends.
}
