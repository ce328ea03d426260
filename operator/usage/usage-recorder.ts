import { randomBytes } from "node:crypto";
import type { Claim } from "../../crds/claim.ts";
import { createBackoff } from "../../crds/client/backoff.ts";
import { type Clock, steadyClock, systemClock } from "../../crds/client/clock.ts";
import type { Log } from "../../crds/log.ts";
import type { StoreCall } from "../../crds/snapshots/snapshot-store.ts";
import { HOUR_MS, hourAt, hourStart, type UsageHour } from "../../crds/usage/usage-hour.ts";
import {
  partsOfId,
  recordsOf,
  type UsageEnd,
  type UsageRecord,
  type UsageSession,
} from "../../crds/usage/usage-record.ts";
import { parseRecord, type UsageStore } from "../../crds/usage/usage-store.ts";
import { createDeferred, type Deferred, orAborted, sleep, TimeLimitError, withTimeLimit } from "../../crds/waits.ts";
import { mergeBatches } from "./merge-batches.ts";
import { isRelease, releasedAt, usageSessionOf } from "./usage-session.ts";

/**
 * Ends of sessions that come within this time are written together. After a batch of one session the time is shorter:
 * a release that comes alone does not wait for the one before it.
 */
const PAUSE_MS = 250;
const PAUSE_EACH_MS = 100;
const WRITE_LIMIT_MS = 20_000;
const READ_LIMIT_MS = 600_000;
/** How long a release waits for a store that fails, as a save waits for the store's helper pod. */
const RELEASE_WAIT_MS = 60_000;
/** How long the replacement of a lost pod waits for its record. */
const REPLACE_WAIT_MS = 5000;
const STOP_WAIT_MS = 5000;
const LONGEST_BACKOFF_MS = 10_000;
/** Sessions whose claims are gone while their records wait for the store: some 50 MB. */
const MOST_BACKLOG = 50_000;
const MOST_LINES = 1000;

/** Whether a claim may forget its session: its end is recorded, or the wait for that is over. */
export interface EndState {
  readonly mayGoOn: boolean;
  readonly requeueAfterMs?: number;
  /**
   * Whether the session may have been recorded as ended before the release, although its pod went on. Then delete no
   * pod: that it runs is all that shows it.
   */
  readonly mayBeginAgain?: boolean;
  /** As {@link UsageRecorder.beginsAgainAt}, up to the release. */
  readonly beginsAgainAt?: number;
}

const GO_ON: EndState = { mayGoOn: true };

/** Records what sessions use. */
export interface UsageRecorder {
  /** Whether sessions are recorded. */
  readonly isOn: boolean;
  /**
   * Records the end of the use of a deleted claim's pod, which is now. Call it again until the claim may go on: it is
   * reconciled when the record is on the disk.
   *
   * @param options.isIdle whether the operator deleted the claim for idleness. @default false
   * @param options.isRunning whether the pod is still in use: no one has deleted it, and it is not lost. @default false
   */
  endRelease(claim: Claim, options?: { readonly isIdle?: boolean; readonly isRunning?: boolean }): EndState;
  /**
   * Records the end of the use of a claim's pod, which is now, before its status forgets the pod. Waits at most 5 s.
   *
   * @throws Error if the recorder is stopped
   */
  endUse(claim: Claim, end: UsageEnd): Promise<void>;
  /**
   * When a new use begins of a pod with which an Active claim goes on although the end of its use is recorded, in
   * milliseconds since the epoch: at that end. Write it as `status.usageSince`. Undefined if the use has not ended, or
   * its record is not on the disk yet; the claim is reconciled when it is.
   */
  beginsAgainAt(claim: Claim): number | undefined;
  /**
   * Records whole hours of the running sessions, up to that hour.
   *
   * @param list returns all claims, from the API server
   */
  recordHours(hour: UsageHour, options: { list: () => Promise<readonly Claim[]>; signal: AbortSignal }): Promise<void>;
  /** Merges the batches of an hour in which nothing is recorded any more. */
  mergeBatches(hour: UsageHour, signal: AbortSignal): Promise<void>;
  /** Deletes the records of all hours before that one, in which nothing is recorded any more. @returns these hours */
  dropBefore(hour: UsageHour, signal: AbortSignal): Promise<readonly UsageHour[]>;
  /** Call this when the claim is gone. */
  forget(claim: Claim): void;
  stop(): Promise<void>;
}

/** Records nothing. */
export const noUsage: UsageRecorder = {
  isOn: false,
  endRelease: () => GO_ON,
  endUse: async () => undefined,
  beginsAgainAt: () => undefined,
  recordHours: async () => undefined,
  mergeBatches: async () => undefined,
  dropBefore: async () => [],
  forget: () => undefined,
  stop: async () => undefined,
};

/** A session whose end is recorded. */
interface Recorded {
  readonly id: string;
  /** In milliseconds since the epoch. */
  readonly to: number;
  readonly end: string;
  readonly isRecorded: true;
}

/** A session whose end this process records. */
interface Ended {
  readonly id: string;
  readonly session: UsageSession;
  readonly claim: Claim;
  readonly to: number;
  readonly end: UsageEnd;
  /** The first hour to record; undefined until it is known up to when hours are recorded. */
  first: UsageHour | undefined;
  /** By the steady clock. */
  readonly since: number;
  readonly recorded: Deferred<void>;
  isRecorded: boolean;
  /** Whether its claim does not wait for it any more. */
  isAlone: boolean;
}

export interface UsageRecorderOptions {
  readonly store: UsageStore;
  /** Whether there is a store. Without one, nothing is recorded. */
  readonly mayHaveStore: () => Promise<boolean>;
  /** The claims that the cache shows. */
  readonly claims: () => Iterable<Claim>;
  /** Called when the end of a claim's session is recorded. */
  readonly onRecorded: (claim: Claim) => void;
  /** How long a release waits at most, in milliseconds, if too many records wait already. */
  readonly retryLimitMs: number;
  /** The API server's time, in milliseconds since the epoch. */
  readonly serverNow: () => number;
  readonly count: (result: "written" | "lost", records: number) => void;
  readonly log: Log;
  readonly clock?: Clock | undefined;
  readonly steady?: Clock | undefined;
}

/**
 * Writes the records of one leader's term (docs/decisions/usage.md#each-session-counts-exactly-once-by-its-id). Ends of
 * sessions are written in batches, at most ten a second, and four under load.
 */
export function createUsageRecorder(options: UsageRecorderOptions): UsageRecorder {
  const { store, log, clock = systemClock, steady = steadyClock } = options;
  const term = randomBytes(8).toString("hex");
  const stopping = new AbortController();
  const { signal: stopped } = stopping;
  /** The last ended session of each claim, by the claim's uid. */
  const ends = new Map<string, Ended | Recorded>();
  const queue = new Set<Ended>();
  let batches = 0;
  let isFailing = false;
  let writing: Promise<void> | undefined;
  /** Up to when hours of running sessions are recorded. */
  let until: UsageHour | undefined;
  let reading: Promise<void> | undefined;

  /** @returns the session that is being recorded; undefined if there is none, or its end is recorded */
  function add(claim: Claim, { to, end }: { to: number; end: UsageEnd }): Ended | undefined {
    const session = usageSessionOf(claim);
    if (session === undefined) return undefined;
    const { id } = session;
    const uid = claim.metadata.uid ?? "";
    const known = ends.get(uid);
    if (known?.id === id) return "session" in known && !known.isRecorded ? known : undefined;
    const ended: Ended = {
      ...{ id, session, claim, to, end, first: until, since: steady.now() },
      ...{ recorded: createDeferred<void>(), isRecorded: false, isAlone: false },
    };
    ends.set(uid, ended);
    queue.add(ended);
    pump();
    return ended;
  }

  function pump(): void {
    if (writing !== undefined || stopped.aborted) return;
    writing = writeAll()
      .catch((error: unknown) => {
        if (!stopped.aborted) log.error({ error }, "usage recorder failed");
      })
      .finally(() => {
        writing = undefined;
        if (queue.size > 0) pump();
      });
  }

  async function writeAll(): Promise<void> {
    const backoff = createBackoff({ initialMs: 500, maxMs: LONGEST_BACKOFF_MS });
    while (queue.size > 0) {
      const began = steady.now();
      let pauseMs: number;
      try {
        pauseMs = Math.min(PAUSE_MS, PAUSE_EACH_MS * (await writeSome()));
        if (isFailing) log.info({ waiting: queue.size }, "usage records are written again");
        isFailing = false;
        backoff.reset();
      } catch (error) {
        stopped.throwIfAborted();
        if (!isFailing) log.warn({ error, waiting: queue.size }, "cannot write usage records, trying again");
        isFailing = true;
        await sleep(backoff.next(), { clock: steady, signal: stopped });
        continue;
      }
      const leftMs = began + pauseMs - steady.now();
      if (leftMs > 0) await sleep(leftMs, { clock: steady, signal: stopped });
    }
  }

  /** @returns the number of sessions */
  async function writeSome(): Promise<number> {
    if (!(await options.mayHaveStore())) {
      for (const ended of [...queue]) settle(ended);
      return 0;
    }
    await ready();
    const some = [...queue].slice(0, MOST_LINES);
    const records = some.flatMap(({ session, first, to, end }) => [
      ...recordsOf(session, { first: first ?? hourAt(session.since), to, end }),
    ]);
    await append(records, callOf(stopped));
    for (const ended of some) settle(ended);
    return some.length;
  }

  function settle(ended: Ended): void {
    queue.delete(ended);
    ended.isRecorded = true;
    ended.recorded.resolve();
    if (!ended.isAlone) options.onRecorded(ended.claim);
  }

  async function append(records: readonly UsageRecord[], call: StoreCall): Promise<void> {
    const byHour = new Map<UsageHour, UsageRecord[]>();
    for (const record of records) {
      const { hour } = partsOfId(record);
      const some = byHour.get(hour);
      if (some === undefined) byHour.set(hour, [record]);
      else some.push(record);
    }
    for (const [hour, some] of byHour) {
      for (let at = 0; at < some.length; at += MOST_LINES) {
        const lines = some.slice(at, at + MOST_LINES).map((record) => `${JSON.stringify(record)}\n`);
        batches += 1;
        await store.append({ hour, name: [term, batches].join("-"), lines: lines.join("") }, call);
        options.count("written", lines.length);
      }
    }
  }

  /** Reads what leaders before this one have recorded. */
  function ready(): Promise<void> {
    reading ??= read().catch((error: unknown) => {
      reading = undefined;
      throw error;
    });
    return orAborted(reading, stopped);
  }

  async function read(): Promise<void> {
    const stored = await store.recordedUntil(callOf(stopped));
    if (stored === undefined) {
      const open = [...options.claims()].flatMap((claim) => usageSessionOf(claim)?.since ?? []);
      const waiting = [...queue].map(({ session }) => session.since);
      const first = hourAt([...open, ...waiting].reduce((a, b) => Math.min(a, b), clock.now()));
      await store.setRecordedUntil(first, callOf(stopped));
      until = first;
    } else {
      await readEnds(hourAt(hourStart(stored) - HOUR_MS));
      until = stored;
    }
    for (const ended of queue) ended.first ??= until;
  }

  /**
   * Finds sessions whose end a leader recorded that was killed before it wrote the claim's status. They would end
   * again, at another time.
   */
  async function readEnds(from: UsageHour): Promise<void> {
    const present = new Map([...options.claims()].map((claim) => [claim.metadata.uid ?? "", claim]));
    const call = { signal: stopped, timeoutMs: READ_LIMIT_MS };
    for await (const lines of store.read({ from, to: hourAt(clock.now() + 2 * HOUR_MS) }, call)) {
      for (const line of lines) {
        const record = line.includes('"end":') ? parseRecord(line) : undefined;
        if (record?.kind !== "session" || record.end === undefined) continue;
        const { session: id } = partsOfId(record);
        const uid = id.split(".")[0] ?? "";
        const own = ends.get(uid);
        const to = Date.parse(record.to);
        const { end } = record;
        const recorded: Recorded = { id, to, end, isRecorded: true };
        if (own !== undefined && "session" in own) {
          if (own.id !== id || own.isRecorded) continue;
          ends.set(uid, recorded);
          settle(own);
        } else if (present.has(uid) && !(own !== undefined && own.to > to)) ends.set(uid, recorded);
      }
    }
    // Their claims may go on with the pod.
    for (const [uid, claim] of present) {
      const end = ends.get(uid);
      if (end !== undefined && end.id === usageSessionOf(claim)?.id) options.onRecorded(claim);
    }
  }

  function beginsAgainAt(claim: Claim): number | undefined {
    const session = usageSessionOf(claim);
    const own = ends.get(claim.metadata.uid ?? "");
    if (session === undefined || own?.id !== session.id) return undefined;
    if ("session" in own && !own.isRecorded) {
      own.isAlone = false;
      return undefined;
    }
    // Hours before `until` are not recorded again. The same start would be the same id.
    return Math.max(own.to, session.since + 1, until === undefined ? 0 : hourStart(until));
  }

  return {
    isOn: true,

    endRelease(claim, { isIdle, isRunning = false } = {}) {
      const release = releasedAt(claim, { now: clock.now(), serverNow: options.serverNow(), isIdle });
      const known = ends.get(claim.metadata.uid ?? "");
      const endedBefore = isRunning && known !== undefined && !isRelease(known.end);
      const again = endedBefore ? beginsAgainAt(claim) : undefined;
      if (again !== undefined && again < release.to) return { mayGoOn: false, beginsAgainAt: again };
      const ended = add(claim, release);
      if (ended === undefined || ended.isAlone) return GO_ON;
      const waitedMs = steady.now() - ended.since;
      // Before `until` is read, the end may be one that an earlier leader has recorded.
      const mayBeginAgain = isRunning && (until === undefined || !isRelease(ended.end));
      const requeueAfterMs = RELEASE_WAIT_MS - waitedMs;
      if (requeueAfterMs > 0) return { mayGoOn: false, requeueAfterMs, ...(mayBeginAgain && { mayBeginAgain }) };
      if (queue.size <= MOST_BACKLOG) {
        ended.isAlone = true;
        return GO_ON;
      }
      if (waitedMs < options.retryLimitMs) return { mayGoOn: false, requeueAfterMs: LONGEST_BACKOFF_MS };
      queue.delete(ended);
      options.count("lost", 1);
      log.error({ claim: claim.metadata.name, session: ended.id }, "usage record lost, the store fails");
      return GO_ON;
    },

    async endUse(claim, end) {
      const ended = add(claim, { to: clock.now(), end });
      if (ended === undefined) return;
      // The tenant waits for another pod. If the store fails, the record waits in memory.
      const limit = { what: "a usage record", ms: isFailing ? 0 : REPLACE_WAIT_MS, clock: steady, signal: stopped };
      await withTimeLimit(limit, (signal) => orAborted(ended.recorded.promise, signal)).catch((error: unknown) => {
        if (!(error instanceof TimeLimitError)) throw error;
        ended.isAlone = true;
      });
    },

    beginsAgainAt,

    async recordHours(hour, { list, signal }) {
      if (!(await options.mayHaveStore())) return;
      await orAborted(ready(), signal);
      if (until === undefined || until >= hour) return;
      let records: UsageRecord[] = [];
      for (const claim of await list()) {
        const session = usageSessionOf(claim);
        if (session === undefined) continue;
        const own = ends.get(claim.metadata.uid ?? "");
        const deletedAt = Date.parse(claim.metadata.deletionTimestamp ?? "");
        const endsAt = own?.id === session.id ? own.to : deletedAt;
        const to = Math.min(hourStart(hour), Number.isNaN(endsAt) ? Infinity : hourStart(hourAt(endsAt)));
        if (to <= Math.max(session.since, hourStart(until))) continue;
        records.push(...recordsOf(session, { first: until, to }));
        if (records.length < MOST_LINES) continue;
        await append(records, callOf(signal));
        records = [];
      }
      await append(records, callOf(signal));
      await store.setRecordedUntil(hour, callOf(signal));
      until = hour;
    },

    async mergeBatches(hour, signal) {
      if (!(await options.mayHaveStore())) return;
      await mergeBatches(hour, { store, call: { signal, timeoutMs: READ_LIMIT_MS } });
    },

    async dropBefore(hour, signal) {
      if (!(await options.mayHaveStore())) return [];
      const recorded = await Promise.all([
        store.recordedUntil(callOf(signal)),
        store.mark("snapshots", callOf(signal)),
      ]);
      const limit = [hour, ...recorded.map((until) => until ?? hour)].reduce((a, b) => (a < b ? a : b));
      const old = (await store.hours(callOf(signal))).filter((one) => one < limit);
      for (const one of old)
        await store.drop({ hour: one, names: await store.batches(one, callOf(signal)) }, callOf(signal));
      return old;
    },

    forget(claim) {
      // Its finalizer was removed by hand.
      const ended = add(claim, releasedAt(claim, { now: clock.now(), serverNow: options.serverNow() }));
      if (ended !== undefined) ended.isAlone = true;
      ends.delete(claim.metadata.uid ?? "");
    },

    async stop() {
      stopping.abort(new Error("the operator stops"));
      await writing?.catch(() => undefined);
      // The next leader finds the others, with their claims.
      const alone = [...queue].filter(({ isAlone }) => isAlone);
      if (alone.length === 0 || until === undefined) return;
      const records = alone.flatMap(({ session, first, to, end }) => [
        ...recordsOf(session, { first: first ?? hourAt(session.since), to, end }),
      ]);
      try {
        await append(records, { signal: AbortSignal.timeout(STOP_WAIT_MS), timeoutMs: STOP_WAIT_MS });
      } catch (error) {
        options.count("lost", alone.length);
        log.error({ error, sessions: alone.length }, "usage records lost, the store failed until the operator stopped");
      }
    },
  };

  function callOf(signal: AbortSignal): StoreCall {
    return { signal, timeoutMs: WRITE_LIMIT_MS };
  }
}
