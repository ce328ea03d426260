// npm run images [-- NAME…] [--output FOLDER]: writes the images of operator, edge, proxy and tools as OCI layouts.
import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { type Image, imageDigest, imageLayout } from "./cluster/images/image-archive.ts";
import { PROGRAM_IMAGES, programImage } from "./images/program-images.ts";
import { readSource } from "./images/source.ts";

const root = join(import.meta.dirname, "..");
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { output: { type: "string", default: join(root, "dist/images") } },
});
const output = resolve(process.env.INIT_CWD ?? ".", values.output);
const wanted = PROGRAM_IMAGES.filter((name) => positionals.length === 0 || positionals.includes(name));
const unknown = positionals.filter((name) => !PROGRAM_IMAGES.some((known) => known === name));
if (unknown.length > 0) {
  console.error(`Cannot make ${unknown.join(", ")}: the images are ${PROGRAM_IMAGES.join(", ")}`);
  process.exit(1);
}
const source = await readSource(root);
for (const name of wanted) {
  const { image, billOfMaterials } = await programImage(name, source, (message) => console.error(message));
  const folder = join(output, `tenancy-${name}`);
  writeLayout(folder, image);
  writeFileSync(`${folder}.cdx.json`, billOfMaterials);
  console.log(`${folder} ${imageDigest(image)}`);
}

function writeLayout(folder: string, image: Image): void {
  const making = `${folder}.${process.pid}`;
  mkdirSync(making, { recursive: true });
  for (const { path, content } of imageLayout([image])) {
    if (content === undefined) mkdirSync(join(making, path));
    else writeFileSync(join(making, path), content);
  }
  rmSync(folder, { recursive: true, force: true });
  renameSync(making, folder);
}
