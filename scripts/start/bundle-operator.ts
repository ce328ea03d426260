import { execFile } from "node:child_process";
import { renameSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

/** Bundles the operator into one file for Node, `dist/operator.mjs`, and returns its path. */
export async function bundleOperator(root: string): Promise<string> {
  const output = join(root, "dist", "operator.mjs");
  // Another process may start the present one at this moment.
  const making = `${output}.${process.pid}`;
  await promisify(execFile)("bun", ["build", "--target=node", "operator/main.ts", "--outfile", making], { cwd: root });
  renameSync(making, output);
  return output;
}
