import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { build, type Plugin } from "esbuild";
import type { TestFile } from "./find-test-files.ts";

export interface BundledTests {
  /** The module that Node runs in a file's place. */
  moduleOf(file: Pick<TestFile, "path">): string;
  remove(): void;
}

/**
 * Turns the test files that Node runs into JavaScript, all at once, what they share being made once: to have each of
 * them turned at its start takes a second of processor time a file.
 *
 * @param root of this repository
 * @throws Error when a file is not TypeScript, or imports what is not there
 */
export async function bundleTests(root: string, files: readonly Pick<TestFile, "path">[]): Promise<BundledTests> {
  const dist = join(root, "dist");
  mkdirSync(dist, { recursive: true });
  // Below the packages that the modules import; another run of this clone has a folder of its own.
  const folder = mkdtempSync(join(dist, "tests-"));
  const remove = () => rmSync(folder, { recursive: true });
  try {
    await build({
      absWorkingDir: root,
      entryPoints: files.map(({ path }) => path),
      ...{ outdir: folder, outbase: root, outExtension: { ".js": ".mjs" } },
      ...{ bundle: true, splitting: true, format: "esm", platform: "node", target: "node20", packages: "external" },
      ...{ sourcemap: "linked", logLevel: "silent" },
      plugins: [keepPlaces(root)],
    });
  } catch (error) {
    remove();
    throw error;
  }
  return { moduleOf: ({ path }) => join(folder, path.replace(/\.ts$/, ".mjs")), remove };
}

/** Has each module find what lies beside it where its source is. */
function keepPlaces(root: string): Plugin {
  return {
    name: "places",
    setup({ onLoad }) {
      onLoad({ filter: /\.ts$/ }, async ({ path }) => {
        if (path.startsWith(join(root, "node_modules/"))) return undefined;
        const text = await readFile(path, "utf8");
        const contents = text
          .replaceAll("import.meta.dirname", JSON.stringify(dirname(path)))
          .replaceAll("import.meta.url", JSON.stringify(pathToFileURL(path).href));
        return { loader: "ts", contents };
      });
    },
  };
}
