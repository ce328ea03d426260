// Comments and messages of the source, not only pages, follow the list of plain words.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { suite } from "uvu";
import * as assert from "uvu/assert";
import { findPlainWords } from "../../../scripts/lint/plain-words.ts";

const test = suite("plain words in the source");

const root = join(import.meta.dirname, "../../..");

/** Findings that are left in each folder: lower a number when it falls, never raise one. */
const LEFT: Readonly<Record<string, number>> = { crds: 0, edge: 0, manifests: 0, operator: 0, scripts: 0 };

/** Written by programs, or the list itself. */
const EXEMPT = /^(?:manifests\/chart\/templates|manifests\/chart\/values\.schema\.json|crds\/tenancy|scripts\/lint\/)/;

for (const [folder, left] of Object.entries(LEFT)) {
  test(`${folder} has no new finding`, () => {
    const found = filesOf(folder).flatMap((path) =>
      findPlainWords(readFileSync(join(root, path), "utf8")).map(
        ({ line, words, instead }) => `${path}:${line}: "${words}"; write: ${instead}`,
      ),
    );
    if (found.length > left) assert.unreachable(`${found.length} findings, ${left} allowed:\n${found.join("\n")}`);
    assert.is(found.length, left, `lower the number of ${folder} to ${found.length}`);
  });
}

function filesOf(folder: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .map((path) => `${folder}/${path}`)
    .filter((path) => /\.(?:tsx?|mjs|go|sh|ya?ml|css)$|Dockerfile$/.test(path) && !EXEMPT.test(path))
    .sort();
}

test.run();
