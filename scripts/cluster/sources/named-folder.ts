import { join } from "node:path";
import { runCommand } from "../process/run-command.ts";
import type { BinariesSource } from "./binaries-source.ts";
import { isProgram } from "./find-on-path.ts";

/** The folder that the environment variable `TENANCY_K8S_BIN` names. etcd and kubectl may be missing from it. */
export const namedFolderSource: BinariesSource = {
  name: "TENANCY_K8S_BIN",
  takesLong: false,
  async find({ environment, need }) {
    const folder = environment.TENANCY_K8S_BIN;
    if (!folder) return { because: "not set" };
    const missing = need.filter((name) => name !== "etcd" && name !== "kubectl" && !isProgram(join(folder, name)));
    if (missing.length > 0) {
      throw new Error(
        `Cannot use TENANCY_K8S_BIN=${folder}: it has no ${missing.join(", ")}; put the programs there or unset the variable`,
      );
    }
    return { folder, version: await programVersion(join(folder, "kube-apiserver")) };
  },
};

/** Returns the version that a Kubernetes program says it is, such as `v1.34.10`. */
async function programVersion(path: string): Promise<string> {
  const output = await runCommand(path, ["--version"], { limitMs: 60_000 });
  const version = /v\d+\.\d+\.\d+\S*/.exec(output)?.[0];
  if (version === undefined) throw new Error(`Cannot tell the version of ${path}: it says "${output.trim()}"`);
  return version;
}
