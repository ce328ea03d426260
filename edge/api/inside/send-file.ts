import { isUnchanged } from "../../http/if-none-match.ts";
import { attachment } from "../snapshots/saved-paths.ts";
import type { Inside } from "./call-inside.ts";
import { dataStream } from "./data-stream.ts";
import { readSchema } from "./file-entry.ts";
import { podAnswer } from "./pod-answer.ts";
import { rangeOf } from "./range.ts";

/**
 * Answers a file of an instance, or the part that the request asks for.
 *
 * @param path as the program in the pod takes it
 * @param shownPath for errors
 */
export async function sendFile(
  request: Request,
  inside: Inside,
  { path, shownPath }: { path: string; shownPath: string },
): Promise<Response> {
  const range = rangeOf(request);
  const ifRange = request.headers.get("if-range")?.trim();
  const { answer, data } = await inside.open(
    "read",
    {
      ...{ path, ...range },
      ...(range !== undefined && ifRange !== undefined && { ifEtag: ifRange.replace(/^"(.*)"$/, "$1") }),
    },
    { failure: { path: shownPath } },
  );
  const file = podAnswer(readSchema, answer);
  const etag = `"${file.etag}"`;
  if (isUnchanged(request, etag)) {
    await data.return();
    return new Response(null, { status: 304, headers: { etag } });
  }
  const { offset, length, size } = file;
  const isPart = length !== undefined && length < size;
  return new Response(dataStream(data, length), {
    status: isPart ? 206 : 200,
    headers: {
      ...{ "content-type": "application/octet-stream", etag, "accept-ranges": "bytes" },
      "last-modified": new Date(file.modifiedAt).toUTCString(),
      ...(length !== undefined && { "content-length": String(length) }),
      ...(isPart && { "content-range": `bytes ${offset}-${offset + length - 1}/${size}` }),
      ...attachment(path),
    },
  });
}
