import { Writable } from "node:stream";

/** What the store's script `desk` answers to one question. */
export type DeskAnswer =
  /** No archive; `unmarked` on a volume that no save has marked. */
  | { readonly id: string; readonly kind: "none" | "unmarked" }
  | { readonly id: string; readonly kind: "failed"; readonly why: string }
  | {
      readonly id: string;
      readonly kind: "found";
      readonly sizeBytes: number;
      readonly lines: readonly string[];
      /** Undefined where it is too large to be sent along. */
      readonly archive: Buffer | undefined;
    };

const HEAD = /^([0-9a-f]+) (none|unmarked|failed|found (\d+) (\d+))(?: (.*))?$/;
const MOST_LINES_BYTES = 256 * 1024;

interface Found {
  readonly id: string;
  readonly sizeBytes: number;
  readonly sentBytes: number;
  readonly lines: string[];
  readonly chunks: Buffer[];
  linesBytes: number;
  bytesLeft: number;
  part: "lines" | "archive" | "end";
}

/**
 * Takes the output of the script `desk` apart; fails the stream where that is none. An answer counts when its last line is there, so one
 * that is cut in the middle is none, and neither is one whose archive has other than the bytes that were announced.
 *
 * @param options.mostBytes of an archive that is sent along
 */
export function createDeskReader(options: { mostBytes: number; onAnswer: (answer: DeskAnswer) => void }): Writable {
  const { mostBytes, onAnswer } = options;
  let rest: Buffer = Buffer.alloc(0);
  let found: Found | undefined;

  function takeHead(line: string): void {
    const [, id = "", kind, size, sent, why = ""] = HEAD.exec(line) ?? [];
    const [sizeBytes, sentBytes] = [Number(size), Number(sent)];
    if ((kind === "none" || kind === "unmarked") && why === "") onAnswer({ id, kind });
    else if (kind === "failed") onAnswer({ id, kind, why });
    else if (why === "" && sentBytes <= mostBytes && (sentBytes === 0 || sentBytes === sizeBytes)) {
      const [linesBytes, bytesLeft] = [0, sentBytes];
      found = { id, sizeBytes, sentBytes, lines: [], chunks: [], linesBytes, bytesLeft, part: "lines" };
    } else throw unreadable(line);
  }

  function takeFoundLine(line: string, of: Found): void {
    if (of.part === "end") {
      if (line !== `${of.id} end`) throw unreadable(line);
      found = undefined;
      const { id, sizeBytes, sentBytes, lines, chunks } = of;
      // An archive of no bytes is none that was ever stored, and is looked at by whoever reads it.
      const archive = sentBytes === 0 ? undefined : Buffer.concat(chunks);
      onAnswer({ id, kind: "found", sizeBytes, lines, archive });
    } else if (line === "") {
      of.part = of.bytesLeft > 0 ? "archive" : "end";
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
  });
}

function unreadable(line: string): Error {
  return new Error(`Cannot look at archives: the helper answers ${JSON.stringify(line.slice(0, 100))}`);
}
