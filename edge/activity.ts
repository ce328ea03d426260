import { isConflict, isNotFound } from "../crds/client/api-error.ts";
import { pods } from "../crds/client/built-in-resources.ts";
import type { Clock } from "../crds/client/clock.ts";
import type { ClusterClient } from "../crds/client/cluster-client.ts";
import { clearManagedFields } from "../crds/client/managed-fields.ts";
import { describeError } from "../crds/describe-error.ts";
import type { Pod } from "../crds/kubernetes.ts";
import { annotation } from "../crds/labels.ts";
import type { Log } from "../crds/log.ts";
import { isClaimed } from "./cluster/slim-pod.ts";
import type { ClusterCache } from "./cluster/watch-cluster.ts";

/** Records which pods are in use, so that the operator releases only idle ones. */
export interface Activity {
  /** Records a use of the pod, which is written in the background. */
  touch(podName: string): void;
  /** Counts the work as use of the pod for as long as it lasts. */
  during<T>(podName: string, work: () => Promise<T>): Promise<T>;
  /** Writes the uses that are not written yet, and ends the timers. */
  close(): Promise<void>;
}

/** A pod with uses that are not written yet. */
interface Entry {
  readonly name: string;
  readonly uid: string | undefined;
  lastUsed: number;
  /** The use that was last written, or that a write was last tried for. */
  written: number;
  cancel: (() => void) | undefined;
  writing: Promise<void> | undefined;
}

const MAX_INTERVAL_MS = 30_000;
/** For pods without an idle timeout, whose last use is only shown to people. */
const UNTIMED_INTERVAL_MS = 60_000;

/**
 * Writes the time of a pod's last use as an annotation: the first use at once, later ones together, once an interval of
 * a tenth of the pod's idle time, at most 30 s, and of a minute where it has none. The last use is always written, and
 * a busy pod costs few writes.
 */
export function createActivity(options: {
  client: ClusterClient;
  namespace: string;
  cache: Pick<ClusterCache, "pods">;
  clock: Clock;
  log: Log;
}): Activity {
  const { client, namespace, cache, clock, log } = options;
  const entries = new Map<string, Entry>();
  let closed = false;

  function touch(podName: string): void {
    const pod = cache.pods.store.get(`${namespace}/${podName}`);
    const interval = pod === undefined ? undefined : intervalMs(pod);
    if (pod === undefined || interval === undefined) return;
    const key = pod.metadata.uid ?? podName;
    const entry = entries.get(key) ?? {
      name: podName,
      uid: pod.metadata.uid,
      lastUsed: 0,
      written: lastWritten(pod),
      cancel: undefined,
      writing: undefined,
    };
    entries.set(key, entry);
    entry.lastUsed = clock.now();
    if (entry.writing === undefined && entry.cancel === undefined) schedule(key, entry, interval);
  }

  function schedule(key: string, entry: Entry, interval: number): void {
    const delay = entry.written + interval - clock.now();
    if (delay <= 0 || closed) {
      entry.writing = write(key, entry, interval);
      return;
    }
    entry.cancel = clock.after(delay, () => {
      entry.cancel = undefined;
      entry.writing = write(key, entry, interval);
    });
  }

  async function write(key: string, entry: Entry, interval: number): Promise<void> {
    const { name, uid, lastUsed } = entry;
    entry.written = lastUsed;
    const annotations = { [annotation.lastActivity]: new Date(lastUsed).toISOString() };
    try {
      const body = { metadata: { ...clearManagedFields, uid, annotations } };
      cache.pods.put(await client.patch(pods, { namespace, name }, { type: "merge", body }));
    } catch (error) {
      // The pod is gone, or another has its name: there is nothing to record.
      if (!isNotFound(error) && !isConflict(error)) {
        log.warn({ pod: name, error: describeError(error) }, "activity could not be written, it is tried again");
        // Written again after an interval.
        if (!closed && isCached(name, uid)) entry.cancel = clock.after(interval, () => retry(key, entry, interval));
      }
    }
    entry.writing = undefined;
    if (entry.cancel !== undefined) return;
    if (entry.lastUsed > lastUsed && isCached(name, uid)) schedule(key, entry, interval);
    else entries.delete(key);
  }

  function retry(key: string, entry: Entry, interval: number): void {
    entry.cancel = undefined;
    entry.writing = write(key, entry, interval);
  }

  function isCached(name: string, uid: string | undefined): boolean {
    return cache.pods.store.get(`${namespace}/${name}`)?.metadata.uid === uid;
  }

  return {
    touch,
    async during(podName, work) {
      let cancel: () => void = () => undefined;
      const renew = (): void => {
        touch(podName);
        const pod = cache.pods.store.get(`${namespace}/${podName}`);
        cancel = clock.after((pod && intervalMs(pod)) ?? MAX_INTERVAL_MS, renew);
      };
      renew();
      try {
        return await work();
      } finally {
        cancel();
        touch(podName);
      }
    },
    async close() {
      closed = true;
      for (const [key, entry] of entries) {
        if (entry.cancel === undefined) continue;
        entry.cancel();
        entry.cancel = undefined;
        entry.writing = write(key, entry, 0);
      }
      await Promise.all([...entries.values()].map(({ writing }) => writing));
    },
  };
}

/** The least time between two writes of a pod; undefined for a pod without a claim. */
function intervalMs(pod: Pod): number | undefined {
  if (!isClaimed(pod)) return undefined;
  const timeoutSeconds = Number(pod.metadata.annotations?.[annotation.idleTimeoutSeconds]);
  return timeoutSeconds > 0 ? Math.min(timeoutSeconds * 100, MAX_INTERVAL_MS) : UNTIMED_INTERVAL_MS;
}

/** The last use that the operator knows of. */
function lastWritten({ metadata }: Pod): number {
  const times = [annotation.lastActivity, annotation.claimedAt].map((key) =>
    Date.parse(metadata.annotations?.[key] ?? ""),
  );
  return Math.max(...times.filter((time) => !Number.isNaN(time)));
}
