import { runCommand } from "../process/run-command.ts";

/** Returns the version that a Kubernetes program says it is, such as `v1.34.10`. */
export async function programVersion(path: string): Promise<string> {
  const output = await runCommand(path, ["--version"], { limitMs: 60_000 });
  const version = /v\d+\.\d+\.\d+\S*/.exec(output)?.[0];
  if (version === undefined) throw new Error(`Cannot tell the version of ${path}: it says "${output.trim()}"`);
  return version;
}
