import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const SECTIONS = {
  tutorial: "Tutorial",
  "how-to": "How-to",
  reference: "Reference",
  explanation: "Explanation",
  decisions: "Decisions",
} as const;

interface Page {
  readonly path: string;
  readonly section: string;
  readonly text: string;
}

function readPages(root: string): Page[] {
  return Object.entries(SECTIONS).flatMap(([folder, section]) =>
    readdirSync(join(root, "docs", folder))
      .filter((name) => name.endsWith(".md"))
      .sort()
      .map((name) => {
        const path = `docs/${folder}/${name}`;
        return { path, section, text: readFileSync(join(root, path), "utf8") };
      }),
  );
}

/** The text of `llms.txt` (https://llmstxt.org): each page with its title and first paragraph. */
export function pageList(root: string): string {
  const [, summary = ""] = firstParagraph(readFileSync(join(root, "README.md"), "utf8"));
  const lines = ["# tenancy", "", `> ${summary}`];
  let last = "";
  for (const { path, section, text } of readPages(root)) {
    const [title, paragraph] = firstParagraph(text);
    if (section !== last) lines.push("", `## ${section}`, "");
    last = section;
    lines.push(section === SECTIONS.decisions ? `- [${title}](${path})` : `- [${title}](${path}): ${paragraph}`);
  }
  return `${lines.join("\n")}\n`;
}

/** The text of README.md and all pages. A line with its path comes before each. */
export function allPages(root: string): string {
  const readme = { path: "README.md", text: readFileSync(join(root, "README.md"), "utf8") };
  return [readme, ...readPages(root)].map(({ path, text }) => `<!-- ${path} -->\n\n${text}`).join("\n");
}

function firstParagraph(text: string): [title: string, paragraph: string] {
  const [, title = "", paragraph = ""] = /^# (.+)\n\n([\s\S]+?)\n\n/m.exec(text) ?? [];
  return [title, paragraph.replaceAll("\n", " ")];
}
