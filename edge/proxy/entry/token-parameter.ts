/** The query parameter that carries a link's token. */
export const TOKEN_PARAMETER = "tenancy-token";

/**
 * Takes every token out of a target, whose other bytes stay as they are: decoding and encoding again would change them.
 *
 * @returns the target without, and the first token
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

/** As a program that reads the query would: a token that is spelt otherwise is one for the pod too. */
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
