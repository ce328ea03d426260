/**
 * The named parts of a path, decoded; undefined if the path does not match.
 *
 * @param pattern such as `/dashboard/claims/:tenant/:workload`
 */
export function matchPath(pattern: string, path: string): Readonly<Record<string, string>> | undefined {
  const names = pattern.split("/");
  const parts = path.replace(/(.)\/$/, "$1").split("/");
  if (names.length !== parts.length) return undefined;
  const found: Record<string, string> = {};
  for (const [at, name] of names.entries()) {
    const part = parts[at] as string;
    if (!name.startsWith(":")) {
      if (name !== part) return undefined;
      continue;
    }
    if (part === "") return undefined;
    try {
      found[name.slice(1)] = decodeURIComponent(part);
    } catch {
      // A path that cannot be decoded matches nothing.
      return undefined;
    }
  }
  return found;
}
