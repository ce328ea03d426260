import { attachment, pathText } from "../snapshots/saved-paths.ts";
import type { Inside } from "./call-inside.ts";
import { dataStream } from "./data-stream.ts";

/**
 * A folder as a tar.gz, which is made in the pod while it is sent.
 *
 * @param path the folder's, without the slash at its start; bytes, one per character
 * @returns a response that breaks off if something in the folder cannot be read any more
 * @throws HttpError 404 without the folder, 409 if it is none or the workload's user may not read all that is in it
 */
export async function sendArchive(path: string, inside: Inside): Promise<Response> {
  const { data } = await inside.open("archive", { path: `/${path}` }, { failure: { path: pathText(`/${path}`) } });
  return new Response(dataStream(data, undefined), {
    headers: { "content-type": "application/gzip", ...attachment(`${path}.tar.gz`) },
  });
}
