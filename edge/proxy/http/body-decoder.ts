import type { BodyFraming } from "./body-framing.ts";
import { type Field, type HeadLimits, MessageError, parseFields } from "./message-head.ts";

/** Removes the framing of a body as it arrives. */
export interface BodyDecoder {
  /**
   * Passes on the data in a chunk, and returns how many bytes of the chunk belonged to the body.
   *
   * @throws MessageError if the framing is invalid
   */
  decode(chunk: Buffer, onData: (data: Buffer) => void): number;
  /** Whether the body has ended. */
  readonly isDone: boolean;
  /** Whether the body ends with the connection. */
  readonly endsWithConnection: boolean;
  /** Fields after the last chunk. */
  readonly trailer: readonly Field[];
}

const TRAILER_LIMITS: HeadLimits = { bytes: 8192, fields: 50 };
/** A chunk's size and its extensions, which are dropped. */
const MAX_SIZE_LINE = 256;
const SIZE_LINE = /^([0-9a-fA-F]{1,13})(?:[\t ]*;[\t\x20-\x7e]*)?$/;
const LF = 0x0a;

export function createBodyDecoder(framing: BodyFraming): BodyDecoder {
  switch (framing.kind) {
    case "none":
      return EMPTY;
    case "length":
      return framing.bytes === 0 ? EMPTY : createLengthDecoder(framing.bytes);
    case "chunked":
      return createChunkDecoder();
    case "close":
      return createEndlessDecoder();
    default:
      return framing satisfies never;
  }
}

const EMPTY: BodyDecoder = { decode: () => 0, isDone: true, endsWithConnection: false, trailer: [] };

function createLengthDecoder(bytes: number): BodyDecoder {
  let left = bytes;
  return {
    decode(chunk, onData) {
      const taken = Math.min(left, chunk.length);
      left -= taken;
      if (taken > 0) onData(taken === chunk.length ? chunk : chunk.subarray(0, taken));
      return taken;
    },
    get isDone() {
      return left === 0;
    },
    endsWithConnection: false,
    trailer: [],
  };
}

function createEndlessDecoder(): BodyDecoder {
  return {
    decode(chunk, onData) {
      onData(chunk);
      return chunk.length;
    },
    isDone: false,
    endsWithConnection: true,
    trailer: [],
  };
}

/** Decodes chunks (https://www.rfc-editor.org/rfc/rfc9112#section-7.1). A line that ends without CR LF is refused. */
function createChunkDecoder(): BodyDecoder {
  let state: "size" | "data" | "end-of-data" | "trailer" | "done" = "size";
  let left = 0;
  /** The received part of a line, in Latin-1. */
  let line = "";
  const trailerLines: string[] = [];
  let trailerBytes = 0;
  let trailer: Field[] = [];

  /** Reads to the end of a line; -1 if it has not arrived. */
  function readLine(chunk: Buffer, from: number, limit: number): number {
    const at = chunk.indexOf(LF, from);
    const end = at === -1 ? chunk.length : at + 1;
    line += chunk.toString("latin1", from, end);
    if (line.length > limit) throw new MessageError(400, "body: a line of the chunked coding is too long");
    if (at === -1) return -1;
    if (!line.endsWith("\r\n")) throw new MessageError(400, "body: a line of the chunked coding ends without CR LF");
    line = line.slice(0, -2);
    return end;
  }

  function endOfLine(): void {
    switch (state) {
      case "size": {
        const [, size] = SIZE_LINE.exec(line) ?? [];
        if (size === undefined) throw new MessageError(400, "body: a chunk's size is not a hexadecimal number");
        left = Number.parseInt(size, 16);
        state = left === 0 ? "trailer" : "data";
        break;
      }
      case "end-of-data":
        if (line !== "") throw new MessageError(400, "body: a chunk is longer than its size");
        state = "size";
        break;
      case "trailer":
        if (line !== "") {
          trailerLines.push(line);
          trailerBytes += line.length + 2;
          if (trailerBytes > TRAILER_LIMITS.bytes) throw new MessageError(431, "body: its trailer is too large");
          break;
        }
        trailer = parseFields(trailerLines, TRAILER_LIMITS, 0);
        state = "done";
        break;
      case "data":
      case "done":
        break;
      default:
        state satisfies never;
    }
    line = "";
  }

  return {
    decode(chunk, onData) {
      let at = 0;
      while (at < chunk.length && state !== "done") {
        if (state === "data") {
          const end = Math.min(at + left, chunk.length);
          onData(at === 0 && end === chunk.length ? chunk : chunk.subarray(at, end));
          left -= end - at;
          at = end;
          if (left === 0) state = "end-of-data";
          continue;
        }
        const limit = state === "size" ? MAX_SIZE_LINE : state === "trailer" ? TRAILER_LIMITS.bytes : 2;
        const next = readLine(chunk, at, limit);
        if (next === -1) return chunk.length;
        at = next;
        endOfLine();
      }
      return at;
    },
    get isDone() {
      return state === "done";
    },
    endsWithConnection: false,
    get trailer() {
      return trailer;
    },
  };
}
