import { ApiError } from "./call.ts";

/** What an output holds while nothing reads it. */
const MOST_UNASKED = 1024 * 1024;

/** An output of a process, as a stream that is made when it is first asked for. */
export interface Output {
  readonly stream: ReadableStream<Uint8Array>;
  /** The bytes that its reader has not taken. 0 while there is none, and once it has left. */
  unread(): number;
  push(bytes: Uint8Array): void;
  end(): void;
  fail(error: unknown): void;
}

export function createOutput(): Output {
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined;
  let stream: ReadableStream<Uint8Array> | undefined;
  let early: Uint8Array[] = [];
  let bytes = 0;
  let close: (() => void) | undefined;
  let isLeft = false;

  function finish(act: () => void): void {
    if (close !== undefined) return;
    close = act;
    if (controller !== undefined && !isLeft) act();
  }

  return {
    get stream() {
      stream ??= new ReadableStream<Uint8Array>(
        {
          start(made) {
            controller = made;
            for (const piece of early) made.enqueue(piece);
            early = [];
            close?.();
          },
          cancel() {
            isLeft = true;
          },
        },
        { highWaterMark: 0, size: (piece) => piece?.length ?? 0 },
      );
      return stream;
    },
    unread: () => (isLeft || close !== undefined ? 0 : -(controller?.desiredSize ?? 0)),
    push(piece) {
      if (isLeft || close !== undefined) return;
      if (controller !== undefined) {
        controller.enqueue(piece);
        return;
      }
      bytes += piece.length;
      if (bytes <= MOST_UNASKED) early.push(piece);
      else
        finish(() =>
          controller?.error(new ApiError("more than 1 MiB came before this output was read", { status: 0 })),
        );
    },
    end: () => finish(() => controller?.close()),
    fail: (error) => finish(() => controller?.error(error)),
  };
}
