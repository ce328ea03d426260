import { services } from "../../crds/client/built-in-resources.ts";
import type { ClusterClient } from "../../crds/client/cluster-client.ts";
import type { ReportHandlerFailure } from "../../crds/client/watch/handler-failures.ts";
import { type Change, type Informer, startInformer } from "../../crds/client/watch/informer.ts";
import type { Service } from "../../crds/kubernetes.ts";
import { label } from "../../crds/labels.ts";
import type { Log } from "../../crds/log.ts";

/** The Services of claims, which are watched from the moment that a workload asks for one. */
export interface ServiceWatch {
  /** Whether they are watched. */
  readonly isOpen: boolean;
  /** Starts watching them; undefined until all that there are have been listed. */
  open(): Pick<Informer<Service, never>, "store"> | undefined;
  /** Stores the answer to a write. */
  put(service: Service): void;
  close(): void;
}

/** Makes a watch that costs nothing until it is opened. */
export function createServiceWatch(options: {
  client: ClusterClient;
  namespace: string;
  onChange: (change: Change<Service>) => void;
  /** Called when all that there are have been listed. */
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
