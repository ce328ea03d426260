import { configMaps } from "../../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../../crds/client/cluster-client.ts";
import {
  type Change,
  type Informer,
  type InformerOptions,
  startInformer,
} from "../../../crds/client/watch/informer.ts";
import type { ListWatchState } from "../../../crds/client/watch/list-watch-state.ts";
import type { ConfigMap } from "../../../crds/kubernetes.ts";
import { silentLog } from "../../unit/silent-log.ts";
import { namespace, until } from "./control-plane-under-test.ts";

export interface Following {
  readonly informer: Informer<ConfigMap, never>;
  readonly changes: Change<ConfigMap>[];
  /** The kinds of the states so far. */
  readonly states: ListWatchState["kind"][];
  /** Waits until the store holds exactly what the API server does, state by state. */
  untilEqual(direct: ClusterClient): Promise<void>;
  stop(): Promise<void>;
}

/** Follows the config maps of the test's namespace, and keeps everything that was seen. */
export function follow(client: ClusterClient, options: Partial<InformerOptions<ConfigMap, never>> = {}): Following {
  const changes: Change<ConfigMap>[] = [];
  const states: ListWatchState["kind"][] = [];
  const end = new AbortController();
  const informer = startInformer<ConfigMap>({
    client,
    resource: configMaps,
    namespace,
    indexes: {},
    onChange: (change) => changes.push(change),
    onState: ({ kind }) => states.push(kind),
    signal: end.signal,
    log: silentLog,
    ...options,
  });
  return {
    informer,
    changes,
    states,
    async untilEqual(direct) {
      const { items } = await direct.list(configMaps, { namespace });
      const expected = versions(items);
      await until(
        `the store to hold ${items.length} objects as they are`,
        () => versions(informer.store.values()) === expected,
      );
    },
    async stop() {
      end.abort();
      await informer.done;
    },
  };
}

function versions(objects: Iterable<ConfigMap>): string {
  return [...objects]
    .map(({ metadata }) => `${metadata.name} ${metadata.uid} ${metadata.resourceVersion}`)
    .sort()
    .join("\n");
}
