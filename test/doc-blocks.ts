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
  "docs/reference/api.md",
  "docs/how-to/use-kubectl.md",
  "docs/how-to/let-sessions-expire.md",
  "docs/how-to/limit-tenants.md",
  "docs/how-to/call-from-a-webhook.md",
  "docs/how-to/run-on-a-schedule.md",
  "docs/how-to/find-why-a-claim-is-slow.md",
  "docs/how-to/keep-files.md",
  "docs/how-to/versions-of-files.md",
  "docs/how-to/start-with-the-claim.md",
  "docs/how-to/tell-a-running-program.md",
  "docs/how-to/mount-settings.md",
  "docs/how-to/work-in-an-instance.md",
  "docs/how-to/give-tenants-urls.md",
  // On a machine that has never built the builder, its image comes minutes after the cluster.
  "docs/tutorial/README.md",
  "docs/how-to/build-an-image.md",
  "docs/how-to/back-up.md",
  "docs/how-to/upgrade.md",
  "docs/how-to/uninstall.md",
] as const;

/** README.md and the pages of docs/. */
export function docPages(): string[] {
  const pages = readdirSync(join(root, "docs"), { encoding: "utf8", recursive: true });
  return ["README.md", ...pages.filter((name) => name.endsWith(".md")).map((name) => `docs/${name}`)];
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
