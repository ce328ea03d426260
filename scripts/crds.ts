import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { generatedFiles } from "./crds/files.ts";

const root = fileURLToPath(new URL("..", import.meta.url));

/**
 * Writes the files that are generated from the schemas. With `--check`, writes nothing, prints the stale files, and
 * exits with 1 if there are any.
 */
async function main(check: boolean): Promise<void> {
  for (const { path, text, stale } of await generatedFiles(root)) {
    if (stale && check) {
      console.error(`${path} is stale: run npm run crds`);
      process.exitCode = 1;
      continue;
    }
    if (stale) await writeFile(join(root, path), text);
    console.log(`${path} ${stale ? "written" : "is up to date"}`);
  }
}

await main(process.argv.includes("--check"));
