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
  /** Records a use of the pod; the write happens in the background. */
  touch(podName: string): void;
  /** Counts the pod as in use for as long as the work lasts. */
  during<T>(podName: string, work: () => Promise<T>): Promise<T>;
  /**
   * As {@link during}, and announces on the pod until when this process may have work in flight, so that a release
   * waits for it. Announces at once, and again with each write of the use.
   */
  duringInFlight<T>(podName: string, work: () => Promise<T>): Promise<T>;
  /**
   * Since when the pod has announced without a gap that this process may have work in flight. Writes the announcement
   * first if it is missing; undefined if that fails, or if there is no such work.
   */
  announceInFlight(podName: string): Promise<number | undefined>;
  /** Removes the announcement of work in flight, if it is still valid, once no such work is left. */
  clearInFlight(podName: string): Promise<void>;
  /** Writes the pending uses, removes the announcements of work in flight, and stops the timers. */
  close(): Promise<void>;
}

/** A pod with pending uses. */
interface Entry {
  readonly name: string;
  readonly uid: string | undefined;
  lastUsed: number;
  /** The use that was last written, or last attempted. */
  written: number;
  cancel: (() => void) | undefined;
  /** When its timer fires, in the clock's milliseconds. */
  dueAt: number;
  writing: Promise<void> | undefined;
  /** Whether the write skips the interval. */
  isUrgent: boolean;
  /** Whether its last write failed. */
  hasFailed: boolean;
  /** The minimum time between two writes. */
  interval: number;
}

/** The announcement of this process's work in flight on a pod. */
interface InFlight {
  readonly name: string;
  readonly uid: string | undefined;
  count: number;
  /** Whether the announcement is removed once the count is 0. */
  isEnding: boolean;
  until: number;
  /**
   * When the announcement began: the first write of a series in which each write arrived before the previous
   * announcement ended.
   */
  since: number;
  cancelForget: (() => void) | undefined;
}

const MAX_INTERVAL_MS = 30_000;
/** An announcement lasts this many intervals, so that one late write does not end it. */
const IN_FLIGHT_INTERVALS = 2;
/** An announcement outlasts the next write by at least this: longer than a release waits. */
const IN_FLIGHT_MIN_MS = 20_000;
/** An announcement is not relied on this long before its end: a release may begin, and clocks differ. */
const IN_FLIGHT_MARGIN_MS = 15_000;
/** At a stop there may be thousands of pods. */
const TAKEN_BACK_AT_ONCE = 16;
/** Pods without an idle timeout show their last use only to people. */
const UNTIMED_INTERVAL_MS = 60_000;

/**
 * Writes the time of a pod's last use as an annotation: the first use at once, later ones combined, once per interval.
 * The interval is a tenth of the pod's idle timeout, at most 30 s; without a timeout it grows from 5 s to a minute
 * while the pod is in use ({@link createActivityPace}). The last use is always written, and a busy pod costs few
 * writes.
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
    // The time on the pod may come from a clock that is ahead.
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
      if (isCached(entry.name, entry.uid)) entry.writing = write(key, entry);
      else entries.delete(key);
    });
  }

  async function write(key: string, entry: Entry): Promise<void> {
    const { name, uid, lastUsed, interval } = entry;
    entry.written = lastUsed;
    entry.isUrgent = false;
    if (interval === UNTIMED_INTERVAL_MS) pace.wrote(key);
    // After an outage, or a suspension of this process, others may have used the pod and the watch may not show it yet.
    const isLate = entry.hasFailed || clock.now() - lastUsed > interval;
    try {
      if (isLate) await writeLate(key, entry);
      else await patch(key, entry, cached(name));
      entry.hasFailed = false;
    } catch (error) {
      // The pod is gone, or another pod has its name: nothing to record. For a late write a conflict is a newer use.
      if (!isNotFound(error) && (isLate || !isConflict(error))) {
        log.warn({ pod: name, error: describeError(error) }, "activity could not be written, it is tried again");
        entry.hasFailed = true;
        // Write again after the interval.
        if (!closed && isCached(name, uid)) writeAfter(interval, key, entry);
      }
    }
    entry.writing = undefined;
    if (entry.cancel !== undefined) return;
    if (entry.isUrgent && isCached(name, uid)) entry.writing = write(key, entry);
    else if (entry.lastUsed > lastUsed && isCached(name, uid)) schedule(key, entry);
    else entries.delete(key);
  }

  /** Reads the pod from the API server first, and writes only if it is unchanged since. */
  async function writeLate(key: string, entry: Entry): Promise<void> {
    const present = await cluster(pods).named(entry.name).get({ refresh: true });
    if (present.metadata.uid !== entry.uid) return;
    await patch(key, entry, present, present.metadata.resourceVersion);
  }

  /**
   * Writes the last use and the work in flight. The time on the pod may come from another clock that is ahead, and the
   * operator detects a use by a changed value: so a later use moves the value on, but a late write does not.
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
      // The release waits until the announced time.
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
      // An earlier announcement may end before this one.
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
      // A write in progress may not include this work, or may fail.
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
        // Work that continues now ends with this process.
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

/** The minimum time between two writes for a pod; undefined for a pod without a claim. */
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
