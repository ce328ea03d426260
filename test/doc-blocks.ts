import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");

/** A shell block of a page. */
export interface ShellBlock {
  readonly page: string;
  /** Of its first command, counted from 1. */
  readonly line: number;
  readonly commands: string;
  /** Why no test runs it, as the comment before it says: `<!-- not run: REASON -->`. */
  readonly notRun: string | undefined;
}

/** The pages whose blocks test/e2e/docs/pages.test.ts runs, in this order, on one `npm start`. */
export const RUN_PAGES = [
  "README.md",
  "docs/api.md",
  "docs/kubectl.md",
  "docs/triggers.md",
  "docs/files.md",
  "docs/front-door.md",
  "docs/builds.md",
  "docs/backup.md",
  "docs/upgrade.md",
  "docs/uninstall.md",
] as const;

/** README.md and the pages of docs/. */
export function docPages(): string[] {
  const pages = readdirSync(join(root, "docs")).filter((name) => name.endsWith(".md"));
  return ["README.md", ...pages.map((name) => `docs/${name}`)];
}

/** The shell blocks of a page, in its order. */
export function shellBlocks(page: string): ShellBlock[] {
  const lines = readFileSync(join(root, page), "utf8").split("\n");
  const blocks: ShellBlock[] = [];
  for (let at = 0; at < lines.length; at += 1) {
    const [, indent, language = ""] = /^( *)```(\S*)/.exec(lines[at] ?? "") ?? [];
    if (indent === undefined) continue;
    const end = lines.findIndex((line, index) => index > at && line.startsWith(`${indent}\`\`\``));
    const commands = lines
      .slice(at + 1, end)
      .map((line) => line.slice(indent.length))
      .join("\n");
    const before = lines.slice(0, at).findLast((line) => line.trim() !== "") ?? "";
    const notRun = /^ *<!-- not run: (.+) -->$/.exec(before)?.[1];
    if (/^(sh|bash|shell|console)$/.test(language)) blocks.push({ page, line: at + 2, commands, notRun });
    at = end;
  }
  return blocks;
}
