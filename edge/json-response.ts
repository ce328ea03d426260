/** A JSON response, 200 unless `status` says otherwise. */
export function jsonResponse(
  body: unknown,
  options: { status?: number; headers?: Readonly<Record<string, string>> } = {},
): Response {
  return new Response(JSON.stringify(body), {
    status: options.status ?? 200,
    headers: { "content-type": "application/json", ...options.headers },
  });
}
