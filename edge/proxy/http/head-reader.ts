import { type HeadLimits, MessageError } from "./message-head.ts";

/** Collects a message's head as it arrives. */
export interface HeadReader {
  /**
   * Takes a chunk; returns the head without its blank line, in Latin-1, and the rest, once it is complete.
   *
   * @throws MessageError 431 if it is too large, 400 if a line ends without CR LF
   */
  push(chunk: Buffer): { readonly text: string; readonly rest: Buffer } | undefined;
  /** Received bytes of a head. */
  readonly bytes: number;
}

const LF = 0x0a;
const END = "\r\n\r\n";

export function createHeadReader(limits: HeadLimits): HeadReader {
  let text = "";
  let hasSkipped = false;

  /** Nearly every head arrives in one chunk; nothing after it is read. */
  function readWhole(chunk: Buffer): ReturnType<HeadReader["push"]> {
    const end = chunk.indexOf(END, 0, "latin1");
    // A head may begin with one empty line; the reader by chunks handles that case.
    if (end < 1 || end > limits.bytes || chunk[0] === 0x0d) return undefined;
    return { text: chunk.toString("latin1", 0, end), rest: chunk.subarray(end + END.length) };
  }

  return {
    push(chunk) {
      const whole = text === "" ? readWhole(chunk) : undefined;
      if (whole !== undefined) return whole;
      let before = text.length;
      text += chunk.toString("latin1", 0, limits.bytes + END.length - before);
      // A peer may send byte by byte: the text is searched only after a line has ended.
      if (chunk.includes(LF)) {
        // https://www.rfc-editor.org/rfc/rfc9112#section-2.2
        if (!hasSkipped && text.startsWith("\r\n")) {
          hasSkipped = true;
          text = text.slice(2);
          before -= 2;
        }
        const end = text.indexOf(END, Math.max(0, before - END.length));
        if (end !== -1) return { text: text.slice(0, end), rest: chunk.subarray(end + END.length - before) };
        if (hasBareLineFeed(text, before)) throw new MessageError(400, "headers: a line ends without CR LF");
      }
      if (text.length >= limits.bytes) {
        throw new MessageError(431, `headers: more than ${limits.bytes} bytes are too many`);
      }
      return undefined;
    },
    get bytes() {
      return text.length;
    },
  };
}

function hasBareLineFeed(text: string, from: number): boolean {
  for (let at = text.indexOf("\n", from); at !== -1; at = text.indexOf("\n", at + 1)) {
    if (text.charCodeAt(at - 1) !== 0x0d) return true;
  }
  return false;
}
