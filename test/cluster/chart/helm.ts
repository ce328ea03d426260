import { mkdtempSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { findHelm } from "../../../scripts/cluster/helm/find-helm.ts";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";

/** Helm has limits of its own; on a busy machine an upgrade that waits for all pods takes minutes. */
const LIMIT_MS = 300_000;

export const root = new URL("../../..", import.meta.url).pathname;
export const chart = join(root, "manifests/chart");

/** Runs Helm, with values in a file where there are any. */
export interface Helm {
  (parameters: readonly string[], values?: object): Promise<string>;
  /** Takes away what it keeps on disk. */
  close(): Promise<void>;
}

/**
 * @throws what the returned function throws: Error with what Helm wrote, where it fails
 */
export async function startHelm(kubeconfigPath = "/nonexistent"): Promise<Helm> {
  const program = await findHelm();
  const home = mkdtempSync(join(tmpdir(), "tenancy-helm-"));
  let files = 0;
  const run = async (parameters: readonly string[], values?: object): Promise<string> => {
    const file = join(home, `${files++}.yaml`);
    if (values !== undefined) await writeFile(file, stringify(values, { version: "1.1" }));
    return await runCommand(program, [...parameters, ...(values === undefined ? [] : ["--values", file])], {
      environment: { HOME: home, PATH: process.env.PATH, KUBECONFIG: kubeconfigPath },
      limitMs: LIMIT_MS,
    });
  };
  return Object.assign(run, { close: () => rm(home, { recursive: true }) });
}
