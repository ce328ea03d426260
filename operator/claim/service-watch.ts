import { services } from "../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import type { ReportHandlerFailure } from "../../crds/client/watch/handler-failures.ts";
import { type Change, type Informer, startInformer } from "../../crds/client/watch/informer.ts";
import type { Service } from "../../crds/kubernetes.ts";
import { label } from "../../crds/labels.ts";
import type { Log } from "../../crds/log.ts";

/** A watch of the claims' Services. It starts when the first workload asks for a Service. */
export interface ServiceWatch {
  /** Whether the Services are being watched. */
  readonly isOpen: boolean;
  /** Starts the watch; undefined until the cache is synced. */
  open(): Pick<Informer<Service, never>, "store"> | undefined;
  /** Caches the answer to a write. */
  put(service: Service): void;
  close(): void;
}

/** Creates the watch. It costs nothing until it is opened. */
export function createServiceWatch(options: {
  client: ClusterClient;
  namespace: string;
  onChange: (change: Change<Service>) => void;
  /** Called when the cache is synced. */
  onSynced: () => void;
  onFailure: ReportHandlerFailure;
  log: Log;
}): ServiceWatch {
  const { log, onSynced, ...shared } = options;
  const closing = new AbortController();
  let informer: Informer<Service, never> | undefined;
  let isSynced = false;

  function start(): void {
    const started = startInformer<Service>({
      ...shared,
      resource: services,
      labelSelector: `${label.managed}=true`,
      indexes: {},
      signal: closing.signal,
      log,
    });
    informer = started;
    started.synced.then(
      () => {
        isSynced = true;
        onSynced();
      },
      // The end of the watch reports it.
      () => undefined,
    );
    started.done.catch((error: unknown) => {
      log.error({ error }, "service watch failed, restarted when it is next needed");
      informer = undefined;
      isSynced = false;
    });
  }

  return {
    get isOpen() {
      return informer !== undefined;
    },
    open() {
      if (informer === undefined) start();
      return isSynced ? informer : undefined;
    },
    put: (service) => informer?.put(service),
    close: () => closing.abort(),
  };
}
