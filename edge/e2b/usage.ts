import * as v from "valibot";
import type { Inside } from "../api/inside/call-inside.ts";
import { podAnswer } from "../api/inside/pod-answer.ts";

const count = v.pipe(v.number(), v.minValue(0));
const usage = v.object({
  cpus: count,
  cpuPercent: count,
  memoryBytes: count,
  cacheBytes: count,
  memoryLimitBytes: count,
  diskBytes: count,
  diskTotalBytes: count,
});

/** What a sandbox uses now. The processors' time is that of half a second. Asking is no use of the instance. */
export async function readUsage(inside: Inside): Promise<v.InferOutput<typeof usage>> {
  return podAnswer(usage, await inside.ask("usage", {}, { isUse: false }));
}
