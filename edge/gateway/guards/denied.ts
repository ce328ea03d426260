import type { TriggerGuard } from "../../../crds/trigger-guard.ts";
import { oneLine } from "../one-line.ts";
import type { Verdict } from "./guard.ts";

/**
 * The verdict of a guard that does not say yes. Its message is the configured `denyMessage`, else what the guard itself gave for the event's
 * source, else a plain one.
 *
 * @param said is put on one line and cut at 500 characters
 */
export function denied(config: TriggerGuard["config"] | undefined, said?: string): Verdict & { allowed: false } {
  return { allowed: false, message: config?.denyMessage || oneLine(said ?? "") || "not allowed" };
}
