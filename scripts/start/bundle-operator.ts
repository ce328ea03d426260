import { execFile } from "node:child_process";
import { renameSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

/**
 * What Node runs the operator with. Most of its memory would be garbage that waits to be collected: at 10 000 pods and
 * 5 000 claims it holds 42 MB of objects, and takes 140 MiB resident with these, 200 MiB without. The image's entry point
 * has them too.
 */
export const OPERATOR_FLAGS = ["--max-semi-space-size=4", "--heap-growing-percent=50"] as const;

/** Bundles the operator into one file for Node, `dist/operator.mjs`, and returns its path. */
export async function bundleOperator(root: string): Promise<string> {
  const output = join(root, "dist", "operator.mjs");
  // Another process may start the present one at this moment.
  const making = `${output}.${process.pid}`;
  await promisify(execFile)("bun", ["build", "--target=node", "operator/main.ts", "--outfile", making], { cwd: root });
  renameSync(making, output);
  return output;
}
