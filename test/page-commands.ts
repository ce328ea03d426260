import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import * as assert from "uvu/assert";
import { findKubectl } from "../scripts/cluster/kubernetes/kubectl.ts";
import { runCommand } from "../scripts/cluster/process/run-command.ts";

export const root = new URL("..", import.meta.url).pathname;

/**
 * Runs the one block of shell commands of a page that matches, as a person would who copies it.
 *
 * @param options.environment variables beside those of a person who has nothing but programs
 */
export async function runPageCommands(
  page: string,
  which: RegExp,
  { folder, kubeconfigPath, ...own }: { folder: string; kubeconfigPath: string; environment?: Record<string, string> },
): Promise<void> {
  const blocks = (await readFile(join(root, page), "utf8")).matchAll(/^( *)```sh\n(.*?)\n *```$/gms);
  const matching = [...blocks].flatMap(([, indent = "", commands = ""]) =>
    which.test(commands) ? [commands.replaceAll(new RegExp(`^${indent}`, "gm"), "")] : [],
  );
  assert.is(matching.length, 1, `${page}: ${which}`);
  const PATH = `${dirname(await findKubectl())}:${process.env.PATH}`;
  const environment = { HOME: "/nonexistent", PATH, KUBECONFIG: kubeconfigPath, ...own.environment };
  await runCommand("bash", ["-euo", "pipefail", "-c", matching.join("\n")], {
    ...{ folder, environment, limitMs: 300_000 },
  });
}
