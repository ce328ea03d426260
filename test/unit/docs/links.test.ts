import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { test } from "uvu";
import * as assert from "uvu/assert";

const root = join(import.meta.dirname, "../../..");
const pages = ["README.md", "CONTRIBUTING.md"].concat(
  readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => join("docs", name)),
);

/** The anchors of a page, as GitHub makes them of headings. */
function anchors(path: string): Set<string> {
  const text = readFileSync(path, "utf8").replace(/^```[\s\S]*?^```/gm, "");
  const headings = [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  );
  return new Set([...headings, ...[...text.matchAll(/<a name="([^"]+)">/g)].map(([, name = ""]) => name)]);
}

test("every link of a page leads somewhere", () => {
  const lost: string[] = [];
  let links = 0;
  for (const page of pages) {
    const text = readFileSync(join(root, page), "utf8").replace(/^```[\s\S]*?^```/gm, "");
    for (const [, target = ""] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^https?:/.test(target)) continue;
      links += 1;
      const [file = "", anchor] = target.split("#");
      const path = file === "" ? join(root, page) : join(root, dirname(page), file);
      const isThere = existsSync(path) && (anchor === undefined || anchors(path).has(anchor));
      if (!isThere) lost.push(`${relative(root, join(root, page))}: ${target}`);
    }
  }
  assert.ok(links > 0);
  assert.equal(lost, []);
});

test.run();
