import { Transform } from "node:stream";

const maxLineBytes = 64 * 1024;

/** A stream that keeps the first lines of what goes through, and passes the rest on as it is. */
export interface LineTaker {
  readonly stream: Transform;
  /** The lines, once they are there. */
  readonly lines: () => readonly string[] | undefined;
}

/**
 * Takes the lines off the beginning of a stream, up to the first for which `isLast` holds.
 *
 * @throws Error through the stream, when it ends before that or says too much
 */
export function createLineTaker(isLast: (line: string) => boolean): LineTaker {
  let pending = Buffer.alloc(0);
  const lines: string[] = [];
  let bytes = 0;
  let isDone = false;

  const stream = new Transform({
    transform(chunk: Buffer, _encoding, callback) {
      if (isDone) {
        callback(null, chunk);
        return;
      }
      pending = Buffer.concat([pending, chunk]);
      for (let end = pending.indexOf(10); end !== -1 && !isDone; end = pending.indexOf(10)) {
        const line = pending.toString("utf8", 0, end);
        pending = pending.subarray(end + 1);
        bytes += end + 1;
        lines.push(line);
        isDone = isLast(line);
      }
      if (!isDone && bytes + pending.length > maxLineBytes) {
        callback(new Error("Cannot read a stream: it begins with other lines than it should"));
      } else if (isDone && pending.length > 0) {
        callback(null, pending);
      } else {
        callback();
      }
    },
    flush(callback) {
      callback(isDone ? null : new Error("Cannot read a stream: it ends before its first lines do"));
    },
  });
  return { stream, lines: () => (isDone ? lines : undefined) };
}
