/** A JSON response, 200 unless `status` says otherwise. */
export function jsonResponse(
  body: unknown,
  options: { status?: number; headers?: Readonly<Record<string, string>> } = {},
): Response {
  return Response.json(body, options);
}
