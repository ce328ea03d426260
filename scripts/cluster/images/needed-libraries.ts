/** Those of every Debian, which the programs that run here are linked with anyway. */
const ALWAYS_THERE = /^(libc6|libgcc-s1)$/;
const LIBRARY = /^(lib|zlib)/;

/**
 * Returns the named packages and, of what they depend on, all libraries; of alternatives, the first.
 *
 * @param listing what `apt-cache depends --recurse` writes of them
 */
export function neededLibraries(listing: string, packages: readonly string[]): string[] {
  const needs = new Map<string, string[]>();
  let needed: string[] = [];
  let isAlternative = false;
  for (const line of listing.split("\n")) {
    const [, bar, dependency] = /^ ([ |])(?:Pre)?Depends: (\S+)$/.exec(line) ?? [];
    if (/^\S/.test(line)) {
      needed = [];
      needs.set(line, needed);
      isAlternative = false;
    } else if (dependency !== undefined) {
      if (!isAlternative) needed.push(dependency);
      isAlternative = bar === "|";
    }
  }
  // A set may grow while it is gone through.
  const found = new Set(packages);
  for (const one of found) {
    for (const library of needs.get(one) ?? []) {
      if (LIBRARY.test(library) && !ALWAYS_THERE.test(library)) found.add(library);
    }
  }
  return [...found];
}
