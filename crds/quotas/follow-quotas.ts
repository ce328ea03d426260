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
  informer: Pick<Informer<ConfigMap, never>, "subscribe" | "synced">,
  { namespace, log }: { namespace: string; log: Log },
): CurrentQuotas {
  let valid: TenantQuotas | undefined = noQuotas;
  let isThere = false;
  let isSynced = false;
  let problem: string | undefined;
  informer.synced.then(
    () => {
      isSynced = true;
    },
    () => undefined,
  );
  informer.subscribe(({ type, object }) => {
    if (object.metadata.name !== QUOTAS_CONFIG_MAP) return;
    isThere = type !== "deleted";
    const read = isThere ? readQuotas(object) : noQuotas;
    problem = typeof read === "string" ? read : undefined;
    // One that is replaced is deleted first: its quotas hold if the new one is invalid.
    if (typeof read !== "string" && isThere) valid = read;
    else if (problem !== undefined && !isSynced) valid = undefined;
    if (problem !== undefined) log.error({ namespace, configMap: QUOTAS_CONFIG_MAP, problem }, "quotas are invalid");
  });
  return { current: () => (isThere ? valid : noQuotas), problem: () => problem };
}
