import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/**
 * Returns the public certificate authorities as one file, which the package's own script makes when it is installed.
 *
 * @param root where ca-certificates is unpacked
 */
export function authorities(root: string): Buffer {
  const folder = join(root, "usr/share/ca-certificates/mozilla");
  const files = readdirSync(folder).filter((file) => file.endsWith(".crt"));
  if (files.length === 0) throw new Error(`Cannot find certificate authorities in ${folder}`);
  const certificates = files.sort().map((file) => readFileSync(join(folder, file), "utf8").trimEnd());
  return Buffer.from(`${certificates.join("\n")}\n`);
}
