import type { Clock } from "../../../crds/client/clock.ts";
import type { Log } from "../../../crds/log.ts";

/** What guards work with. */
export interface GuardDeps {
  readonly clock: Clock;
  /** Gets why a guard could not say yes, which the event's source is not told. */
  readonly log: Log;
}
