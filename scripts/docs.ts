// npm run docs: writes llms.txt, the list of the pages for programs, and dist/llms-full.txt with the text of all pages.
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { allPages, pageList } from "./docs/pages.ts";

const root = join(import.meta.dirname, "..");

await writeFile(join(root, "llms.txt"), pageList(root));
await mkdir(join(root, "dist"), { recursive: true });
await writeFile(join(root, "dist/llms-full.txt"), allPages(root));
console.log("llms.txt and dist/llms-full.txt written");
