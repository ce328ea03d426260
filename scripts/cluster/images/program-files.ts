import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { runCommand } from "../process/run-command.ts";
import type { TarEntry } from "./tar-archive.ts";

/**
 * Returns files of this machine as files of an image: programs with the libraries that they are linked with, and plain
 * files, each at the path that it has here, or below a folder with unpacked packages.
 *
 * @param base what the image has already
 * @param root that folder; libraries that it lacks are this machine's
 * @throws Error when a program lacks a library
 */
export async function programFiles(options: {
  readonly programs: readonly string[];
  readonly files: readonly string[];
  readonly base: readonly TarEntry[];
  readonly root?: string | undefined;
}): Promise<TarEntry[]> {
  const { programs, files, base, root = "" } = options;
  const isUnpacked = (path: string) => root !== "" && existsSync(root + path);
  const libraries = await Promise.all(programs.map((program) => librariesOf(program, root)));
  const paths = [...new Set([...programs, ...files, ...libraries.flat()])].sort();
  const there = new Set(base.map(({ path }) => path));
  const folders = [...new Set(paths.flatMap(foldersOf))].filter((path) => !there.has(path)).sort();
  return [
    ...folders.map((path) => ({ path })),
    ...paths.map((path) => ({
      path: path.slice(1),
      content: readFileSync(isUnpacked(path) ? root + path : path),
      mode: files.includes(path) ? 0o644 : 0o755,
    })),
  ];
}

/** The files that the dynamic linker loads for a program, itself among them. */
async function librariesOf(program: string, root: string): Promise<string[]> {
  const environment = { ...process.env, ...(root !== "" && { LD_LIBRARY_PATH: libraryFolders(root).join(":") }) };
  const lines = (await runCommand("ldd", [root + program], { environment })).split("\n");
  const missing = lines.find((line) => line.includes("not found"));
  if (missing !== undefined) throw new Error(`Cannot copy ${program}: it lacks ${missing.trim()}`);
  const paths = lines.flatMap((line) => /(?:=> |^\s*)(\/\S+) \(0x/.exec(line)?.[1] ?? []);
  return paths.map((path) => (root !== "" && path.startsWith(`${root}/`) ? path.slice(root.length) : path));
}

/** Where Debian's packages have their libraries: `lib/x86_64-linux-gnu` and the like. */
export function libraryFolders(root: string): string[] {
  return ["lib", "usr/lib"]
    .map((folder) => join(root, folder))
    .filter((folder) => existsSync(folder))
    .flatMap((folder) => [
      folder,
      ...readdirSync(folder)
        .filter(isTriplet)
        .map((name) => join(folder, name)),
    ]);
}

function isTriplet(name: string): boolean {
  return name.includes("-linux-gnu");
}

/** Returns the folders that an absolute path is in, from the top, without the slash at their beginning. */
export function foldersOf(path: string): string[] {
  const folder = dirname(path);
  return folder === "/" ? [] : [...foldersOf(folder), folder.slice(1)];
}
