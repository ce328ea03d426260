import * as v from "valibot";
import { HttpError } from "../../http/http-error.ts";

/** More than a page of long names. */
const MAX_LINES_BYTES = 8 * 1024 * 1024;
const NEWLINE = 0x0a;
/** More than an event with three paths of 4 096 bytes, each of which can take six characters. */
const MAX_EVENT_BYTES = 128 * 1024;

/**
 * What the program in a pod has said. A tenant can replace the program, so nothing that it says is trusted.
 *
 * @throws HttpError 409 if it does not fit the schema
 */
export function podAnswer<Schema extends v.GenericSchema>(schema: Schema, answer: unknown): v.InferOutput<Schema> {
  const parsed = v.safeParse(schema, answer);
  if (parsed.success) return parsed.output;
  throw strange();
}

/** A JSON text of it. @throws HttpError 409 if it is none */
export function podJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw strange();
  }
}

/** Lines of JSON. @throws HttpError 409 if they are none, or far too many */
export async function podLines(data: AsyncIterable<Uint8Array>): Promise<unknown[]> {
  const text = await bounded(data, MAX_LINES_BYTES);
  return text
    .toString("utf8")
    .split("\n")
    .filter((line) => line !== "")
    .map(podJson);
}

/** Lines of JSON as they come. @throws HttpError 409 for what is none, and for a line that is far too long */
export async function* podEvents(data: AsyncIterable<Uint8Array>): AsyncGenerator<unknown, void> {
  const line = collectBytes(MAX_EVENT_BYTES);
  for await (const piece of data) {
    let from = 0;
    for (let end = piece.indexOf(NEWLINE); end !== -1; end = piece.indexOf(NEWLINE, from)) {
      line.add(piece.subarray(from, end));
      yield podJson(line.take().toString("utf8"));
      from = end + 1;
    }
    line.add(piece.subarray(from));
  }
  if (line.take().length > 0) throw strange();
}

/** Data that ends soon. @throws HttpError 409 if there is more */
export async function bounded(data: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Buffer> {
  const all = collectBytes(maxBytes);
  for await (const piece of data) all.add(piece);
  return all.take();
}

/** Collects pieces in one buffer that grows: an object for each would take a hundred times the bytes of small ones. */
function collectBytes(maxBytes: number) {
  let buffer = Buffer.alloc(Math.min(maxBytes, 4096));
  let bytes = 0;
  return {
    /** @throws HttpError 409 if there is more than the maximum */
    add(piece: Uint8Array): void {
      const end = bytes + piece.length;
      if (end > maxBytes) throw strange();
      if (end > buffer.length) buffer = Buffer.concat([buffer], Math.max(end, Math.min(maxBytes, 2 * buffer.length)));
      buffer.set(piece, bytes);
      bytes = end;
    },
    /** Returns what was added, which the next piece overwrites. */
    take(): Buffer {
      const taken = buffer.subarray(0, bytes);
      bytes = 0;
      return taken;
    },
  };
}

function strange(): HttpError {
  return new HttpError(409, "the tools in the pod do not answer as they should; release the claim and claim again");
}
