import { randomBytes } from "node:crypto";

/** State of one direction of a WebSocket: a few numbers, since thousands are open. */
export interface FrameState {
  /** Whether this side masks its frames, as clients do. */
  readonly isMasked: boolean;
  /** Whether everything so far was valid frames. */
  isValid: boolean;
  /** Whether a close frame has begun, after which nothing follows. */
  isClosed: boolean;
  /** Whether the frame carries data, that is, not a ping, pong or close. */
  isData: boolean;
  /** The next byte of a frame's header: its first, its second, or one of its length. */
  next: "first" | "second" | "length";
  /** Missing bytes of the length. */
  lengthBytes: number;
  length: number;
  /** Remaining bytes of the frame, including its mask. */
  left: number;
}

const MASK_BYTES = 4;
const CLOSE = 8;

export function createFrameState({ isMasked }: Pick<FrameState, "isMasked">): FrameState {
  return {
    isMasked,
    isValid: true,
    isClosed: false,
    isData: false,
    next: "first",
    lengthBytes: 0,
    length: 0,
    left: 0,
  };
}

/**
 * Reads the headers of frames in a chunk from one side, and skips their contents
 * (https://www.rfc-editor.org/rfc/rfc6455#section-5.2). Messages and compression concern only the two ends.
 *
 * @returns whether the chunk contains part of a data frame; always true after invalid data
 */
export function scanFrames(state: FrameState, chunk: Buffer): boolean {
  if (!state.isValid) return true;
  let hasData = state.left > 0 && state.isData && chunk.length > 0;
  let at = state.left;
  while (at < chunk.length) {
    readHeader(state, chunk[at] as number);
    if (!state.isValid) return true;
    if (state.isData) hasData = true;
    at += 1 + state.left;
  }
  state.left = at - chunk.length;
  return hasData;
}

/** Whether a frame of ours can be inserted here. */
export function isBetweenFrames({ isValid, next, left }: FrameState): boolean {
  return isValid && next === "first" && left === 0;
}

function readHeader(state: FrameState, byte: number): void {
  switch (state.next) {
    case "first": {
      const opcode = byte & 0x0f;
      const isControl = opcode >= CLOSE;
      // A control frame is complete and not compressed. No extension uses the second and third reserved bit.
      const isKnown = isControl ? opcode <= 10 && byte >> 4 === 0x8 : opcode <= 2 && (byte & 0x30) === 0;
      state.isValid = isKnown && !state.isClosed;
      state.isData = !isControl;
      if (opcode === CLOSE) state.isClosed = true;
      state.left = 0;
      state.next = "second";
      break;
    }
    case "second": {
      const length = byte & 0x7f;
      state.isValid = byte >= 0x80 === state.isMasked && (state.isData || length < 126);
      if (length < 126) endHeader(state, length);
      else {
        state.next = "length";
        state.lengthBytes = length === 126 ? 2 : 8;
        state.length = 0;
      }
      break;
    }
    case "length":
      state.length = state.length * 256 + byte;
      state.lengthBytes -= 1;
      if (state.lengthBytes > 0) break;
      state.isValid = state.length <= Number.MAX_SAFE_INTEGER;
      endHeader(state, state.length);
      break;
    default:
      state.next satisfies never;
  }
}

function endHeader(state: FrameState, length: number): void {
  state.next = "first";
  state.left = length + (state.isMasked ? MASK_BYTES : 0);
}

/** A close frame with a code (https://www.rfc-editor.org/rfc/rfc6455#section-7.4). */
export function closeFrame(code: number, { isMasked }: Pick<FrameState, "isMasked">): Buffer {
  const payload = [code >> 8, code & 0xff];
  if (!isMasked) return Buffer.from([0x88, payload.length, ...payload]);
  const mask = randomBytes(MASK_BYTES);
  return Buffer.from([0x88, 0x80 | payload.length, ...mask, ...payload.map((byte, at) => byte ^ (mask[at] as number))]);
}
