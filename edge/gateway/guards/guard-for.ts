import { describeError } from "../../../crds/describe-error.ts";
import type { TriggerGuard } from "../../../crds/trigger-guard.ts";
import { createAllowlistGuard } from "./allowlist-guard.ts";
import { createApiGuard } from "./api-guard.ts";
import { denied } from "./denied.ts";
import type { Guard } from "./guard.ts";
import type { GuardDeps } from "./guard-deps.ts";

/**
 * Makes the guard that `spec.guards[…]` asks for. One of an unknown type, or whose config does not do, is a guard
 * that denies everything.
 */
export function guardFor(guard: TriggerGuard, deps: GuardDeps): Guard {
  const ask = create(guard, deps);
  return async (payload, options) => {
    try {
      return await ask(payload, options);
    } catch (error) {
      deps.log.error({ trigger: payload.trigger, guard: guard.type, error: describeError(error) }, "guard failed");
      return denied(guard.config);
    }
  };
}

function create({ type, config }: TriggerGuard, deps: GuardDeps): Guard {
  switch (type) {
    case "allowlist":
      return createAllowlistGuard(config, deps);
    case "api":
      return createApiGuard(config, deps);
    default:
      return refuseAll(type satisfies never, { config, ...deps });
  }
}

function refuseAll(type: string, { config, log }: GuardDeps & Pick<TriggerGuard, "config">): Guard {
  return async ({ trigger }) => {
    log.warn({ trigger, guard: type }, "guard of an unknown type denies");
    return denied(config);
  };
}
