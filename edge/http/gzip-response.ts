/** A body that was gzipped beforehand, gzipped or not, as the request accepts it. */
export function gzipResponse(
  request: Request,
  { plain, gzip }: { plain: Uint8Array<ArrayBuffer>; gzip: Uint8Array<ArrayBuffer> },
  headers: Readonly<Record<string, string>>,
): Response {
  const zips = acceptsGzip(request);
  return new Response(zips ? gzip : plain, {
    headers: { ...headers, vary: "accept-encoding", ...(zips && { "content-encoding": "gzip" }) },
  });
}

/** Whether `Accept-Encoding` accepts gzip, with a weight other than 0 (RFC 9110, 12.5.3). */
function acceptsGzip({ headers }: Request): boolean {
  return (headers.get("accept-encoding") ?? "")
    .split(",")
    .some((one) => /^\s*(?:x-)?gzip\s*(?:;\s*q=(?!0(?:\.0*)?\s*$).*)?$/i.test(one));
}
