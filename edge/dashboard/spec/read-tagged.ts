import { send } from "../api/call.ts";

/**
 * Reads an object as it is now, with what has a write of it made over nothing else: the ETag, which a proxy may have
 * taken off.
 */
export async function readTagged<T>(
  path: string,
  options: { signal?: AbortSignal } = {},
): Promise<{ object: T; ifMatch?: string }> {
  const response = await send("GET", path, options);
  const tag = response.headers.get("etag");
  return { object: (await response.json()) as T, ...(tag !== null && { ifMatch: tag }) };
}
