import { execFile } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { cacheFolder } from "../../../scripts/cluster/folders.ts";

/**
 * The release that this version is upgraded from, as a commit or a tag: name the newest one here once it is out. Its
 * snapshots were driven by a shell in the helper pod, and it knows no front door.
 */
export const LAST_RELEASE = "76ff3643fa82a0c6246845abeba6e6fa02b66c97";

/** What of a version runs and is installed. */
export interface Programs {
  /** For Node. */
  readonly operator: string;
  /** For Bun. */
  readonly edge: string;
  /** The folder with the kinds. */
  readonly crds: string;
}

const run = promisify(execFile);
const root = join(import.meta.dirname, "..", "..", "..");

/**
 * Builds the last release out of this repository's history, by that release's own scripts; kept by its commit in the
 * cache folder.
 *
 * @throws Error that says what to do where the history does not reach back so far
 */
export async function buildLastRelease(): Promise<Programs> {
  const commit = await findCommit();
  const folder = join(cacheFolder(), "releases", commit);
  if (!existsSync(folder)) await build(commit, folder);
  return { operator: join(folder, "operator.mjs"), edge: join(folder, "edge.js"), crds: join(folder, "crds") };
}

/** Whether this checkout has no history that could hold the last release: a shallow clone, or files alone. */
export async function lacksHistory(): Promise<boolean> {
  try {
    return (await run("git", ["rev-parse", "--is-shallow-repository"], { cwd: root })).stdout.trim() === "true";
  } catch {
    return true;
  }
}

async function findCommit(): Promise<string> {
  try {
    const { stdout } = await run("git", ["rev-parse", "--verify", "--quiet", `${LAST_RELEASE}^{commit}`], {
      cwd: root,
    });
    return stdout.trim();
  } catch (cause) {
    throw new Error(
      `Cannot build the last release, ${LAST_RELEASE}: this checkout does not have it. In a shallow clone run ` +
        "git fetch --unshallow --tags; what has no history at all has to be cloned anew",
      { cause },
    );
  }
}

async function build(commit: string, folder: string): Promise<void> {
  mkdirSync(dirname(folder), { recursive: true });
  const work = mkdtempSync(`${folder}.`);
  const [source, made] = [join(work, "source"), join(work, "made")];
  try {
    mkdirSync(source);
    mkdirSync(made);
    const archive = join(work, "source.tar");
    await run("git", ["archive", "--output", archive, commit], { cwd: root });
    await run("tar", ["-xf", archive, "-C", source]);
    if (hasItsModules(source)) symlinkSync(join(root, "node_modules"), join(source, "node_modules"));
    else await run("npm", ["ci", "--no-audit", "--no-fund"], { cwd: source });
    const script = `import { bundleEdge, bundleOperator } from "./scripts/start/bundle-programs.ts";
      await Promise.all([bundleOperator(process.cwd()), bundleEdge(process.cwd())]);`;
    await run(process.execPath, ["--import", "tsx", "--input-type=module", "--eval", script], { cwd: source });
    for (const name of ["operator.mjs", "edge.js"]) cpSync(join(source, "dist", name), join(made, name));
    mkdirSync(join(made, "crds"));
    for (const name of readdirSync(join(source, "crds"))) {
      if (name.endsWith(".yaml")) cpSync(join(source, "crds", name), join(made, "crds", name));
    }
    // Another run may have been faster.
    if (!existsSync(folder)) renameSync(made, folder);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

/** Whether the modules of this checkout are those that the release was locked to. */
function hasItsModules(source: string): boolean {
  const [its, ours] = [source, root].map(lockedModules);
  return Object.entries(its ?? {}).every(([path, version]) => path === "" || ours?.[path] === version);
}

function lockedModules(folder: string): Record<string, string | undefined> {
  const { packages } = JSON.parse(readFileSync(join(folder, "package-lock.json"), "utf8")) as {
    packages: Record<string, { version?: string }>;
  };
  return Object.fromEntries(Object.entries(packages).map(([path, { version }]) => [path, version]));
}
