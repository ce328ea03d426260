import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";

/** The files that every file depends on. */
const CONCERNS_ALL = /^(package(-lock)?\.json|tsconfig\.json|test\/(uvu\.ts|import-map\.json))$/;

/**
 * Lists the files of the project that a change since a commit can affect: the changed files, and files that refer to
 * them, directly or through others. A reference is an import, or a text that names a file or folder of the project,
 * since tests start programs and read pages by their paths.
 *
 * @param since a commit; uncommitted changes count too
 * @throws Error if git does not know the commit
 */
export function affectedFiles(root: string, since: string): Set<string> {
  const { tracked, untracked } = filesOf(root);
  const changed = [...git(root, "diff", "-z", "--name-only", since, "--"), ...untracked];
  const files = [...tracked, ...untracked];
  if (changed.some((path) => CONCERNS_ALL.test(path))) return new Set(files);
  return reachedFrom(changed, referencesOf(root, files));
}

/** Lists the files that refer to one, directly or through others, as {@link affectedFiles} follows references. */
export function dependentsOf(root: string, path: string): Set<string> {
  const { tracked, untracked } = filesOf(root);
  return reachedFrom([path], referencesOf(root, [...tracked, ...untracked]));
}

function git(root: string, ...words: string[]): string[] {
  return execFileSync("git", words, { cwd: root, encoding: "utf8", maxBuffer: 64 * 1024 * 1024 })
    .split("\0")
    .filter(Boolean);
}

function filesOf(root: string): { tracked: string[]; untracked: string[] } {
  const untracked = git(root, "ls-files", "-z", "--others", "--exclude-standard");
  return { tracked: git(root, "ls-files", "-z"), untracked };
}

/** Returns the default commit that changes are counted from. */
export function defaultBase(root: string): string {
  for (const words of [
    ["merge-base", "HEAD", "@{upstream}"],
    ["rev-parse", "--verify", "HEAD~1"],
  ]) {
    try {
      return execFileSync("git", words, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
    } catch {
      // There is no upstream branch, or no commit before this one. Try the next way.
    }
  }
  return "HEAD";
}

/** Follows references backwards. @param references what each file refers to, by its path */
export function reachedFrom(
  changed: readonly string[],
  references: ReadonlyMap<string, Iterable<string>>,
): Set<string> {
  const referringTo = new Map<string, string[]>();
  for (const [path, targets] of references) {
    for (const target of targets) referringTo.set(target, [...(referringTo.get(target) ?? []), path]);
  }
  const reached = new Set(changed);
  // The iteration of a set also visits items that are added during it.
  for (const path of reached) for (const referring of referringTo.get(path) ?? []) reached.add(referring);
  return reached;
}

function referencesOf(root: string, files: readonly string[]): Map<string, Set<string>> {
  const known = new Set(files);
  const below = new Map<string, string[]>();
  for (const path of files) {
    for (let folder = dirname(path); folder !== "."; folder = dirname(folder)) {
      below.set(folder, [...(below.get(folder) ?? []), path]);
    }
  }
  const references = new Map<string, Set<string>>();
  for (const path of files) {
    if (!/\.(ts|tsx|mjs)$/.test(path)) continue;
    const targets = new Set<string>();
    for (const named of namedPaths(readFileSync(join(root, path), "utf8"), dirname(path))) {
      if (known.has(named)) targets.add(named);
      // A program that names its own folder builds a path below it, or lists the files in it.
      else if (!path.startsWith(`${named}/`)) for (const target of below.get(named) ?? []) targets.add(target);
    }
    references.set(path, targets);
  }
  return references;
}

/**
 * Returns the paths, from the project's root, that the texts of a program may name: `"./a.ts"` relative to the program,
 * `"docs/reference/api.md"` relative to the root, and the words of a `join` relative to both.
 */
export function namedPaths(program: string, folder: string): string[] {
  const texts = [...program.matchAll(/(["'`])([\w@.\-/]*\/[\w@.\-/]*)\1/g)].map(([, , text = ""]) => text);
  const joined = [...program.matchAll(/\bjoin\(([^()]*)\)/g)].map(([, words = ""]) =>
    [...words.matchAll(/"([^"]+)"/g)].map(([, word]) => word).join("/"),
  );
  return [
    ...texts.map((text) => normalize(text.startsWith(".") ? join(folder, text) : text)),
    ...joined.filter((text) => text !== "").flatMap((text) => [normalize(text), join(folder, text)]),
  ].map((path) => path.replace(/\/$/, ""));
}
