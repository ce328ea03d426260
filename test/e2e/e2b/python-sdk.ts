import { join } from "node:path";
import { cachedInstall, installPython } from "../../cluster/rest/cached-install.ts";

const requirements = join(import.meta.dirname, "python", "requirements.txt");

/** Installs E2B's SDK for Python once, and returns the path of a Python that has it. */
export async function pythonSdk(): Promise<string> {
  const files = [requirements];
  const folder = await cachedInstall("e2b-python", { files, install: (empty) => installPython(empty, files) });
  return join(folder, "bin", "python");
}
