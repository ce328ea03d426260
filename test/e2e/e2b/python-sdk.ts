import { join } from "node:path";
import { cachedInstall, installPython } from "../../cluster/rest/cached-install.ts";

const sdk = join(import.meta.dirname, "python", "requirements.txt");
/** Names the other file too. */
const agent = join(import.meta.dirname, "agents", "requirements.txt");

/** Installs E2B's SDK for Python once, and returns the path of a Python that has it. */
export async function pythonSdk(): Promise<string> {
  const files = [sdk];
  const folder = await cachedInstall("e2b-python", { files, install: (empty) => installPython(empty, files) });
  return join(folder, "bin", "python");
}

/** As {@link pythonSdk}, with what `agents/data_analyst.py` needs. */
export async function pythonAgent(): Promise<string> {
  const files = [agent, sdk];
  const folder = await cachedInstall("e2b-agent", { files, install: (empty) => installPython(empty, [agent]) });
  return join(folder, "bin", "python");
}
