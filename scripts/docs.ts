// npm run docs: writes docs/reference/cli.md from the commands of the command line, llms.txt, the list of the pages for
// programs, and dist/llms-full.txt with the text of all pages.
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { commands } from "../edge/cli/commands.ts";
import { cliPage } from "./docs/cli-page.ts";
import { allPages, pageList } from "./docs/pages.ts";

const root = join(import.meta.dirname, "..");

await writeFile(join(root, "docs/reference/cli.md"), cliPage(commands));
await writeFile(join(root, "llms.txt"), pageList(root));
await mkdir(join(root, "dist"), { recursive: true });
await writeFile(join(root, "dist/llms-full.txt"), allPages(root));
console.log("docs/reference/cli.md, llms.txt and dist/llms-full.txt written");
