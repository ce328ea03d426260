import * as v from "valibot";
import type { Client, Place } from "../client/index.ts";
import { startOf } from "./bounded-text.ts";
import { MOST_BYTES } from "./limits.ts";
import { place, placeOf } from "./place.ts";
import { defineTool, InputError } from "./tool.ts";

const path = v.pipe(v.string(), v.minLength(1), v.description("Path from the root, such as /data/main.py."));
const encoding = v.picklist(["utf-8", "base64"]);
/** Base64 has four characters for three bytes. */
const MOST_BINARY = (MOST_BYTES / 4) * 3;
/** Entries of a list that are asked for at once. */
const ENTRIES = 200;
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A part of a file. */
export interface FilePart {
  readonly encoding: v.InferOutput<typeof encoding>;
  readonly content: string;
  readonly sizeBytes: number;
  /** Where the next part begins; absent at the end of the file. */
  readonly nextOffset?: number;
}

/** Reads so much of a file as one answer may hold: text if it is UTF-8 without NUL, or else base64. */
export async function readPart(
  client: Client,
  file: { place: Place; path: string; offset?: number; length?: number; signal: AbortSignal },
): Promise<FilePart> {
  const { offset = 0, length = MOST_BYTES, signal } = file;
  const most = Math.min(length, MOST_BYTES);
  const range = `bytes=${offset}-${offset + most - 1}`;
  let response = await client.files.read(file.place, file.path, { range, signal });
  let size: number | undefined = sizeOf(response);
  if (size === 0 && offset === 0) {
    // Files of the kernel, such as those in /proc, have no size and no parts.
    await response.body?.cancel();
    response = await client.files.read(file.place, file.path, { signal });
    size = undefined;
  }
  const bytes = await readAtMost(response, size === undefined ? most + 1 : most);
  if (size === undefined && bytes.length > most)
    throw new InputError(`the file has no size, and more than ${most} bytes; read a part of it with the tool run`);
  const sizeBytes = size ?? bytes.length;
  const isWhole = offset + bytes.length >= sizeBytes;
  const text = textOf(isWhole ? bytes : withoutCutCharacter(bytes));
  const content = text === undefined ? undefined : startOf(text, MOST_BYTES);
  const end = offset + (content === undefined ? Math.min(bytes.length, MOST_BINARY) : Buffer.byteLength(content));
  return {
    encoding: content === undefined ? "base64" : "utf-8",
    content: content ?? Buffer.from(bytes.subarray(0, MOST_BINARY)).toString("base64"),
    sizeBytes,
    ...(end < sizeBytes && { nextOffset: end }),
  };
}

/** Bytes of the whole file. */
function sizeOf({ headers }: Response): number {
  const range = headers.get("content-range");
  return Number(range === null ? headers.get("content-length") : range.slice(range.lastIndexOf("/") + 1));
}

/** The instance says what it sends, and it is the tenant's. */
async function readAtMost({ body }: Response, most: number): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let left = most;
  // Leaving the loop ends the answer.
  for await (const piece of body ?? []) {
    pieces.push(piece.subarray(0, left));
    left -= piece.length;
    if (left <= 0) break;
  }
  return Buffer.concat(pieces);
}

function textOf(bytes: Uint8Array): string | undefined {
  try {
    return bytes.includes(0) ? undefined : utf8.decode(bytes);
  } catch {
    return undefined;
  }
}

/** Bytes without a character at their end that goes on after it. */
function withoutCutCharacter(bytes: Uint8Array): Uint8Array {
  const at = bytes.findLastIndex((byte) => (byte & 0xc0) !== 0x80);
  const lead = bytes[at] ?? 0;
  const size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
  // If this is all that was asked for, it is shown as bytes.
  return at > 0 && bytes.length - at < size ? bytes.subarray(0, at) : bytes;
}

export const writeFile = defineTool({
  name: "write_file",
  title: "Write a file",
  description:
    "Writes a file of an instance, with the folders above it. It is there as a whole or not at all, and replaces a file of that path. The whole call may have 1 MiB.",
  annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
  input: v.strictObject({
    ...place,
    path,
    content: v.pipe(v.string(), v.description("All of its content.")),
    encoding: v.optional(v.pipe(encoding, v.description("What content is: text, or bytes in base64.")), "utf-8"),
    mode: v.optional(v.pipe(v.string(), v.description("Its permissions in octal digits, such as 0755."))),
    createOnly: v.optional(v.pipe(v.boolean(), v.description("Whether to fail if there is a file.")), false),
  }),
  output: v.object({ path: v.string(), sizeBytes: v.number(), mode: v.string() }),
  async call({ content, mode, createOnly, ...input }, { client, signal }) {
    if (input.encoding === "base64" && !/^(?:[\w+/]{4})*(?:[\w+/]{2}==|[\w+/]{3}=)?$/.test(content))
      throw new InputError("content: is no base64");
    const body = input.encoding === "base64" ? new Uint8Array(Buffer.from(content, "base64")) : content;
    const written = await client.files.write(placeOf(input), input.path, body, { mode, isNew: createOnly, signal });
    return { path: `/${written.path}`, sizeBytes: written.sizeBytes, mode: written.mode };
  },
});

export const readFile = defineTool({
  name: "read_file",
  title: "Read a file",
  description: `Reads a file of an instance: text, or base64 if it is no UTF-8. At most ${MOST_BYTES / 1024} KiB at once; for the rest call again with nextOffset as offset.`,
  annotations: { readOnlyHint: true, openWorldHint: false },
  input: v.strictObject({
    ...place,
    path,
    offset: v.optional(v.pipe(v.number(), v.safeInteger(), v.minValue(0), v.description("The byte to begin at.")), 0),
    length: v.optional(
      v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(MOST_BYTES), v.description("How many bytes.")),
      MOST_BYTES,
    ),
  }),
  output: v.object({
    content: v.string(),
    encoding,
    sizeBytes: v.pipe(v.number(), v.description("Of the whole file.")),
    nextOffset: v.optional(v.pipe(v.number(), v.description("Where the rest begins; absent at the end of the file."))),
  }),
  call: async (input, { client, signal }) => ({
    ...(await readPart(client, { ...input, place: placeOf(input), signal })),
  }),
});

export const listFiles = defineTool({
  name: "list_files",
  title: "List files",
  description: "Lists what is in a folder of an instance, in the order of the names.",
  annotations: { readOnlyHint: true, openWorldHint: false },
  input: v.strictObject({
    ...place,
    folder: v.optional(v.pipe(v.string(), v.description("Its path from the root."))),
    depth: v.optional(
      v.pipe(v.number(), v.integer(), v.minValue(1), v.maxValue(64), v.description("How many folders deep.")),
      1,
    ),
    after: v.optional(v.pipe(v.string(), v.description("`next` of the list before, for what follows it."))),
  }),
  output: v.object({
    files: v.array(
      v.object({
        path: v.string(),
        type: v.picklist(["file", "directory", "symlink", "other"]),
        sizeBytes: v.number(),
        mode: v.string(),
        modifiedAt: v.string(),
        target: v.optional(v.string()),
      }),
    ),
    next: v.optional(v.pipe(v.string(), v.description("Present if there are more files: call again with it."))),
  }),
  async call({ folder = "/", depth, after, ...input }, { client, signal }) {
    for (let limit = ENTRIES; ; ) {
      const page = await client.files.page(placeOf(input), folder, { depth, after, limit, signal });
      const files = page.entries.map(({ path, type, sizeBytes, mode, modifiedAt, target }) => ({
        ...{ path: `/${path}`, type, sizeBytes, mode, modifiedAt },
        ...(target !== undefined && { target }),
      }));
      let left = MOST_BYTES;
      const fitting = files.findIndex((file) => {
        left -= Buffer.byteLength(JSON.stringify(file)) + 1;
        return left < 0;
      });
      if (fitting < 0) return { files, ...(page.next !== undefined && { next: page.next }) };
      // Only the API names what follows; one entry always fits.
      limit = Math.max(1, fitting);
    }
  },
});
