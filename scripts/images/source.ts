import { readFileSync } from "node:fs";
import { join } from "node:path";
import { runCommand } from "../cluster/process/run-command.ts";

/** The source of the images. */
export interface Source {
  /** The folder of the repository. */
  readonly root: string;
  readonly version: string;
  /** The commit, followed by `-dirty` if files differ from it; undefined without git. */
  readonly revision?: string;
  /** The ISO 8601 time of that commit. */
  readonly created?: string;
  /** For a local cluster: an image may lack the program `inside` if it cannot be built. @default false */
  readonly mayLackInside?: boolean;
}

/** Reads the state of the repository. */
export async function readSource(root: string): Promise<Source> {
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
  const git = (...words: string[]) => runCommand("git", ["-C", root, ...words]);
  const [commit, seconds] = await git("log", "-1", "--format=%H %ct").then(
    (line) => line.trim().split(" "),
    () => [],
  );
  if (commit === undefined) return { root, version };
  const isDirty = (await git("status", "--porcelain")).trim() !== "";
  return {
    ...{ root, version },
    revision: isDirty ? `${commit}-dirty` : commit,
    created: new Date(Number(seconds) * 1000).toISOString(),
  };
}
