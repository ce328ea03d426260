import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { installDebianPackages } from "../../../scripts/cluster/debian-packages.ts";
import { cacheFolder } from "../../../scripts/cluster/folders.ts";
import { withFileLock } from "../../../scripts/cluster/process/file-lock.ts";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";

const LIMIT_MS = 600_000;

/**
 * Installs packages that only a test needs into a folder of the cache, once for each state of the files that name them.
 *
 * @param install is called with the empty folder
 * @returns the folder
 */
export async function cachedInstall(
  name: string,
  { files, install }: { files: readonly string[]; install: (folder: string) => Promise<unknown> },
): Promise<string> {
  const hash = createHash("sha256");
  for (const file of files) hash.update(readFileSync(file));
  const home = join(cacheFolder(), name);
  const folder = join(home, hash.digest("hex").slice(0, 12));
  const done = join(folder, "installed");
  await withFileLock(join(home, "lock"), { what: name, limitMs: LIMIT_MS }, async () => {
    if (existsSync(done)) return;
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    await install(folder);
    writeFileSync(done, "");
  });
  return folder;
}

/** Makes a virtual environment of Python in an empty folder, with the packages that files name. */
export async function installPython(folder: string, requirements: readonly string[]): Promise<void> {
  await installDebianPackages(["python3-venv"], console.log);
  await runCommand("python3", ["-m", "venv", folder], { limitMs: 120_000 });
  const words = ["install", "--quiet", "--disable-pip-version-check", ...requirements.flatMap((file) => ["-r", file])];
  await runCommand(join(folder, "bin/pip"), words, { folder, limitMs: 480_000 });
}
