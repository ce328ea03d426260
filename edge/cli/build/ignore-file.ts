import { posix } from "node:path";

/** The patterns that have matched a folder. They also match everything in it. */
export type MatchedPatterns = readonly boolean[];

/** The patterns of a `.dockerignore`, as BuildKit applies them. */
export interface IgnoreFile {
  /** Whether a pattern includes again what another excludes. Then an excluded folder may contain included files. */
  readonly hasExceptions: boolean;
  /**
   * Matches a path of the context.
   *
   * @param parent the result for the folder that the path is in; undefined at the top
   */
  match(path: string, parent?: MatchedPatterns): { isLeftOut: boolean; matched: MatchedPatterns };
}

interface Pattern {
  readonly isException: boolean;
  readonly matches: (path: string) => boolean;
}

/**
 * Reads a `.dockerignore`: the last pattern that matches a path or a folder above it decides.
 *
 * Follows https://docs.docker.com/build/concepts/context/#dockerignore-files. For cases not described there, follows
 * https://github.com/moby/patternmatcher v0.6.0, which BuildKit applies to the same file again.
 *
 * @throws Error for a pattern that BuildKit refuses
 */
export function readIgnoreFile(text: string): IgnoreFile {
  const patterns = text
    .replace(/^\ufeff/, "")
    .split(/\r?\n/)
    .filter((line) => !line.startsWith("#") && line.trim() !== "")
    .map((line) => patternOf(line.trim()));
  return {
    hasExceptions: patterns.some(({ isException }) => isException),
    match(path, parent) {
      let isLeftOut = false;
      const matched = patterns.map(({ isException, matches }, index) => {
        // A pattern that would not change the result is skipped, and does not count as a match.
        const isMatch = parent?.[index] === true || (isException === isLeftOut && matches(path));
        if (isMatch) isLeftOut = !isException;
        return isMatch;
      });
      return { isLeftOut, matched };
    },
  };
}

function patternOf(line: string): Pattern {
  const given = line.startsWith("!") ? line.slice(1).trim() : line;
  const whole = clean(
    ((line.startsWith("!") ? "!" : "") + (given === "" ? "" : clean(given).replace(/^\/(?=.)/, ""))).trim(),
  );
  const isException = whole.startsWith("!");
  const pattern = isException ? whole.slice(1) : whole;
  if (pattern === "") throw new Error(`Cannot read .dockerignore: "${line}" has no pattern`);
  try {
    return { isException, matches: matcherOf(pattern) };
  } catch (cause) {
    throw new Error(`Cannot read .dockerignore: "${line}" is no pattern`, { cause });
  }
}

function clean(path: string): string {
  return posix.normalize(path).replace(/(?<=.)\/$/, "");
}

/** A pattern whose only wildcard is a `**` at its beginning or end is compared as text. The result can differ. */
function matcherOf(pattern: string): (path: string) => boolean {
  const characters = [...pattern];
  let source = "";
  let kind: "exact" | "prefix" | "suffix" | "regexp" = "exact";
  let isInClass = false;
  for (let at = 0; at < characters.length; at += 1) {
    const start = at;
    const one = characters[at] ?? "";
    if (one === "*" && characters[at + 1] === "*") {
      at += characters[at + 2] === "/" ? 2 : 1;
      const isLast = at === characters.length - 1;
      if (isLast && kind === "exact") kind = "prefix";
      else {
        source += isLast ? ".*" : "(.*/)?";
        kind = "regexp";
      }
      if (start === 0) kind = "suffix";
    } else if (one === "*" || one === "?") {
      source += one === "*" ? "[^/]*" : "[^/]";
      kind = "regexp";
    } else if (one === "\\") {
      at += 1;
      source += literal(characters[at]);
      kind = "regexp";
    } else if (one === "[" && !isInClass) {
      const isNegative = characters[at + 1] === "^";
      if (characters[at + (isNegative ? 2 : 1)] === "]") throw new SyntaxError("an empty class");
      isInClass = true;
      source += isNegative ? "[^" : "[";
      at += isNegative ? 1 : 0;
      kind = "regexp";
    } else if (one === "]") {
      source += isInClass ? "]" : "\\]";
      isInClass = false;
      kind = "regexp";
    } else {
      source += /[.+()|{}$]/.test(one) ? `\\${one}` : one;
    }
  }
  if (isInClass) throw new SyntaxError("a class without its end");
  switch (kind) {
    case "exact":
      return (path) => path === pattern;
    case "prefix":
      return (path) => path.startsWith(pattern.slice(0, -2));
    case "suffix": {
      const suffix = pattern.slice(2);
      return (path) => path.endsWith(suffix) || (suffix.startsWith("/") && path === suffix.slice(1));
    }
    default: {
      const whole = new RegExp(`^${source}$`, "u");
      return (path) => whole.test(path);
    }
  }
}

/** A character after a backslash. A backslash before a letter has another meaning for the builder, and is ambiguous. */
function literal(character: string | undefined): string {
  if (character === undefined || /[A-Za-z0-9]/.test(character)) throw new SyntaxError("a backslash before no sign");
  return /[\^$\\.*+?()[\]{}|/-]/.test(character)
    ? `\\x${(character.codePointAt(0) ?? 0).toString(16).padStart(2, "0")}`
    : character;
}
