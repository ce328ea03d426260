const NAME = /^[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$/;

/** Headers that say how a message is framed or where it goes, which are the proxy's alone (RFC 9110, sections 7.2 and 7.6.1). */
const FRAMING: ReadonlySet<string> = new Set([
  "connection",
  "content-length",
  "expect",
  "host",
  "http2-settings",
  "keep-alive",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

/** Why the proxy cannot set a header of that name, as the end of a sentence; undefined when it can. */
export function headerNameProblem(name: string): string | undefined {
  if (!NAME.test(name) || name.length > 128) {
    return "must be letters, digits, '-', '_' and '.', at most 128, with a letter or digit at both ends";
  }
  if (FRAMING.has(name.toLowerCase())) return "belongs to the connection, which the proxy makes itself: choose another";
  return undefined;
}
