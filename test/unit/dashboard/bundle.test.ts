import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import type { DashboardAssets } from "../../../edge/api/dashboard.ts";
import { bundleDashboard } from "../../../scripts/start/bundle-dashboard.ts";

const test = suite("dashboard/bundle");

const root = join(import.meta.dirname, "../../..");
const FIRST_VIEW_BYTES = 40_000;

const path = await bundleDashboard(root);
const assets = JSON.parse(readFileSync(path, "utf8")) as DashboardAssets;
const gzipped = (name: string): Buffer => Buffer.from(assets.files[name]?.gzip ?? "", "base64");
const textOf = (name: string): string => String(gunzipSync(gzipped(name)));

/** A script and what it imports at once, not later. */
function withImports(name: string, found = new Set<string>()): Set<string> {
  if (found.has(name)) return found;
  found.add(name);
  for (const [, imported = ""] of textOf(name).matchAll(/(?:from|import)\s*"\.\/([\w.-]+)"/g))
    withImports(imported, found);
  return found;
}

test("the first view is at most 40 kB on the wire, with the page that it shows", () => {
  const overview = Object.keys(assets.files).filter((name) => /^(list|overview)-/.test(name));
  const names = new Set([assets.theme, assets.style, ...withImports(assets.script)]);
  const shells = [...names].reduce((sum, name) => sum + gzipped(name).byteLength, 0);
  const largest = Math.max(
    ...overview.map((name) =>
      [...withImports(name)].filter((one) => !names.has(one)).reduce((sum, one) => sum + gzipped(one).byteLength, 0),
    ),
  );
  console.log(
    `note: first view ${((shells + largest) / 1000).toFixed(1)} kB gzip, of which ${names.size} files of the shell`,
  );
  assert.ok(shells + largest <= FIRST_VIEW_BYTES, `${shells} + ${largest} bytes`);
});

test("the script is the one that fills the page, not a part of it that pages share", () => {
  assert.match(textOf(assets.script), /getElementById\("app"\)/);
});

test("nothing in the bundle comes from elsewhere or writes markup", () => {
  for (const name of Object.keys(assets.files)) {
    const text = textOf(name);
    for (const pattern of [/@import/, /url\(/, /\beval\(/, /new Function\b/, /dangerouslySetInnerHTML:/])
      assert.not.match(text, pattern, name);
  }
});

test("an equal bundle is not written again, because an edge that watches the file would drop its requests", async () => {
  const before = statSync(path);
  await bundleDashboard(root);
  const after = statSync(path);
  assert.equal([after.ino, after.mtimeMs], [before.ino, before.mtimeMs]);
});

test.run();
