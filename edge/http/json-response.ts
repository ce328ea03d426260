/** A JSON response, 200 unless `status` says otherwise. */
export function jsonResponse(
  body: unknown,
  options: { status?: number; headers?: Readonly<Record<string, string>> } = {},
): Response {
  return Response.json(body, options);
}

/** Whether a response's body is one JSON text, which is short and can be had whole; runtimes differ in what follows the type. */
export function isJson(headers: Headers): boolean {
  return headers.get("content-type")?.startsWith("application/json") ?? false;
}
