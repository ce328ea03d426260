import { HttpError } from "./http-error.ts";
import { readBytes } from "./read-bytes.ts";

const utf8 = new TextDecoder("utf-8", { fatal: true });

/**
 * Reads a request's body as UTF-8 text.
 *
 * @throws HttpError as {@link readBytes} does, and 400 where the body is not UTF-8
 */
export async function readBody(request: Request): Promise<string> {
  const bytes = await readBytes(request);
  try {
    return utf8.decode(bytes);
  } catch (cause) {
    throw new HttpError(400, "body: is not UTF-8 text", { cause });
  }
}
