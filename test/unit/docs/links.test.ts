import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";

const test = suite("links into docs/");

const root = join(import.meta.dirname, "../../..");
const pages = ["README.md", "CONTRIBUTING.md", ...["docs", "manifests"].flatMap(filesBelow)].filter((path) =>
  path.endsWith(".md"),
);
const programs = ["crds", "edge", "manifests", "operator", "scripts", "test"]
  .flatMap(filesBelow)
  .filter((path) => /(?:\.(?:tsx?|mjs|go|ya?ml|sh|lua|json)|Dockerfile|\/agents\/[\w-]+)$/.test(path));

test("every link of a page leads somewhere", () => {
  const lost: string[] = [];
  let links = 0;
  for (const page of pages) {
    for (const [, target = ""] of withoutCode(read(page)).matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^https?:/.test(target)) continue;
      links += 1;
      const isInPage = target.startsWith("#");
      if (!isThere(isInPage ? page + target : join(dirname(page), target))) lost.push(`${page}: ${target}`);
    }
  }
  assert.ok(links > 0);
  assert.equal(lost, []);
});

test("every page that a comment or a message cites is there, with the heading", () => {
  const lost: string[] = [];
  let citations = 0;
  for (const path of programs) {
    // Not the path of somebody else's address.
    for (const [target] of read(path).matchAll(/(?<![\w./-])docs\/[\w/-]+\.md(?:#[\w-]+)?/g)) {
      citations += 1;
      if (!isThere(target)) lost.push(`${path}: ${target}`);
    }
  }
  assert.ok(citations > 0);
  assert.equal(lost, []);
});

test("every file that a page names is there", () => {
  const lost: string[] = [];
  for (const page of pages) {
    for (const [path] of read(page).matchAll(/(?<![\w./-])(?:crds|edge|manifests|operator|scripts|test)\/[\w./-]*\w/g))
      if (!existsSync(join(root, path))) lost.push(`${page}: ${path}`);
    for (const [, name = ""] of read(page).matchAll(/`([\w-]+\.test\.ts)`/g))
      if (!programs.some((path) => path.endsWith(`/${name}`))) lost.push(`${page}: ${name}`);
  }
  assert.equal(lost, []);
});

test("nothing leads to a page that has moved", () => {
  const moved = pages.filter((page) => read(page).startsWith("This page has moved"));
  assert.ok(moved.length > 0);
  const cited = (path: string) => read(path).match(/(?<![\w./-])docs\/[\w/-]+\.md/g) ?? [];
  const linked = (page: string) =>
    [...withoutCode(read(page)).matchAll(/\]\(([^)\s#]+)/g)].map(([, target = ""]) => join(dirname(page), target));
  const targets = [
    ...programs.flatMap((path) => cited(path).map((target) => ({ path, target }))),
    ...pages.flatMap((path) => linked(path).map((target) => ({ path, target }))),
  ];
  assert.equal(
    targets.filter(({ target }) => moved.includes(target)).map(({ path, target }) => `${path}: ${target}`),
    [],
  );
});

function filesBelow(folder: string): string[] {
  const entries = readdirSync(join(root, folder), { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name).slice(root.length + 1));
}

function read(path: string): string {
  return readFileSync(join(root, path), "utf8");
}

function withoutCode(text: string): string {
  return text.replace(/^```[\s\S]*?^```/gm, "");
}

function isThere(target: string): boolean {
  const [path = "", anchor] = target.split("#");
  return existsSync(join(root, path)) && (anchor === undefined || anchors(path).has(anchor));
}

/** The anchors of a page, as GitHub makes them of headings. */
function anchors(path: string): Set<string> {
  const text = withoutCode(read(path));
  const headings = [...text.matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, "")
      .replaceAll(" ", "-"),
  );
  return new Set([...headings, ...[...text.matchAll(/<a name="([^"]+)">/g)].map(([, name = ""]) => name)]);
}

test.run();
