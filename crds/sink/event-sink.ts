import { Counter, Gauge, type Registry } from "prom-client";
import { createBackoff } from "../client/backoff.ts";
import { type Clock, steadyClock } from "../client/clock.ts";
import type { Log } from "../log.ts";
import { createDeferred, createPause, type Deferred, orAborted, withTimeLimit } from "../waits.ts";
import { openBacklog, type Segment } from "./backlog.ts";
import { cloudEventOf, markOf, type OutgoingEvent, type OutgoingType, readEvent } from "./outgoing-event.ts";
import { type SinkError, sendBatch, sinkErrorOf } from "./send-batch.ts";
import type { SinkConfig } from "./sink-config.ts";

/** Events that come within this time are sent together, unless there are {@link MOST_OF_SEGMENT} before. */
const PAUSE_MS = 250;
const MOST_OF_SEGMENT = 100;
/** Requests. */
const AT_ONCE = 4;
/** Of events that wait for a disk that does not answer. */
const MOST_WAITING_CHARACTERS = 16 * 1024 * 1024;
/**
 * An event that the sink refuses alone goes after so many times, if the sink has taken others before each: a sink whose
 * settings become wrong refuses all.
 */
const ODD_ROUNDS = 3;
const IDLE_MS = 60_000;
const BACKOFF = { initialMs: 1000, maxMs: 60_000 };
const STOP_WAIT_MS = 5000;

/** Sends events to the sink, each at least once. */
export interface EventSink {
  /** Whether the sink gets such events. */
  wants(type: OutgoingType): boolean;
  /** Takes an event, if it is wanted. Resolves when the event is in a file, which outlasts this process. */
  add(event: OutgoingEvent): Promise<void>;
  /** How many events there was no room for, or could not be read again. */
  lost(): number;
  /** The least `mark` of an event of these types that was added and that the sink does not have; undefined if none. */
  pending(types: readonly OutgoingType[]): string | undefined;
  /** Lets {@link pending} forget events of these types: they are added again. */
  forget(types: readonly OutgoingType[]): void;
  /** Whether so much waits that only events should be added which cannot be added later. */
  isFull(): boolean;
  /** Tries for 5 s to send what waits. What is left stays in the files. */
  close(): Promise<void>;
}

/**
 * Opens a sink, and sends what an earlier process has left in its folder.
 *
 * What the sink does not take is sent again, for as long as it takes. While it takes nothing, all events wait. If it
 * takes others, those that it does not take are sent in halves, and an event goes that it refuses alone.
 *
 * @param options.registry gets the metrics of the sink
 * @throws Error if the folder cannot be written to
 */
export async function openSink(
  config: SinkConfig,
  options: { registry: Registry; log: Log; steady?: Clock | undefined },
): Promise<EventSink> {
  const { log, steady = steadyClock } = options;
  const registers = [options.registry];
  const counter = new Counter({
    name: "tenancy_sink_events_total",
    help: "Events for the sink: sent, refused by it, or lost because too many waited",
    labelNames: ["result"],
    registers,
  });
  new Gauge({
    name: "tenancy_sink_backlog_bytes",
    help: "Bytes of events that wait for the sink",
    registers,
    collect() {
      this.set(backlog.bytes());
    },
  });
  const stopping = new AbortController();
  const pauses = Array.from({ length: AT_ONCE }, () => createPause(steady));
  const backoff = createBackoff(BACKOFF);
  const pending = createPending();
  let waiting: { readonly line: string; readonly written: Deferred<void> }[] = [];
  let waitingCharacters = 0;
  let writing: Promise<void> | undefined;
  let writeFailures = 0;
  let lost = 0;
  let isClosing = false;
  /** Requests that the sink took, and those that it did not take since. */
  let taken = 0;
  let failures = 0;
  /** Of segments that have failed. */
  const failed = new WeakMap<Segment, { readonly taken: number; readonly oddRounds: number }>();
  /** By the steady clock: when the next request may be made, and one with events that have just come. */
  let nextAt = 0;
  let newestAt = 0;

  function lose(events: number, why: string): void {
    lost += events;
    counter.inc({ result: "lost" }, events);
    log.error({ events }, `events for the sink lost: ${why}`);
  }

  const backlog = await openBacklog(config.folder, {
    ...{ most: MOST_OF_SEGMENT, mostBytes: config.mostBytes, steady },
    onLost: (events) => lose(events, "too many wait for it, or cannot be read"),
    onFailure(error) {
      writeFailures += 1;
      if (writeFailures === 1) log.error({ error }, "files of events for the sink fail");
    },
  });

  async function write(): Promise<void> {
    while (waiting.length > 0) {
      const some = waiting;
      waiting = [];
      waitingCharacters = 0;
      const [before, wasEmpty] = [writeFailures, backlog.bytes() === 0];
      await backlog.append(some.map(({ line }) => line));
      if (writeFailures === before) writeFailures = 0;
      for (const { written } of some) written.resolve();
      if (wasEmpty) for (const pause of pauses) pause.end();
    }
    // In the same turn as the check: an event that comes now starts the next run.
    writing = undefined;
  }

  /** @returns milliseconds to wait; undefined if all is done */
  async function sendNext(signal: AbortSignal): Promise<number | undefined> {
    const now = steady.now();
    if (nextAt > now) return nextAt - now;
    const withNewest = isClosing || newestAt <= now;
    const some = await backlog.take({ withNewest });
    if (some === undefined) {
      if (backlog.bytes() > 0) return PAUSE_MS;
      return isClosing ? undefined : IDLE_MS;
    }
    newestAt = now + PAUSE_MS;
    const left = await sendSegment(some, signal);
    if (left.length > 0) {
      some.segment.tries += 1;
      some.segment.retryAt = steady.now() + Math.min(BACKOFF.maxMs, BACKOFF.initialMs * 2 ** some.segment.tries);
    }
    await backlog.putBack(some.segment, left);
    return 0;
  }

  async function work(pause: (typeof pauses)[number], signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        const waitMs = await sendNext(signal);
        if (waitMs === undefined) return;
        if (waitMs > 0) await pause.wait(waitMs, signal);
      } catch (error) {
        if (signal.aborted) return;
        log.error({ error }, "events for the sink cannot be read or deleted, trying again");
        await pause.wait(BACKOFF.initialMs, signal).catch(() => undefined);
      }
    }
  }

  /** @returns the events that the sink has not taken */
  async function sendSegment(
    { segment, lines }: { segment: Segment; lines: readonly string[] },
    signal: AbortSignal,
  ): Promise<string[]> {
    const before = failed.get(segment);
    // It has taken others since these failed, so they are the cause.
    let isOdd = before !== undefined && taken > before.taken;
    const untried = [...lines];
    // Without others, one of them may show it.
    if (!isOdd && segment.tries > 1 && untried.length > 1) {
      const [probe = ""] = untried.splice(Math.floor(Math.random() * untried.length), 1);
      isOdd = (await attempt([probe], { isOdd, signal })) === undefined;
      if (!isOdd) return [...lines];
    }
    const oddRounds = (before?.oddRounds ?? 0) + (isOdd ? 1 : 0);
    const left = await sendParts(untried, { isOdd, mayDrop: oddRounds >= ODD_ROUNDS, signal });
    failed.set(segment, { taken, oddRounds });
    return left;
  }

  async function sendParts(
    lines: readonly string[],
    { isOdd, mayDrop, signal }: { isOdd: boolean; mayDrop: boolean; signal: AbortSignal },
  ): Promise<string[]> {
    const left: string[] = [];
    const parts: (readonly string[])[] = [];
    for (let at = 0; at < lines.length; at += config.batch) parts.push(lines.slice(at, at + config.batch));
    for (let part = parts.shift(); part !== undefined; part = parts.shift()) {
      const error = await attempt(part, { isOdd, signal });
      if (error === undefined) continue;
      const [first = ""] = part;
      if (part.length > 1 && (isOdd || error.isTooLarge)) {
        const half = Math.ceil(part.length / 2);
        parts.unshift(part.slice(0, half), part.slice(half));
      } else if (mayDrop && isOdd && error.isRefusal) {
        counter.inc({ result: "refused" });
        pending.remove(part);
        log.error({ error, event: readEvent(first).id }, "the sink refuses an event, which is not sent again");
      } else {
        left.push(...part);
        if (!isOdd && failures > 1) return [...left, ...parts.flat()];
      }
    }
    return left;
  }

  /** @returns why the sink did not take the events; undefined if it did */
  async function attempt(
    lines: readonly string[],
    { isOdd, signal }: { isOdd: boolean; signal: AbortSignal },
  ): Promise<SinkError | undefined> {
    try {
      await sendBatch(lines, { config, signal });
      counter.inc({ result: "sent" }, lines.length);
      pending.remove(lines);
      taken += 1;
      if (failures > 1) log.info({}, "the sink takes events again");
      failures = nextAt = 0;
      backoff.reset();
      return undefined;
    } catch (cause) {
      signal.throwIfAborted();
      const error = sinkErrorOf(cause, config);
      if (!isOdd) failures += 1;
      // One failure may be due to the events.
      if (failures === 2) log.warn({ error }, "the sink does not take events, trying again");
      const now = steady.now();
      if ((failures > 1 || error.retryAfterMs !== undefined) && nextAt <= now)
        nextAt = now + Math.max(error.retryAfterMs ?? 0, backoff.next());
      return error;
    }
  }

  const sending = Promise.all(pauses.map((pause) => work(pause, stopping.signal)));

  return {
    wants: (type) => config.types.has(type),
    add(event) {
      if (!config.types.has(event.type)) return Promise.resolve();
      const line = cloudEventOf(event, config.source);
      if (waitingCharacters + line.length > MOST_WAITING_CHARACTERS) {
        lose(1, "the disk does not answer");
        return Promise.resolve();
      }
      pending.add(event);
      const written = createDeferred<void>();
      waiting.push({ line, written });
      waitingCharacters += line.length;
      writing ??= write();
      return written.promise;
    },
    lost: () => lost,
    pending: pending.least,
    forget: pending.forget,
    isFull: () => backlog.bytes() > config.mostBytes / 2,
    async close() {
      isClosing = true;
      nextAt = 0;
      const limit = { what: "sending", ms: STOP_WAIT_MS, clock: steady };
      await withTimeLimit(limit, async (signal) => {
        await orAborted(writing ?? Promise.resolve(), signal);
        for (const pause of pauses) pause.end();
        await orAborted(sending, signal);
      }).catch(() => log.warn({ bytes: backlog.bytes() }, "events for the sink were not sent before the stop"));
      stopping.abort(new Error("the sink is closed"));
      // Not awaited: the disk may not answer.
      void backlog.close();
    },
  };
}

/** Counts the events that the sink does not have, by their type and mark. */
function createPending() {
  const byType = new Map<OutgoingType, Map<string, number>>();
  return {
    add({ type, id, time }: Pick<OutgoingEvent, "type" | "id" | "time">): void {
      const marks = byType.get(type) ?? new Map<string, number>();
      const mark = markOf({ type, id, time });
      byType.set(type, marks.set(mark, (marks.get(mark) ?? 0) + 1));
    },
    remove(lines: readonly string[]): void {
      for (const line of lines) {
        const { type, ...event } = readEvent(line);
        const marks = type && byType.get(type);
        if (!marks) continue;
        const mark = markOf({ ...event, type });
        const left = (marks.get(mark) ?? 0) - 1;
        // One of an earlier process was not counted.
        if (left > 0) marks.set(mark, left);
        else marks.delete(mark);
      }
    },
    least(types: readonly OutgoingType[]): string | undefined {
      let least: string | undefined;
      for (const type of types)
        for (const mark of byType.get(type)?.keys() ?? []) if (least === undefined || mark < least) least = mark;
      return least;
    },
    forget(types: readonly OutgoingType[]): void {
      for (const type of types) byType.delete(type);
    },
  };
}
