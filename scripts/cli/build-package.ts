import { execFile } from "node:child_process";
import { chmodSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";

/**
 * Builds the npm package of the command line into a folder, which is emptied first: one program without dependencies,
 * the manifest with this repository's version, and the license.
 *
 * @throws Error if it cannot be bundled
 */
export async function buildCliPackage(root: string, folder: string): Promise<void> {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const program = join(folder, "tenancy.js");
  await promisify(execFile)("bun", ["build", "--target=node", "edge/cli/main.ts", "--outfile", program], { cwd: root });
  chmodSync(program, 0o755);
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
  const manifest = JSON.parse(readFileSync(join(root, "edge/cli/package.json"), "utf8")) as object;
  writeFileSync(join(folder, "package.json"), `${JSON.stringify({ ...manifest, version }, null, 2)}\n`);
  cpSync(join(root, "LICENSE"), join(folder, "LICENSE"));
}
