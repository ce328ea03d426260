import { execFile } from "node:child_process";
import { cpus, loadavg, release, totalmem } from "node:os";
import { promisify } from "node:util";

/** The machine on which the figures were measured. */
export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGb: number;
  readonly kernel: string;
  readonly node: string;
  readonly bun: string;
  /** The load average of the minute before. Above 0.5, other programs were using the machine. */
  readonly loadBefore: number;
}

/** Describes this machine, now. */
export async function describeMachine(): Promise<Machine> {
  const { stdout } = await promisify(execFile)("bun", ["--version"]);
  return {
    cpu: cpus()[0]?.model ?? "unknown",
    cores: cpus().length,
    memoryGb: Math.round(totalmem() / 2 ** 30),
    kernel: release(),
    node: process.versions.node,
    bun: stdout.trim(),
    loadBefore: loadavg()[0] ?? 0,
  };
}

/**
 * The checked-out commit, followed by `+` if files have changed since; `unknown` outside a repository.
 */
export async function currentCommit(root: string): Promise<string> {
  const git = async (...command: string[]) => (await promisify(execFile)("git", command, { cwd: root })).stdout.trim();
  try {
    const [commit, changes] = [
      await git("rev-parse", "HEAD"),
      await git("status", "--porcelain", "--untracked-files=no"),
    ];
    return changes === "" ? commit : `${commit}+`;
  } catch {
    // An archive of the sources has no history, but can still be measured.
    return "unknown";
  }
}
