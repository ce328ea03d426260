import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runCommand } from "../cluster/process/run-command.ts";

interface Metafile {
  readonly outputs: Readonly<Record<string, { readonly inputs: Readonly<Record<string, unknown>> }>>;
}

/**
 * Returns the npm packages of which a bundle holds something, such as `node_modules/pino`, as package-lock.json calls
 * them.
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
    // A symbolic link to the packages of another folder is followed.
    return new Set(
      inputs.flatMap((input) => /node_modules\/(?:.*node_modules\/)?(?:@[^/]+\/)?[^/]+/.exec(input)?.[0] ?? []),
    );
  } finally {
    rmSync(work, { recursive: true });
  }
}
