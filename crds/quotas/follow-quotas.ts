import type { Informer } from "../client/watch/informer.ts";
import type { ConfigMap } from "../kubernetes.ts";
import type { Log } from "../log.ts";
import { noQuotas, QUOTAS_CONFIG_MAP, readQuotas, type TenantQuotas } from "./tenant-quotas.ts";

/** The quotas that hold now. Read this once the informer is synced. */
export interface CurrentQuotas {
  /** The last valid ones; undefined if the ConfigMap has been invalid since this process began. */
  current(): TenantQuotas | undefined;
  /** What is wrong with the ConfigMap. */
  problem(): string | undefined;
}

/**
 * Follows the ConfigMap of the quotas. An invalid change of it is logged, and the quotas before it stay: a mistake must
 * neither stop all tenants nor lift their limits.
 */
export function followQuotas(
  informer: Pick<Informer<ConfigMap, never>, "subscribe">,
  { namespace, log }: { namespace: string; log: Log },
): CurrentQuotas {
  let valid: TenantQuotas | undefined = noQuotas;
  let problem: string | undefined;
  let isFirst = true;
  informer.subscribe(({ type, object }) => {
    if (object.metadata.name !== QUOTAS_CONFIG_MAP) return;
    const read = readQuotas(type === "deleted" ? undefined : object);
    problem = typeof read === "string" ? read : undefined;
    if (typeof read !== "string") valid = read;
    else if (isFirst) valid = undefined;
    isFirst = false;
    if (problem !== undefined) log.error({ namespace, configMap: QUOTAS_CONFIG_MAP, problem }, "quotas are invalid");
  });
  return { current: () => valid, problem: () => problem };
}
