import type { TriggerGuard } from "../../../crds/trigger-guard.ts";
import { denied } from "./denied.ts";
import type { Guard } from "./guard.ts";
import type { GuardDeps } from "./guard-deps.ts";

/** Allows the tenants of `tenantIds` and no others; case makes no difference. */
export function createAllowlistGuard(config: TriggerGuard["config"], { log }: Pick<GuardDeps, "log">): Guard {
  const tenantIds: unknown = config?.tenantIds;
  if (!Array.isArray(tenantIds) || !tenantIds.every((id) => typeof id === "string")) {
    return async ({ trigger }) => {
      log.warn({ trigger }, "allowlist guard without tenantIds denies");
      return denied(config);
    };
  }
  const allowed = new Set(tenantIds.map((id) => id.toLowerCase()));
  return async ({ tenantId }) => (allowed.has(tenantId.toLowerCase()) ? { allowed: true } : denied(config));
}
