import * as v from "valibot";
import { HttpError } from "../../http/http-error.ts";

/** More than a page of the longest names. */
const MAX_LINES_BYTES = 32 * 1024 * 1024;

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
  const text = Buffer.concat(await bounded(data, MAX_LINES_BYTES)).toString("utf8");
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map(podJson);
}

/** Data that ends soon. @throws HttpError 409 if there is more */
export async function bounded(data: AsyncIterable<Uint8Array>, maxBytes: number): Promise<Uint8Array[]> {
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  for await (const piece of data) {
    pieces.push(piece);
    bytes += piece.length;
    if (bytes > maxBytes) throw strange();
  }
  return pieces;
}

function strange(): HttpError {
  return new HttpError(409, "the tools in the pod do not answer as they should; release the claim and claim again");
}
