/**
 * Whether the caller's copy is current: `If-None-Match` names its entity tag, compared weakly, or any
 * (https://www.rfc-editor.org/rfc/rfc9110#name-if-none-match).
 *
 * @param etag with its quotes
 */
export function isUnchanged({ headers }: Request, etag: string): boolean {
  const known = headers.get("if-none-match")?.trim();
  if (known === undefined) return false;
  const tags: readonly string[] = known.match(/"[^"]*"/g) ?? [];
  return known === "*" || tags.includes(etag);
}
