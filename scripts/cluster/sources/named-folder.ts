import { join } from "node:path";
import type { BinariesSource } from "./binaries-source.ts";
import { isProgram } from "./is-program.ts";
import { programVersion } from "./program-version.ts";

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
