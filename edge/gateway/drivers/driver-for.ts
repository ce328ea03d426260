import { type Clock, systemClock } from "../../../crds/client/clock.ts";
import type { TriggerSpec } from "../../../crds/trigger.ts";
import { createAgentBridgeDriver } from "./agent-bridge-driver.ts";
import { createAgentControlDriver } from "./agent-control-driver.ts";
import type { Driver } from "./driver.ts";
import { createHttpDriver } from "./http-driver.ts";

/**
 * Makes the driver that `spec.driver` names; plain HTTP by default. Made once per trigger: it keeps connections open
 * for a moment, for the next event, and needs no closing.
 */
export function driverFor(spec: Pick<TriggerSpec, "driver">, options: { clock?: Clock } = {}): Driver {
  const { clock = systemClock } = options;
  switch (spec.driver) {
    case undefined:
      return createHttpDriver({ clock });
    case "driver-a":
      return createAgentBridgeDriver({ clock });
    case "driver-b":
      return createAgentControlDriver({ clock });
    default:
      throw new Error(`Cannot drive "${spec.driver satisfies never}": no such driver`);
  }
}
