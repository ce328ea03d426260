import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
} from "node:fs";
import { join } from "node:path";
import { withDebianLock } from "../debian-packages.ts";
import { cacheFolder } from "../folders.ts";
import type { Log } from "../log.ts";
import { runCommand } from "../process/run-command.ts";

const APT_LIMIT_MS = 300_000;

/**
 * Fetches Debian packages and the packages of the libraries that they need, and unpacks them into a folder of the
 * cache, where they are found the next time. Nothing is installed: none of their scripts and services run.
 *
 * @param name of the folder; delete the folder to fetch the packages again
 * @returns the folder, laid out as the root of a system
 * @throws Error when apt cannot fetch them
 */
export async function unpackDebianPackages(
  packages: readonly string[],
  { name, log }: { name: string; log: Log },
): Promise<string> {
  const folder = join(cacheFolder(), name);
  if (existsSync(folder)) return folder;
  await withDebianLock(async () => {
    // Another process has fetched them in the meantime.
    if (existsSync(folder)) return;
    log(`fetching Debian packages, to be unpacked and not installed: ${packages.join(" ")}`);
    await fetchInto(folder, packages);
  });
  return folder;
}

async function fetchInto(folder: string, packages: readonly string[]): Promise<void> {
  mkdirSync(cacheFolder(), { recursive: true });
  const work = mkdtempSync(`${folder}-`);
  try {
    const archives = join(work, "archives");
    const root = join(work, "root");
    for (const one of [archives, root]) mkdirSync(one);
    const fetchAll = async () => {
      const all = await withLibraries(packages);
      const download = ["-o", "APT::Sandbox::User=root", "download", ...all];
      await runCommand("apt-get", download, { folder: archives, limitMs: APT_LIMIT_MS });
    };
    await fetchAll().catch(async () => {
      // Lists that are missing or old; anything else fails again just the same.
      await runCommand("apt-get", ["update", "-qq"], { limitMs: APT_LIMIT_MS });
      await fetchAll();
    });
    for (const archive of readdirSync(archives).filter((file) => file.endsWith(".deb"))) {
      await runCommand("dpkg-deb", ["-x", join(archives, archive), root]);
      await keepStatus(join(archives, archive), { root, work });
    }
    // Whole, or not there at all.
    renameSync(root, folder);
  } finally {
    rmSync(work, { recursive: true });
  }
}

/**
 * Where the unpacked folder has the control file of each package under its name, and beside it, with `.md5sums` at the
 * end, the list of its files: scanners look for them there in images that have no dpkg.
 */
export const PACKAGE_STATUS = "var/lib/dpkg/status.d";

async function keepStatus(archive: string, { root, work }: { root: string; work: string }): Promise<void> {
  const control = join(work, "control");
  await runCommand("dpkg-deb", ["-e", archive, control]);
  const [, name = ""] = /^Package: (.+)$/m.exec(readFileSync(join(control, "control"), "utf8")) ?? [];
  const status = join(root, PACKAGE_STATUS);
  mkdirSync(status, { recursive: true });
  copyFileSync(join(control, "control"), join(status, name));
  const files = join(control, "md5sums");
  if (existsSync(files)) copyFileSync(files, join(status, `${name}.md5sums`));
  rmSync(control, { recursive: true });
}

async function withLibraries(packages: readonly string[]): Promise<string[]> {
  const others = ["recommends", "suggests", "conflicts", "breaks", "replaces", "enhances"].map((one) => `--no-${one}`);
  return neededLibraries(await runCommand("apt-cache", ["depends", "--recurse", ...others, ...packages]), packages);
}

/** Those of every Debian, which the programs that run here are linked with anyway. */
const ALWAYS_THERE = /^(libc6|libgcc-s1)$/;
/** And what has the licence of GCC's libraries. */
const LIBRARY = /^(lib(?!js-)|zlib|gcc-\d+-base$)/;

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
