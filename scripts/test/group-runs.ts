import { readdirSync } from "node:fs";
import { readIfThere } from "../cluster/process/read-if-there.ts";

/** Tells whether a process of a group still runs; one that has ended and that nobody has asked after does not count. */
export function groupRuns(group: number | undefined): boolean {
  return readdirSync("/proc").some((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    const stat = readIfThere(`/proc/${pid}/stat`) ?? "";
    // The command in parentheses may hold blanks and parentheses itself: the fields begin after the last one.
    const [state, , ofGroup] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return Number(ofGroup) === group && state !== "Z" && state !== "X";
  });
}
