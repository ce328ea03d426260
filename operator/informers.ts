import type { Claim } from "../crds/claim.ts";
import type { ClusterClient } from "../crds/client/cluster-client.ts";
import type { ReportHandlerFailure } from "../crds/client/watch/handler-failures.ts";
import { type Informer, type InformerOptions, startInformer } from "../crds/client/watch/informer.ts";
import type { KubernetesObject, NetworkPolicy, Pod } from "../crds/kubernetes.ts";
import type { Log } from "../crds/log.ts";
import type { Pool } from "../crds/pool.ts";
import { createDeferred, onAbort } from "../crds/waits.ts";
import type { Workload } from "../crds/workload.ts";

/** The caches of kinds that several subjects read. Each subject adds its indexes, and its own caches. */
export interface Informers {
  readonly claims: Informer<Claim, never>;
  readonly workloads: Informer<Workload, never>;
  readonly pools: Informer<Pool, never>;
  /**
   * All pods of the namespace except those of builds, so that a pod without its labels stays visible. The indexes have
   * only pods of workloads.
   */
  readonly pods: Informer<Pod, never>;
  /** Managed policies only. */
  readonly networkPolicies: Informer<NetworkPolicy, never>;
}

/** The caches with the indexes that a subject declares, by cache and by name of the index. */
export type IndexedBy<Indexes> = {
  readonly [Cache in keyof Indexes & keyof Informers]: Informers[Cache] extends Informer<infer T, never>
    ? Informer<T, keyof Indexes[Cache] & string>
    : never;
};

/** Starts a cache. @param options.namespace @default the workloads' namespace */
export type StartInformer = <T extends KubernetesObject, Index extends string = never>(
  options: Pick<
    InformerOptions<T, Index>,
    "resource" | "namespace" | "labelSelector" | "fieldSelector" | "indexes" | "transform" | "pageSize" | "timings"
  > & {
    /**
     * Readiness does not wait for this cache, so it may be empty if the operator may not read the objects. Use it only
     * to start work, never to decide.
     */
    readonly isOptional?: boolean;
  },
) => Informer<T, Index>;

/** The informers and their state. */
export interface StartedInformers<T> {
  readonly informers: T;
  /** Resolves when all caches are synced. */
  readonly synced: Promise<void>;
  /** Rejects when an informer fails; resolves after `signal` is aborted. */
  readonly done: Promise<void>;
  /** Whether all watches are open. */
  isReady(): boolean;
  /** Resolves when all watches are open, or the signal is aborted. */
  untilReady(signal: AbortSignal): Promise<void>;
}

/** Watches the cluster until the signal is aborted. */
export function startInformers<T>(
  options: {
    client: ClusterClient;
    namespace: string;
    onFailure: ReportHandlerFailure;
    log: Log;
    signal: AbortSignal;
  },
  startAll: (start: StartInformer) => T,
): StartedInformers<T> {
  const { log } = options;
  /** The informers that readiness waits for. */
  const all: Pick<Informer<KubernetesObject, never>, "synced" | "done">[] = [];
  const optional: typeof all = [];
  const watching = new Set<number>();
  const waiters = new Set<() => void>();
  const isReady = () => watching.size === all.length;

  const start: StartInformer = ({ isOptional = false, ...given }) => {
    if (isOptional) {
      const informer = startInformer({ ...options, ...given });
      optional.push(informer);
      return informer;
    }
    const place = all.length;
    const informer = startInformer({
      ...options,
      ...given,
      onState({ kind }) {
        if (kind !== "watching") watching.delete(place);
        else if (watching.add(place).size === all.length) for (const resolve of waiters) resolve();
      },
    });
    all.push(informer);
    return informer;
  };
  const informers = startAll(start);
  const synced = Promise.all(all.map((informer) => informer.synced)).then(() => undefined);
  // An informer that can never sync also rejects `done`.
  synced.catch(() => log.debug({}, "stopped before the caches were synced"));

  async function untilReady(given: AbortSignal): Promise<void> {
    if (isReady() || given.aborted) return;
    const ready = createDeferred<void>();
    waiters.add(ready.resolve);
    const ignoreAbort = onAbort(given, ready.resolve);
    await ready.promise;
    ignoreAbort();
    waiters.delete(ready.resolve);
  }

  const done = Promise.all([...all, ...optional].map((informer) => informer.done)).then(() => undefined);
  return { informers, synced, done, isReady, untilReady };
}

/** Removes annotations: `kubectl apply` stores a copy of a Secret's values in one. */
export function withoutAnnotations({ metadata: { annotations: _, ...metadata } }: KubernetesObject): KubernetesObject {
  return { metadata };
}
