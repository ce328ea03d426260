import { findKubectl } from "../../../scripts/cluster/kubernetes/kubectl.ts";
import { versionAtLeast } from "../../../scripts/cluster/kubernetes/version-at-least.ts";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";

const root = new URL("../../..", import.meta.url).pathname;

/** Runs kubectl against a cluster, in the project's folder. */
export type RunKubectl = (...parameters: string[]) => Promise<string>;

/**
 * @throws what the returned function throws: Error with what kubectl wrote, where it fails or takes over five minutes
 */
export async function kubectlFor(kubeconfigPath: string): Promise<RunKubectl> {
  const command = await findKubectl();
  return (...parameters) =>
    runCommand(command, ["--kubeconfig", kubeconfigPath, ...parameters], {
      folder: root,
      limitMs: 300_000,
      environment: { HOME: "/nonexistent", PATH: process.env.PATH },
    });
}

/**
 * How strictly `kubectl apply` looks at fields: servers before 1.30 do not know all that the definitions of our kinds
 * say.
 */
export function validation(version: string): string {
  return versionAtLeast(version, "1.30") ? "--validate=strict" : "--validate=false";
}
