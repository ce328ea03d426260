// npm run chart: generates manifests/chart from the manifests.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chartFiles } from "./chart/files.ts";

const root = fileURLToPath(new URL("..", import.meta.url));
const files = await chartFiles(root);
for (const [path, text] of files) {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}
// Deletes templates of components that no longer exist.
const templates = "manifests/chart/templates";
for (const name of readdirSync(join(root, templates))) {
  const path = `${templates}/${name}`;
  if (files.has(path) || !readFileSync(join(root, path), "utf8").includes("by `npm run chart`")) continue;
  rmSync(join(root, path));
}
console.log(`${files.size} files of manifests/chart written`);
