import { describeError } from "../../../crds/describe-error.ts";
import type { TriggerGuard } from "../../../crds/trigger.ts";
import type { TriggerPayload } from "../drivers/driver.ts";
import { createApiGuard } from "./api-guard.ts";
import { denied, type Guard, type GuardDeps, type Verdict } from "./guard.ts";

/**
 * Makes the guard that `spec.guards[…]` asks for. A guard of an unknown type or with an invalid config
 * denies everything.
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

/**
 * Asks the guards in order; the verdict is that of the first that denies. An aborted signal denies. Without guards
 * everything is allowed.
 */
export async function runGuards(
  guards: readonly Guard[],
  payload: TriggerPayload,
  options: { signal: AbortSignal },
): Promise<Verdict> {
  for (const guard of guards) {
    if (options.signal.aborted) return denied(undefined);
    const verdict = await guard(payload, options);
    if (verdict.allowed !== true) return verdict;
  }
  return { allowed: true };
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
    log.warn({ trigger, guard: type }, "guard type unknown, denied");
    return denied(config);
  };
}

/** Allows the tenants of `tenantIds` and no others; case makes no difference. */
function createAllowlistGuard(config: TriggerGuard["config"], { log }: Pick<GuardDeps, "log">): Guard {
  const tenantIds: unknown = config?.tenantIds;
  if (!Array.isArray(tenantIds) || !tenantIds.every((id) => typeof id === "string")) {
    return async ({ trigger }) => {
      log.warn({ trigger }, "allowlist guard config invalid, denied");
      return denied(config);
    };
  }
  const allowed = new Set(tenantIds.map((id) => id.toLowerCase()));
  return async ({ tenantId }) => (allowed.has(tenantId.toLowerCase()) ? { allowed: true } : denied(config));
}
