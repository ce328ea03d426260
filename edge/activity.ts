import { isConflict, isNotFound } from "../crds/client/api-error.ts";
import { pods } from "../crds/client/built-in-resources.ts";
import type { Clock } from "../crds/client/clock.ts";
import type { Cluster, MergePatch } from "../crds/client/cluster.ts";
import { clearManagedFields } from "../crds/client/managed-fields.ts";
import { describeError } from "../crds/describe-error.ts";
import type { Pod } from "../crds/kubernetes.ts";
import { annotation, IN_FLIGHT_PREFIX } from "../crds/labels.ts";
import type { Log } from "../crds/log.ts";
import { createActivityPace } from "./activity-pace.ts";
import { isClaimed } from "./cluster/slim-pod.ts";
import type { ClusterCache } from "./cluster/watch-cluster.ts";

/** Records which pods are in use, so that the operator releases only idle ones. */
export interface Activity {
  /** Records a use of the pod, which is written in the background. */
  touch(podName: string): void;
  /** Counts the work as use of the pod for as long as it lasts. */
  during<T>(podName: string, work: () => Promise<T>): Promise<T>;
  /**
   * As {@link during}, and says on the pod until when this process may have such work in flight, so that a release waits
   * for it: at once, and anew with each record of the use.
   */
  duringInFlight<T>(podName: string, work: () => Promise<T>): Promise<T>;
  /**
   * Since when the pod says without a gap that this process may have work in flight there, which is written first where
   * it does not; undefined where that fails, or no such work is there.
   */
  announceInFlight(podName: string): Promise<number | undefined>;
  /** Takes back what was said of work in flight, where it still counts, once no such work is left. */
  clearInFlight(podName: string): Promise<void>;
  /** Writes the uses that are not written yet, takes back what was said of work in flight, and ends the timers. */
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
  /** When its timer is due, in the clock's milliseconds. */
  dueAt: number;
  writing: Promise<void> | undefined;
  /** Whether it is written without a pause. */
  isUrgent: boolean;
  /** Whether the last write of it failed. */
  hasFailed: boolean;
  /** The least time between two writes. */
  interval: number;
}

/** What a pod says of this process's work in flight. */
interface InFlight {
  readonly name: string;
  readonly uid: string | undefined;
  count: number;
  /** Whether it is taken back once the count is 0. */
  isEnding: boolean;
  until: number;
  /** When the first of the writes was through of which none came after the end of the one before. */
  since: number;
  cancelForget: (() => void) | undefined;
}

const MAX_INTERVAL_MS = 30_000;
/** Work in flight is announced for so many intervals, so that one record may come late. */
const IN_FLIGHT_INTERVALS = 2;
/** And for so long after the next record: longer than a release waits. */
const IN_FLIGHT_MIN_MS = 20_000;
/** So long before its end an announcement is not relied on, since a release may begin, and clocks differ. */
const IN_FLIGHT_MARGIN_MS = 15_000;
/** At a stop, of thousands of pods maybe. */
const TAKEN_BACK_AT_ONCE = 16;
/** For pods without an idle timeout, whose last use is only shown to people. */
const UNTIMED_INTERVAL_MS = 60_000;

/**
 * Writes the time of a pod's last use as an annotation: the first use at once, later ones together, once an interval of
 * a tenth of the pod's idle time, at most 30 s. Where it has none the interval grows from 5 s to a minute while the pod
 * is in use ({@link createActivityPace}). The last use is always written, and a busy pod costs few writes.
 */
export function createActivity(options: {
  cluster: Cluster;
  namespace: string;
  cache: Pick<ClusterCache, "pods">;
  clock: Clock;
  log: Log;
  /** Unique to this process. */
  instance: string;
}): Activity {
  const { cluster, namespace, cache, clock, log } = options;
  const inFlightKey = `${IN_FLIGHT_PREFIX}${options.instance}`;
  const entries = new Map<string, Entry>();
  const pace = createActivityPace(clock, UNTIMED_INTERVAL_MS);
  const inFlight = new Map<string, InFlight>();
  let closed = false;

  function touch(podName: string): void {
    record(podName, { isUrgent: false });
  }

  function record(podName: string, { isUrgent }: { isUrgent: boolean }): void {
    const pod = cached(podName);
    const interval = pod === undefined ? undefined : intervalMs(pod);
    if (pod === undefined || interval === undefined) return;
    const key = pod.metadata.uid ?? podName;
    const entry = entries.get(key) ?? {
      name: podName,
      uid: pod.metadata.uid,
      lastUsed: 0,
      written: lastWritten(pod),
      cancel: undefined,
      dueAt: Number.POSITIVE_INFINITY,
      writing: undefined,
      isUrgent: false,
      hasFailed: false,
      interval,
    };
    entries.set(key, entry);
    entry.interval = interval;
    entry.lastUsed = clock.now();
    entry.isUrgent ||= isUrgent;
    if (entry.writing !== undefined) return;
    if (entry.isUrgent) {
      entry.cancel?.();
      entry.cancel = undefined;
      entry.writing = write(key, entry);
    } else schedule(key, entry);
  }

  function schedule(key: string, entry: Entry): void {
    const { interval, lastUsed, written } = entry;
    const spacing = interval === UNTIMED_INTERVAL_MS ? pace.spacingMs(key, lastUsed - written) : interval;
    // What the pod shows may be by a clock that is ahead.
    const delay = Math.min(written - clock.now(), 0) + spacing;
    if (entry.cancel !== undefined && entry.dueAt <= clock.now() + delay) return;
    entry.cancel?.();
    entry.cancel = undefined;
    if (delay <= 0 || closed) entry.writing = write(key, entry);
    else writeAfter(delay, key, entry);
  }

  function writeAfter(delayMs: number, key: string, entry: Entry): void {
    entry.dueAt = clock.now() + delayMs;
    entry.cancel = clock.after(delayMs, () => {
      entry.cancel = undefined;
      entry.writing = write(key, entry);
    });
  }

  async function write(key: string, entry: Entry): Promise<void> {
    const { name, uid, lastUsed, interval } = entry;
    entry.written = lastUsed;
    entry.isUrgent = false;
    if (interval === UNTIMED_INTERVAL_MS) pace.wrote(key);
    // After an outage, or where this process was suspended, others may have used the pod since and no watch shows it.
    const isLate = entry.hasFailed || clock.now() - lastUsed > interval;
    try {
      if (isLate) await writeLate(key, entry);
      else await patch(key, entry, cached(name));
      entry.hasFailed = false;
    } catch (error) {
      // The pod is gone, or another has its name: there is nothing to record. To a late write a conflict is a change.
      if (!isNotFound(error) && (isLate || !isConflict(error))) {
        log.warn({ pod: name, error: describeError(error) }, "activity could not be written, it is tried again");
        entry.hasFailed = true;
        // Written again after an interval.
        if (!closed && isCached(name, uid)) writeAfter(interval, key, entry);
      }
    }
    entry.writing = undefined;
    if (entry.cancel !== undefined) return;
    if (entry.isUrgent && isCached(name, uid)) entry.writing = write(key, entry);
    else if (entry.lastUsed > lastUsed && isCached(name, uid)) schedule(key, entry);
    else entries.delete(key);
  }

  /** By what the API server says of the pod, and only where it is still so. */
  async function writeLate(key: string, entry: Entry): Promise<void> {
    const present = await cluster(pods).named(entry.name).get({ refresh: true });
    if (present.metadata.uid !== entry.uid) return;
    await patch(key, entry, present, present.metadata.resourceVersion);
  }

  /**
   * Writes the last use and what is in flight. What the pod shows is by the clock of another, which may be ahead, and
   * the operator tells a use by its being another than before: so a later one is moved on, but not by a late write.
   */
  async function patch(key: string, entry: Entry, shown: Pod | undefined, resourceVersion?: string): Promise<void> {
    const { name, uid, written, interval } = entry;
    const annotations: Record<string, string> = {};
    const shownUse = lastActivity(shown);
    const isPassed = shownUse > written;
    if (!isPassed || resourceVersion === undefined)
      annotations[annotation.lastActivity] = new Date(isPassed ? shownUse + 1 : written).toISOString();
    const work = inFlight.get(key);
    const until = clock.now() + Math.max(interval * IN_FLIGHT_INTERVALS, interval + IN_FLIGHT_MIN_MS);
    const isWorking = work !== undefined && work.count > 0;
    if (isWorking) annotations[inFlightKey] = new Date(until).toISOString();
    if (Object.keys(annotations).length === 0) return;
    const precondition = resourceVersion === undefined ? {} : { resourceVersion };
    await patchPod({ name, uid }, { ...precondition, annotations });
    if (!isWorking) return;
    if (!isAnnounced(work)) work.since = clock.now();
    work.until = until;
  }

  /** By the status, which takes annotations with it and no spec: the accounts of the edge may patch nothing else of pods. */
  async function patchPod(
    { name, uid = "" }: Pick<Entry, "name" | "uid">,
    changes: MergePatch<Pod["metadata"]>,
  ): Promise<void> {
    const target = { precondition: "uid", subresource: "status" } as const;
    await cluster(pods)
      .of({ metadata: { namespace, name, uid } })
      .patch({ metadata: { ...clearManagedFields, ...changes } }, target);
  }

  function isAnnounced({ until }: InFlight): boolean {
    return until - IN_FLIGHT_MARGIN_MS > clock.now();
  }

  function forget(key: string, said: InFlight): void {
    if (said.count === 0 && inFlight.get(key) === said) inFlight.delete(key);
  }

  async function takeBack(key: string): Promise<void> {
    const said = inFlight.get(key);
    if (said === undefined) return;
    const { name, uid, cancelForget } = said;
    cancelForget?.();
    inFlight.delete(key);
    await entries.get(key)?.writing;
    if (said.until <= clock.now()) return;
    try {
      await patchPod({ name, uid }, { annotations: { [inFlightKey]: null } });
    } catch (error) {
      // The release waits for the time that was said.
      if (!isNotFound(error) && !isConflict(error))
        log.warn({ pod: name, error: describeError(error) }, "the end of requests in flight could not be written");
    }
  }

  function cached(name: string): Pod | undefined {
    return cache.pods.store.get({ namespace, name });
  }

  function isCached(name: string, uid: string | undefined): boolean {
    return cached(name)?.metadata.uid === uid;
  }

  async function during<T>(podName: string, work: () => Promise<T>): Promise<T> {
    let cancel: () => void = () => undefined;
    const renew = (): void => {
      touch(podName);
      const pod = cached(podName);
      cancel = clock.after((pod && intervalMs(pod)) ?? MAX_INTERVAL_MS, renew);
    };
    renew();
    try {
      return await work();
    } finally {
      cancel();
      touch(podName);
    }
  }

  return {
    touch,
    during,
    async duringInFlight(podName, work) {
      const pod = cached(podName);
      const key = pod?.metadata.uid ?? podName;
      const said = inFlight.get(key) ?? {
        name: podName,
        uid: pod?.metadata.uid,
        count: 0,
        isEnding: false,
        until: 0,
        since: 0,
        cancelForget: undefined,
      };
      inFlight.set(key, said);
      said.count += 1;
      said.cancelForget?.();
      // What was said of work before may end before this does.
      const interval = (pod && intervalMs(pod)) ?? MAX_INTERVAL_MS;
      if (said.until < clock.now() + interval) record(podName, { isUrgent: true });
      try {
        return await during(podName, work);
      } finally {
        said.count -= 1;
        if (said.count === 0 && !closed && inFlight.get(key) === said) {
          if (said.isEnding) void takeBack(key);
          else said.cancelForget = clock.after(Math.max(0, said.until - clock.now()), () => forget(key, said));
        }
      }
    },
    async announceInFlight(podName) {
      const key = cached(podName)?.metadata.uid ?? podName;
      const said = inFlight.get(key);
      if (said === undefined) return undefined;
      // The write that is under way may be one without it, or fail.
      for (let tries = 0; tries < 2 && !isAnnounced(said); tries += 1) {
        if (entries.get(key)?.writing === undefined) record(podName, { isUrgent: true });
        await entries.get(key)?.writing;
      }
      return isAnnounced(said) && inFlight.get(key) === said ? said.since : undefined;
    },
    async clearInFlight(podName) {
      const key = cached(podName)?.metadata.uid ?? podName;
      const said = inFlight.get(key);
      if (said !== undefined && said.count > 0) said.isEnding = true;
      else await takeBack(key);
    },
    async close() {
      closed = true;
      for (const said of inFlight.values()) {
        said.cancelForget?.();
        // Where work goes on, it ends with this process.
        said.count = 0;
      }
      for (const [key, entry] of entries) {
        if (entry.cancel === undefined) continue;
        entry.cancel();
        entry.cancel = undefined;
        entry.writing = write(key, entry);
      }
      await Promise.all([...entries.values()].map(({ writing }) => writing));
      const left = [...inFlight.keys()].values();
      const takeAllBack = async (): Promise<void> => {
        for (const key of left) await takeBack(key);
      };
      await Promise.all(Array.from({ length: TAKEN_BACK_AT_ONCE }, takeAllBack));
    },
  };
}

/** The least time between two writes of a pod; undefined for a pod without a claim. */
function intervalMs(pod: Pod): number | undefined {
  if (!isClaimed(pod)) return undefined;
  const timeoutSeconds = Number(pod.metadata.annotations?.[annotation.idleTimeoutSeconds]);
  return timeoutSeconds > 0 ? Math.min(timeoutSeconds * 100, MAX_INTERVAL_MS) : UNTIMED_INTERVAL_MS;
}

/** The last use that a pod shows; NaN where it shows none. */
function lastActivity(pod: Pod | undefined): number {
  return Date.parse(pod?.metadata.annotations?.[annotation.lastActivity] ?? "");
}

/** The last use that the operator knows of. */
function lastWritten({ metadata }: Pod): number {
  const times = [annotation.lastActivity, annotation.claimedAt].map((key) =>
    Date.parse(metadata.annotations?.[key] ?? ""),
  );
  return Math.max(...times.filter((time) => !Number.isNaN(time)));
}
