import { type Output, writeTo } from "../io.ts";
import { bytesText } from "../printer.ts";

const STEP_BYTES = 1024 * 1024;

/** How far a copy is, on a terminal; nothing elsewhere. */
export interface Progress {
  add(bytes: number): void;
  /** Adds what is read of a stream. */
  count(stream: ReadableStream<Uint8Array>): ReadableStream<Uint8Array>;
  end(): Promise<void>;
}

export function createProgress(stderr: Output): Progress {
  let bytes = 0;
  let shown = 0;
  const show = (): Promise<void> => writeTo(stderr, `\r${bytesText(bytes).padEnd(12)}`);

  function add(more: number): void {
    bytes += more;
    if (stderr.isTTY !== true || bytes - shown < STEP_BYTES) return;
    shown = bytes;
    // What is shown is no reason to fail.
    show().catch(() => undefined);
  }

  return {
    add,
    count: (stream) =>
      stream.pipeThrough(
        new TransformStream<Uint8Array, Uint8Array>({
          transform(piece, controller) {
            add(piece.length);
            controller.enqueue(piece);
          },
        }),
      ),
    async end() {
      if (shown === 0) return;
      await show();
      await writeTo(stderr, "\n");
    },
  };
}
