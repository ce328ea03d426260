import type { Clock } from "../../../crds/client/clock.ts";
import type { Log } from "../../../crds/log.ts";
import type { TriggerGuard } from "../../../crds/trigger.ts";
import type { TriggerPayload } from "../drivers/driver.ts";
import { oneLine } from "../one-line.ts";

/** What a guard says of an event. */
export type Verdict = { readonly allowed: true } | { readonly allowed: false; readonly message: string };

/** Asked before anything is claimed; it denies whenever it cannot say yes, and never throws. */
export type Guard = (payload: TriggerPayload, options: { signal: AbortSignal }) => Promise<Verdict>;

/**
 * The verdict of a guard that does not say yes. Its message is the configured `denyMessage`, else what the guard itself gave for the event's
 * source, else a plain one.
 *
 * @param said is put on one line and cut at 500 characters
 */
export function denied(config: TriggerGuard["config"] | undefined, said?: string): Verdict & { allowed: false } {
  return { allowed: false, message: config?.denyMessage || oneLine(said ?? "") || "not allowed" };
}

/** What guards work with. */
export interface GuardDeps {
  readonly clock: Clock;
  /** Gets why a guard could not say yes, which the event's source is not told. */
  readonly log: Log;
}
