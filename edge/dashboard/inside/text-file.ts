import { CallError, send } from "../api/call.ts";
import { sendFile } from "../api/send-file.ts";
import type { FilePath, InstanceFile } from "./file-path.ts";
import { filePath } from "./folder.ts";

/** Largest file that is edited in the page. */
export const MOST_TEXT_BYTES = 256 * 1024;

/** A file as a text field can hold it. */
export interface TextFile {
  readonly text: string;
  /** How its lines end; a text field has only `\n`. */
  readonly lineEnd: "\n" | "\r\n";
  /** `ETag` of the content. */
  readonly etag: string | undefined;
}

/** @throws Error that says why the file cannot be edited, CallError as `call` does */
export async function readText(
  { instance, of }: { instance: string; of: FilePath },
  { signal }: { signal: AbortSignal },
): Promise<TextFile> {
  const response = await send("GET", filePath(instance, of), { signal });
  const bytes = await atMost(response, MOST_TEXT_BYTES);
  if (bytes === undefined)
    throw new Error(`It has more than ${MOST_TEXT_BYTES / 1024} KiB and cannot be edited here. Download it instead.`);
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch (cause) {
    throw new Error("It is not UTF-8 text and cannot be edited here. Download it instead.", { cause });
  }
  if (text.includes("\0")) throw new Error("It is not text and cannot be edited here. Download it instead.");
  const plain = text.replaceAll("\r\n", "\n");
  const lineEnd = plain === text ? "\n" : "\r\n";
  if (plain.replaceAll("\n", lineEnd) !== text || plain.includes("\r"))
    throw new Error("Its lines end in different ways, which a text field would change. Download it instead.");
  return { text: plain, lineEnd, etag: response.headers.get("etag") ?? undefined };
}

/** Reads a body, or gives it up once it is larger. */
async function atMost({ body }: Response, most: number): Promise<Uint8Array | undefined> {
  const parts: Uint8Array[] = [];
  let size = 0;
  const reader = body?.getReader();
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true };
    if (done || value === undefined) return new Uint8Array(await new Blob(parts as BlobPart[]).arrayBuffer());
    size += value.length;
    if (size > most) {
      await reader?.cancel();
      return undefined;
    }
    parts.push(value);
  }
}

/** Whether a file still has the content that was read. */
export async function hasChanged(
  { instance, of }: { instance: string; of: FilePath },
  { etag }: Pick<TextFile, "etag">,
): Promise<"no" | "yes" | "gone"> {
  try {
    const response = await send("GET", filePath(instance, of), etag === undefined ? {} : { ifNoneMatch: etag });
    await response.body?.cancel();
    return "yes";
  } catch (error) {
    if (error instanceof CallError && error.status === 304) return "no";
    if (error instanceof CallError && error.status === 404) return "gone";
    throw error;
  }
}

/** Writes the file, and returns it as it is now. */
export async function writeText(
  { instance, of }: { instance: string; of: FilePath },
  { text, lineEnd, signal }: Pick<TextFile, "text" | "lineEnd"> & { signal: AbortSignal },
): Promise<TextFile> {
  const file = new Blob([text.replaceAll("\n", lineEnd)]);
  const { etag } = await sendFile<InstanceFile>("PUT", filePath(instance, of), {
    ...{ file, signal, type: "application/octet-stream" },
    onSent: () => undefined,
  });
  return { text, lineEnd, etag };
}
