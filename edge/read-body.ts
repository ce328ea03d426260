import { HttpError } from "./http-error.ts";
import { readBytes } from "./read-bytes.ts";

const utf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * Reads a request's body as UTF-8 text.
 *
 * @param limit bytes @default 1 MiB
 * @throws HttpError 413 over the limit, 400 where the body is not UTF-8 or breaks off
 */
export async function readBody(request: Request, limit?: number): Promise<string> {
  const bytes = await readBytes(request, limit);
  try {
    return utf8.decode(bytes);
  } catch (cause) {
    throw new HttpError(400, "body: is not UTF-8 text", { cause });
  }
}
