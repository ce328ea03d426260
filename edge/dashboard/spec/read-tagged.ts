import { send } from "../api/call.ts";

/**
 * Reads the current object and the ETag with which a write applies to nothing else. A proxy may have removed the ETag.
 */
export async function readTagged<T>(
  path: string,
  options: { signal?: AbortSignal } = {},
): Promise<{ object: T; ifMatch?: string }> {
  const response = await send("GET", path, options);
  const tag = response.headers.get("etag");
  return { object: (await response.json()) as T, ...(tag !== null && { ifMatch: tag }) };
}
