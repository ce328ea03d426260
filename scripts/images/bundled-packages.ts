import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runCommand } from "../cluster/process/run-command.ts";

interface Metafile {
  readonly outputs: Readonly<Record<string, { readonly inputs: Readonly<Record<string, unknown>> }>>;
}

/**
 * Returns the npm packages whose code is in a bundle, with their names in package-lock.json, such as
 * `node_modules/pino`.
 *
 * @param target as in `bun build --target`
 */
export async function bundledPackages(
  main: string,
  { root, target }: { root: string; target: "node" | "bun" | "browser" },
): Promise<Set<string>> {
  const work = mkdtempSync(join(tmpdir(), "tenancy-bundle-"));
  try {
    const metafile = join(work, "meta.json");
    const flags = [`--target=${target}`, `--outdir=${work}`, `--metafile=${metafile}`];
    await runCommand(join(root, "node_modules/.bin/bun"), ["build", main, ...flags], { folder: root });
    const { outputs } = JSON.parse(readFileSync(metafile, "utf8")) as Metafile;
    const inputs = Object.values(outputs).flatMap((output) => Object.keys(output.inputs));
    // The real path is used if node_modules is a symbolic link to another folder.
    return new Set(
      inputs.flatMap((input) => /node_modules\/(?:.*node_modules\/)?(?:@[^/]+\/)?[^/]+/.exec(input)?.[0] ?? []),
    );
  } finally {
    rmSync(work, { recursive: true });
  }
}
