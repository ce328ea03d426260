import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { cacheFolder } from "../folders.ts";
import type { Log } from "../log.ts";
import { runCommand } from "../process/run-command.ts";
import { neededLibraries } from "./needed-libraries.ts";

const APT_LIMIT_MS = 300_000;

/**
 * Fetches Debian packages and the packages of the libraries that they need, and unpacks them into a folder of the cache, where they are
 * found the next time. Nothing is installed: no script of theirs runs, and none of their services starts.
 *
 * @param name of the folder; deleting it has the packages fetched anew
 * @returns the folder, laid out as the root of a system
 * @throws Error when apt cannot fetch them
 */
export async function unpackDebianPackages(
  packages: readonly string[],
  { name, log }: { name: string; log: Log },
): Promise<string> {
  const folder = join(cacheFolder(), name);
  if (existsSync(folder)) return folder;
  log(`fetching Debian packages, to be unpacked and not installed: ${packages.join(" ")}`);
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
    }
    // Whole, or not there at all; of two that do this at once, the first is kept.
    if (!existsSync(folder)) renameSync(root, folder);
  } finally {
    rmSync(work, { recursive: true });
  }
  return folder;
}

async function withLibraries(packages: readonly string[]): Promise<string[]> {
  const others = ["recommends", "suggests", "conflicts", "breaks", "replaces", "enhances"].map((one) => `--no-${one}`);
  return neededLibraries(await runCommand("apt-cache", ["depends", "--recurse", ...others, ...packages]), packages);
}
