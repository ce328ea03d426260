import { readdirSync, readFileSync } from "node:fs";

/** A process of this machine, zombies left out. */
interface Process {
  readonly pid: number;
  readonly parent: number;
  /** Of its program, at most 15 characters. */
  readonly name: string;
  readonly command: string;
}

/** Lists all processes out of /proc, since a bare Debian has neither ps nor pgrep. */
export function listProcesses(): Process[] {
  return readdirSync("/proc").flatMap((pid) => {
    if (!/^\d+$/.test(pid)) return [];
    try {
      const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
      // The name in parentheses may hold blanks and parentheses itself.
      const [open, close] = [stat.indexOf("("), stat.lastIndexOf(")")];
      const [state, parent] = stat.slice(close + 2).split(" ");
      if (state === "Z" || state === "X") return [];
      const command = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ").trim();
      return [{ pid: Number(pid), parent: Number(parent), name: stat.slice(open + 1, close), command }];
    } catch (error) {
      // It has ended meanwhile.
      if (["ENOENT", "ESRCH"].includes((error as NodeJS.ErrnoException).code ?? "")) return [];
      throw error;
    }
  });
}
