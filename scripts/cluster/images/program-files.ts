import { readFileSync } from "node:fs";
import { dirname } from "node:path";
import { runCommand } from "../process/run-command.ts";
import type { TarEntry } from "./tar-archive.ts";

/**
 * Returns files of this machine as files of an image: programs with the libraries that they are linked with, and plain files, each
 * at the path that it has here.
 *
 * @param base what the image has already
 * @throws Error when a program lacks a library
 */
export async function programFiles(options: {
  readonly programs: readonly string[];
  readonly files: readonly string[];
  readonly base: readonly TarEntry[];
}): Promise<TarEntry[]> {
  const { programs, files, base } = options;
  const libraries = await Promise.all(programs.map(librariesOf));
  const paths = [...new Set([...programs, ...files, ...libraries.flat()])].sort();
  const there = new Set(base.map(({ path }) => path));
  const folders = [...new Set(paths.flatMap(foldersOf))].filter((path) => !there.has(path)).sort();
  return [
    ...folders.map((path) => ({ path })),
    ...paths.map((path) => ({
      path: path.slice(1),
      content: readFileSync(path),
      mode: files.includes(path) ? 0o644 : 0o755,
    })),
  ];
}

/** The files that the dynamic linker loads for a program, itself among them. */
async function librariesOf(program: string): Promise<string[]> {
  const lines = (await runCommand("ldd", [program])).split("\n");
  const missing = lines.find((line) => line.includes("not found"));
  if (missing !== undefined) throw new Error(`Cannot copy ${program}: it lacks ${missing.trim()}`);
  return lines.flatMap((line) => /(?:=> |^\s*)(\/\S+) \(0x/.exec(line)?.[1] ?? []);
}

function foldersOf(path: string): string[] {
  const folder = dirname(path);
  return folder === "/" ? [] : [...foldersOf(folder), folder.slice(1)];
}
