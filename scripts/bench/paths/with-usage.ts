import type { ProgramUsage } from "../stage/program-usage.ts";
import type { Stage } from "../stage/stage.ts";
import { usageDifference } from "../stage/usage-difference.ts";

/** Does the work and returns what every program used meanwhile. */
export async function withUsage(
  stage: Pick<Stage, "usage">,
  work: () => Promise<void>,
): Promise<Record<string, ProgramUsage>> {
  const before = await stage.usage();
  await work();
  return usageDifference(before, await stage.usage());
}
