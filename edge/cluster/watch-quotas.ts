import { configMaps } from "../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import { startInformer } from "../../crds/client/watch/informer.ts";
import type { ConfigMap } from "../../crds/kubernetes.ts";
import type { Log } from "../../crds/log.ts";
import { type CurrentQuotas, followQuotas } from "../../crds/quotas/follow-quotas.ts";
import { QUOTAS_CONFIG_MAP } from "../../crds/quotas/tenant-quotas.ts";

/** Watches the quotas of tenants. Undefined as `current` until they are known. */
export function watchQuotas(options: {
  client: ClusterClient;
  namespace: string;
  signal: AbortSignal;
  log: Log;
}): CurrentQuotas {
  const { signal, log } = options;
  const informer = startInformer<ConfigMap>({
    ...options,
    resource: configMaps,
    fieldSelector: `metadata.name=${QUOTAS_CONFIG_MAP}`,
    indexes: {},
  });
  let isKnown = false;
  informer.synced.then(
    () => {
      isKnown = true;
    },
    () => undefined,
  );
  informer.done.catch((error: unknown) => {
    if (!signal.aborted) log.error({ configMap: QUOTAS_CONFIG_MAP, error }, "the watch of the quotas ended");
  });
  const quotas = followQuotas(informer, options);
  return { ...quotas, current: () => (isKnown ? quotas.current() : undefined) };
}
