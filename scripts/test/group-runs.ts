import { readdirSync, readFileSync } from "node:fs";

/** Tells whether a process of a group still runs; one that has ended and that nobody has asked after does not count. */
export function groupRuns(group: number | undefined): boolean {
  return readdirSync("/proc").some((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    const stat = statOf(pid);
    // The command in parentheses may hold blanks and parentheses itself: the fields begin after the last one.
    const [state, , ofGroup] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return Number(ofGroup) === group && state !== "Z" && state !== "X";
  });
}

function statOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch (error) {
    if (["ENOENT", "ESRCH"].includes((error as NodeJS.ErrnoException).code ?? "")) return "";
    throw error;
  }
}
