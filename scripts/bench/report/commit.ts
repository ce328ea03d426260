import { execFile } from "node:child_process";
import { promisify } from "node:util";

/** The commit that is checked out, with `+` behind it where files have been changed since; `unknown` outside a repository. */
export async function currentCommit(root: string): Promise<string> {
  const git = async (...command: string[]) => (await promisify(execFile)("git", command, { cwd: root })).stdout.trim();
  try {
    const [commit, changes] = [
      await git("rev-parse", "HEAD"),
      await git("status", "--porcelain", "--untracked-files=no"),
    ];
    return changes === "" ? commit : `${commit}+`;
  } catch {
    // An archive of the sources has no history, and can be measured all the same.
    return "unknown";
  }
}
