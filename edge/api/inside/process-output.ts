import * as v from "valibot";
import type { ApiTypes } from "../openapi/schemas.ts";
import { textOf } from "./byte-text.ts";
import { podAnswer, podJson } from "./pod-answer.ts";

/** What the program in a pod says of a process. */
const count = v.pipe(v.number(), v.integer(), v.minValue(0));
const time = v.pipe(v.string(), v.isoTimestamp());
const processState = v.object({
  pid: count,
  command: v.array(v.string()),
  cwd: v.string(),
  tty: v.boolean(),
  background: v.boolean(),
  startedAt: time,
  endedAt: v.optional(time),
  exitCode: v.optional(count),
  signal: v.optional(v.string()),
  timedOut: v.optional(v.boolean()),
  stdoutBytes: count,
  stderrBytes: count,
});

type Process = ApiTypes["Process"];

/** Shows a process as the API does. */
export function processOf(answer: unknown): Process {
  const { pid, command, cwd, endedAt, exitCode, signal, timedOut, ...rest } = podAnswer(processState, answer);
  return {
    ...{ pid, command: command.map(textOf), cwd: textOf(cwd), ...rest },
    state: endedAt === undefined ? "running" : "ended",
    ...(endedAt !== undefined && { endedAt }),
    ...(exitCode !== undefined && { exitCode }),
    ...(signal !== undefined && { signal }),
    ...(timedOut !== undefined && { timedOut }),
  };
}

const channels = { 1: "stdout", 2: "stderr" } as const;
const STATE = 3;
/** Of a message with output: its channel, and its offset in 8 bytes. */
const HEAD_BYTES = 9;
/** A command has at most 100 000 bytes, each of which can take six characters. */
const MAX_STATE_BYTES = 1024 * 1024;

export type OutputEvent =
  | { readonly type: "stdout" | "stderr"; readonly offset: number; readonly bytes: Uint8Array }
  | { readonly type: "process"; readonly process: Process };

/** Reads the messages of a process that is followed. The last one has its state. */
export async function* outputEvents(data: AsyncIterable<Uint8Array>): AsyncGenerator<OutputEvent, void> {
  const state: Uint8Array[] = [];
  let stateBytes = 0;
  for await (const message of data) {
    const kind = message[0] ?? 0;
    if (state.length > 0 || kind === STATE) {
      state.push(state.length === 0 ? message.subarray(1) : message);
      stateBytes += message.length;
      if (stateBytes > MAX_STATE_BYTES) break;
    } else if ((kind === 1 || kind === 2) && message.length > HEAD_BYTES) {
      const offset = Number(new DataView(message.buffer, message.byteOffset).getBigUint64(1));
      yield { type: channels[kind], offset, bytes: message.subarray(HEAD_BYTES) };
    }
  }
  yield { type: "process", process: processOf(podJson(Buffer.concat(state).toString("utf8"))) };
}

/** What callers get of an output that is followed. */
export type ShownEvent =
  | {
      readonly type: "stdout" | "stderr";
      /** Of the first byte. A gap to the event before is output that is no longer kept. */
      readonly offset: number;
      readonly text?: string;
      readonly base64?: string;
    }
  | { readonly type: "process"; readonly process: Process };

/** Shows outputs as text, in which no character is cut in two, or as base64. */
export async function* shownEvents(
  events: AsyncIterable<OutputEvent>,
  { isBase64 }: { isBase64: boolean },
): AsyncGenerator<ShownEvent, void> {
  const outputs = { stdout: createTextOutput(), stderr: createTextOutput() };
  for await (const event of events) {
    if (event.type === "process") {
      for (const type of ["stdout", "stderr"] as const) {
        const rest = outputs[type].end();
        if (rest !== undefined) yield { type, ...rest };
      }
      yield event;
    } else if (isBase64) {
      const { type, offset, bytes } = event;
      yield { type, offset, base64: Buffer.from(bytes).toString("base64") };
    } else {
      const { type, offset, bytes } = event;
      for (const part of outputs[type].add(offset, bytes)) yield { type, ...part };
    }
  }
}

interface TextPart {
  readonly offset: number;
  readonly text: string;
}

/** Decodes an output piece by piece. */
function createTextOutput(): {
  add(offset: number, bytes: Uint8Array): TextPart[];
  /** The start of a character that has no end. */
  end(): TextPart | undefined;
} {
  /** The start of a character, and its offset. */
  let rest = Buffer.alloc(0);
  let restAt = 0;

  function end(): TextPart | undefined {
    if (rest.length === 0) return undefined;
    const part = { offset: restAt, text: rest.toString("utf8") };
    rest = Buffer.alloc(0);
    return part;
  }

  return {
    end,
    add(offset, bytes) {
      const cut = offset === restAt + rest.length ? undefined : end();
      const from = offset - rest.length;
      const all = Buffer.concat([rest, bytes]);
      const whole = all.length - incompleteBytes(all);
      rest = all.subarray(whole);
      restAt = from + whole;
      const parts = cut === undefined ? [] : [cut];
      return whole === 0 ? parts : [...parts, { offset: from, text: all.toString("utf8", 0, whole) }];
    },
  };
}

/** How many bytes at the end are the start of a character of UTF-8. */
function incompleteBytes(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back] ?? 0;
    if (byte < 0x80) return 0;
    if (byte < 0xc0) continue;
    const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
    return length > back ? back : 0;
  }
  return 0;
}
