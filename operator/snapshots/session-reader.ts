import { Writable } from "node:stream";
import { createDeferred, type Deferred } from "../../crds/waits.ts";

/** What the store's script `session` answers to one question. */
export type SessionAnswer =
  /** No archive; `unmarked` on a volume that no save has marked. */
  | { readonly id: string; readonly kind: "none" | "unmarked" }
  | { readonly id: string; readonly kind: "failed"; readonly why: string }
  | {
      readonly id: string;
      readonly kind: "found";
      readonly sizeBytes: number;
      readonly lines: readonly string[];
      /**
       * Undefined where it is too large to be sent along. Rejected when it is cut off, or has another length than was
       * announced.
       */
      readonly archive: Promise<Buffer> | undefined;
    };

const HEAD = /^([0-9a-f]+) (none|unmarked|failed|found (\d+) (\d+))(?: (.*))?$/;
const MOST_LINES_BYTES = 256 * 1024;

interface Found {
  readonly id: string;
  readonly sizeBytes: number;
  readonly lines: string[];
  readonly archive: Deferred<Buffer>;
  readonly chunks: Buffer[];
  linesBytes: number;
  bytesLeft: number;
  part: "lines" | "archive" | "end";
}

/**
 * Parses the output of the script `session`, and fails the stream where it is something else. An answer is given when
 * all of its lines have arrived, so never a part of one; its archive comes later, and counts when the line after it has
 * arrived.
 *
 * @param options.mostBytes of an archive that is sent along
 */
export function createSessionReader(options: {
  mostBytes: number;
  onAnswer: (answer: SessionAnswer) => void;
}): Writable {
  const { mostBytes, onAnswer } = options;
  let rest: Buffer = Buffer.alloc(0);
  let found: Found | undefined;

  function takeHead(line: string): void {
    const [, id = "", kind, size, sent, why = ""] = HEAD.exec(line) ?? [];
    const [sizeBytes, sentBytes] = [Number(size), Number(sent)];
    if ((kind === "none" || kind === "unmarked") && why === "") onAnswer({ id, kind });
    else if (kind === "failed") onAnswer({ id, kind, why });
    else if (why === "" && sentBytes <= mostBytes && (sentBytes === 0 || sentBytes === sizeBytes)) {
      const [archive, linesBytes, bytesLeft] = [createDeferred<Buffer>(), 0, sentBytes];
      found = { id, sizeBytes, lines: [], archive, chunks: [], linesBytes, bytesLeft, part: "lines" };
    } else throw unreadable(line);
  }

  function takeFoundLine(line: string, of: Found): void {
    if (of.part === "end") {
      if (line !== `${of.id} end`) throw unreadable(line);
      found = undefined;
      of.archive.resolve(Buffer.concat(of.chunks));
    } else if (line === "") {
      const { id, sizeBytes, lines, archive, bytesLeft } = of;
      of.part = bytesLeft > 0 ? "archive" : "end";
      // No save stores an empty archive: whoever reads this one finds it corrupt.
      onAnswer({ id, kind: "found", sizeBytes, lines, archive: bytesLeft > 0 ? archive.promise : undefined });
    } else {
      of.linesBytes += line.length;
      if (of.linesBytes > MOST_LINES_BYTES) throw unreadable(line);
      of.lines.push(line);
    }
  }

  /** Whether there was something to take. */
  function take(): boolean {
    if (found?.part === "archive") {
      // A copy, since a part of a chunk would keep the whole of it in memory.
      const part = Buffer.from(rest.subarray(0, found.bytesLeft));
      rest = rest.subarray(part.length);
      found.chunks.push(part);
      found.bytesLeft -= part.length;
      if (found.bytesLeft === 0) found.part = "end";
      return rest.length > 0;
    }
    const end = rest.indexOf(10);
    if (end === -1) {
      if (rest.length > MOST_LINES_BYTES) throw unreadable(rest.toString("utf8", 0, 100));
      return false;
    }
    const line = rest.toString("utf8", 0, end);
    rest = rest.subarray(end + 1);
    if (found === undefined) takeHead(line);
    else takeFoundLine(line, found);
    return rest.length > 0;
  }

  return new Writable({
    write(chunk: Buffer, _encoding, callback) {
      rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      try {
        while (take());
        callback();
      } catch (error) {
        callback(error as Error);
      }
    },
    destroy(error, callback) {
      found?.archive.reject(error ?? new Error("Cannot read the archive: it is cut off"));
      callback(error);
    },
  });
}

function unreadable(line: string): Error {
  return new Error(`Cannot look at archives: the helper answers ${JSON.stringify(line.slice(0, 100))}`);
}
