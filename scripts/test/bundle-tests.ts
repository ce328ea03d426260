import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import { build, type Plugin } from "esbuild";
import type { TestFile } from "./find-test-files.ts";

export interface BundledTests {
  /** The module that Node runs instead of a file. */
  moduleOf(file: Pick<TestFile, "path">): string;
  remove(): void;
}

/**
 * Compiles the test files that Node runs to JavaScript in one go, with their common modules compiled once. If Node
 * compiled each file at its start, that would take a second of CPU time per file.
 *
 * @param root of this repository
 * @throws Error if a file is not TypeScript, or imports something that does not exist
 */
export async function bundleTests(root: string, files: readonly Pick<TestFile, "path">[]): Promise<BundledTests> {
  const dist = join(root, "dist");
  mkdirSync(dist, { recursive: true });
  // The folder is inside the project, so that modules find their packages. Each run of this clone has its own folder.
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

/** Makes each module find the files next to its source. */
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
