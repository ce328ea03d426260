import type { Clock } from "../../../crds/client/clock.ts";
import type { Log } from "../../../crds/log.ts";
import type { TriggerGuard } from "../../../crds/trigger.ts";
import { oneLine, type TriggerPayload } from "../drivers/driver.ts";

/** A guard's verdict on an event. */
export type Verdict = { readonly allowed: true } | { readonly allowed: false; readonly message: string };

/** Asked before anything is claimed; denies whenever it cannot decide, and never throws. */
export type Guard = (payload: TriggerPayload, options: { signal: AbortSignal }) => Promise<Verdict>;

/**
 * The verdict of a guard that does not allow an event. Its message is the configured `denyMessage`, else the guard's
 * own for the event's source, else a default.
 *
 * @param said is put on one line and cut at 500 characters
 */
export function denied(config: TriggerGuard["config"] | undefined, said?: string): Verdict & { allowed: false } {
  return { allowed: false, message: config?.denyMessage || oneLine(said ?? "") || "not allowed" };
}

/** What guards depend on. */
export interface GuardDeps {
  readonly clock: Clock;
  /** Gets why a guard denied without a decision, which the event's source is not told. */
  readonly log: Log;
}
