import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { crdFiles } from "./crds/files.ts";

const folder = fileURLToPath(new URL("../crds", import.meta.url));

/** Writes `crds/*.yaml`; with `--check` writes nothing, names the stale files and exits with 1 when there are any. */
async function main(check: boolean): Promise<void> {
  for (const file of await crdFiles(folder)) {
    if (file.stale && check) {
      console.error(`crds/${file.name} is stale: run npm run crds`);
      process.exitCode = 1;
      continue;
    }
    if (file.stale) await writeFile(join(folder, file.name), file.text);
    console.log(`crds/${file.name} ${file.stale ? "written" : "is up to date"}`);
  }
}

await main(process.argv.includes("--check"));
