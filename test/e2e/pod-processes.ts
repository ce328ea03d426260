import { readdirSync } from "node:fs";
import { readIfThere } from "../../scripts/cluster/process/read-if-there.ts";

/** The processes of a pod's containers, by their control groups: what this machine's kernel says, not the cluster. */
export function podProcesses(uid: string): number[] {
  const marks = [uid, uid.replaceAll("-", "_")].map((mark) => `pod${mark}`);
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry))
    .filter((entry) => marks.some((mark) => readIfThere(`/proc/${entry}/cgroup`)?.includes(mark)))
    .map(Number);
}
