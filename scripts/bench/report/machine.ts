import { execFile } from "node:child_process";
import { cpus, loadavg, release, totalmem } from "node:os";
import { promisify } from "node:util";

/** What the figures were measured on. */
export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGb: number;
  readonly kernel: string;
  readonly node: string;
  readonly bun: string;
  /** Processes that wanted a core in the minute before: above 0.5 somebody else was at work. */
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
