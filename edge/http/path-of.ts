/**
 * The path of a request's address, as it was sent, without its query: what `new URL(url).pathname` gives for an address that a server made,
 * at a tenth of the cost.
 */
export function pathOf(url: string): string {
  const host = url.indexOf("://") + 3;
  const start = url.indexOf("/", host);
  if (start < 0) return "/";
  const query = url.indexOf("?", start);
  return query < 0 ? url.slice(start) : url.slice(start, query);
}
