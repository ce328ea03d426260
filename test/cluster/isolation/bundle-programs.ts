import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { runCommand } from "../../../scripts/cluster/process/run-command.ts";

const root = new URL("../../..", import.meta.url).pathname;

/** The two programs as their images hold them. */
export interface Bundles {
  /** Commands. */
  readonly operator: readonly string[];
  readonly edge: readonly string[];
  remove(): void;
}

/** Makes both by the very commands that stand in the Dockerfiles, which nothing here could build an image from. */
export async function bundlePrograms(): Promise<Bundles> {
  const folder = mkdtempSync(join(tmpdir(), "tenancy-bundles-"));
  const [operator, edge] = await Promise.all([bundle("operator"), bundle("edge")]);
  return {
    operator: [process.execPath, operator],
    edge: [join(root, "node_modules/.bin/bun"), edge],
    remove: () => rmSync(folder, { recursive: true }),
  };

  async function bundle(program: "operator" | "edge"): Promise<string> {
    const dockerfile = readFileSync(join(root, `manifests/images/${program}.Dockerfile`), "utf8");
    const [, line = "", output = ""] =
      /^RUN (node_modules\/\.bin\/bun build .*) --outfile dist\/(\S+)$/m.exec(dockerfile) ?? [];
    const [command = "", ...parameters] = line.split(" ");
    const path = join(folder, output);
    await runCommand(command, [...parameters, "--outfile", path], { folder: root });
    return path;
  }
}
