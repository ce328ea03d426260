import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { installDebianPackages } from "../../../scripts/cluster/debian-packages.ts";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";
import { cachedInstall } from "../../cluster/rest/cached-install.ts";

const requirements = join(import.meta.dirname, "python", "requirements.txt");

/** Installs E2B's SDK for Python once, and returns the path of a Python that has it. */
export async function pythonSdk(): Promise<string> {
  const folder = await cachedInstall("e2b-python", {
    files: [requirements],
    async install(empty) {
      await installDebianPackages(["python3-venv"], console.log);
      await runCommand("python3", ["-m", "venv", empty], { limitMs: 120_000 });
      copyFileSync(requirements, join(empty, "requirements.txt"));
      const words = ["install", "--quiet", "--disable-pip-version-check", "-r", "requirements.txt"];
      await runCommand(join(empty, "bin", "pip"), words, { folder: empty, limitMs: 480_000 });
    },
  });
  return join(folder, "bin", "python");
}
