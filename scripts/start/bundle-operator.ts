import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";

/** Bundles the operator into one file for Node, `dist/operator.mjs`, and returns its path. */
export async function bundleOperator(root: string): Promise<string> {
  const output = join(root, "dist", "operator.mjs");
  await promisify(execFile)("bun", ["build", "--target=node", "operator/main.ts", "--outfile", output], { cwd: root });
  return output;
}
