/** Whether `Accept-Encoding` accepts gzip, with a weight other than 0 (RFC 9110, 12.5.3). */
export function acceptsGzip({ headers }: Request): boolean {
  return (headers.get("accept-encoding") ?? "")
    .split(",")
    .some((one) => /^\s*(?:x-)?gzip\s*(?:;\s*q=(?!0(?:\.0*)?\s*$).*)?$/i.test(one));
}
