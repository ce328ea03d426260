import { isJson } from "./is-json.ts";

/** The response to HEAD: the status and headers of what GET would have answered, `content-length` included where it is known. */
export async function withoutBody(response: Response): Promise<Response> {
  const headers = new Headers(response.headers);
  if (isJson(headers)) {
    headers.set("content-length", String((await response.arrayBuffer()).byteLength));
  } else {
    await response.body?.cancel();
  }
  return new Response(null, { status: response.status, headers });
}
