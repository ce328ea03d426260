import { execFile } from "node:child_process";
import { cpSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { build } from "esbuild";

/**
 * Builds the npm package of the client into a folder, which is emptied first: one module, its types, the manifest with
 * this repository's version, the README and the license.
 *
 * @throws Error if the client does not compile
 */
export async function buildClientPackage(root: string, folder: string): Promise<void> {
  const source = join(root, "edge/client");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  await build({
    entryPoints: [join(source, "index.ts")],
    ...{ bundle: true, format: "esm", platform: "neutral", target: "es2022", outfile: join(folder, "index.js") },
  });
  const words = ["--noEmit", "false", "--declaration", "--emitDeclarationOnly", "--outDir", folder];
  await promisify(execFile)("tsc", ["-p", source, ...words]);
  for (const name of readdirSync(folder).filter((name) => name.endsWith(".d.ts"))) {
    const types = readFileSync(join(folder, name), "utf8");
    writeFileSync(join(folder, name), types.replaceAll(/(from "\.\/[\w-]+)\.ts"/g, '$1.js"'));
  }
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
  const manifest = JSON.parse(readFileSync(join(source, "package.json"), "utf8")) as object;
  writeFileSync(join(folder, "package.json"), `${JSON.stringify({ ...manifest, version }, null, 2)}\n`);
  cpSync(join(source, "README.md"), join(folder, "README.md"));
  cpSync(join(root, "LICENSE"), join(folder, "LICENSE"));
}
