/** The query parameter that carries a link's token. */
export const TOKEN_PARAMETER = "tenancy-token";

/**
 * Removes every token from a target and leaves its other bytes unchanged: decoding and encoding again would change
 * them.
 *
 * @returns the target without tokens, and the first token
 */
export function takeToken(target: string): { readonly target: string; readonly token: string | undefined } {
  const at = target.indexOf("?");
  if (at === -1) return { target, token: undefined };
  const pairs = target.slice(at + 1).split("&");
  const kept = pairs.filter((pair) => nameOf(pair) !== TOKEN_PARAMETER);
  if (kept.length === pairs.length) return { target, token: undefined };
  const found = pairs.find((pair) => nameOf(pair) === TOKEN_PARAMETER) ?? "";
  const path = target.slice(0, at);
  const rest = kept.length === 0 ? path : `${path}?${kept.join("&")}`;
  return { target: rest, token: found.slice(found.indexOf("=") + 1) };
}

/** Decodes a name as a program that reads the query would: the pod would also accept other spellings of the token. */
function nameOf(pair: string): string {
  const end = pair.indexOf("=");
  const name = end === -1 ? pair : pair.slice(0, end);
  if (!name.includes("%")) return name;
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
