import { execFile } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { extname, join } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";

const types: Readonly<Record<string, string>> = {
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
};

/**
 * Bundles the page for browsers into one file, `dist/dashboard.json`, which the edge imports and serves, and returns
 * its path.
 *
 * @throws Error with what `bun build` says
 */
export async function bundleDashboard(root: string): Promise<string> {
  const dist = join(root, "dist");
  mkdirSync(dist, { recursive: true });
  const work = mkdtempSync(join(dist, "dashboard-"));
  try {
    // The common chunks of the pages are named after the entry too.
    const named = ["entry-naming=entry-[name]", "chunk-naming=[name]", "asset-naming=[name]"].map(
      (rule) => `--${rule}-[hash].[ext]`,
    );
    const flags = ["--minify", "--splitting", "--production", "--target=browser", `--outdir=${work}`, ...named];
    const jsx = ["--jsx-runtime=automatic", "--jsx-import-source=preact"];
    const entries = ["edge/dashboard/main.tsx", "edge/dashboard/theme.ts"];
    await promisify(execFile)(join(root, "node_modules/.bin/bun"), ["build", ...entries, ...flags, ...jsx], {
      cwd: root,
    });
    const names = readdirSync(work).sort();
    const fileOf = (start: string, end: string): string => {
      const found = names.find((name) => name.startsWith(`${start}-`) && name.endsWith(end));
      if (found === undefined) throw new Error(`bun build made no ${start}${end}: ${names.join(" ")}`);
      return found;
    };
    const files = Object.fromEntries(
      names.map((name) => {
        const type = types[extname(name)];
        if (type === undefined) throw new Error(`Cannot serve ${name}: no media type is known for it`);
        return [name, { type, gzip: gzipSync(readFileSync(join(work, name)), { level: 9 }).toString("base64") }];
      }),
    );
    const assets = {
      theme: fileOf("entry-theme", ".js"),
      script: fileOf("entry-main", ".js"),
      style: fileOf("entry-main", ".css"),
      files,
    };
    const text = JSON.stringify(assets);
    const output = join(dist, "dashboard.json");
    // A watched edge starts again, and drops its requests, whenever this file is written.
    if (existsSync(output) && readFileSync(output, "utf8") === text) return output;
    const making = join(work, "dashboard.json");
    writeFileSync(making, text);
    // Another process may be reading the current file.
    renameSync(making, output);
    return output;
  } finally {
    rmSync(work, { recursive: true });
  }
}
