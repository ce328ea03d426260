import { join } from "node:path";
import { runCommand } from "../../../../scripts/cluster/process/run-command.ts";
import { cachedInstall, installPython } from "../../../cluster/rest/cached-install.ts";

export const EXAMPLE = join(import.meta.dirname, "../../../../manifests/examples/code-interpreter");

const requirements = [join(EXAMPLE, "requirements.txt"), join(import.meta.dirname, "requirements.txt")];

/** Installs the example's packages and the SDK for Python once, and returns the path of a Python that has them. */
export async function installed(): Promise<string> {
  const folder = await cachedInstall("code-interpreter", {
    files: requirements,
    async install(empty) {
      await installPython(empty, requirements);
      await runCommand(join(empty, "bin/python"), ["-m", "bash_kernel.install", "--sys-prefix"], { folder: empty });
    },
  });
  return join(folder, "bin/python");
}
