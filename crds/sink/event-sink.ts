import { Counter, Gauge, type Registry } from "prom-client";
import { createBackoff } from "../client/backoff.ts";
import { type Clock, systemClock } from "../client/clock.ts";
import type { Log } from "../log.ts";
import { createDeferred, createPause, type Deferred, orAborted, withTimeLimit } from "../waits.ts";
import { openBacklog, type Segment } from "./backlog.ts";
import { cloudEventOf, type OutgoingEvent, type OutgoingType } from "./outgoing-event.ts";
import { SinkError, sendBatch } from "./send-batch.ts";
import type { SinkConfig } from "./sink-config.ts";

/** Events that come within this time are sent together, unless a batch is full before. */
const PAUSE_MS = 250;
const MOST_OF_FILE = 100;
/** Requests. More than one helps a sink that takes one event in each. */
const AT_ONCE = 4;
const MOST_WAITING = 20_000;
const IDLE_MS = 60_000;
const BACKOFF = { initialMs: 1000, maxMs: 60_000 };
const STOP_WAIT_MS = 5000;

/** Sends events to the sink, each at least once. */
export interface EventSink {
  /** Whether the sink gets such events. */
  wants(type: OutgoingType): boolean;
  /** Takes an event, if it is wanted. Resolves when the event is in a file, which outlasts this process. */
  add(event: OutgoingEvent): Promise<void>;
  /** How many events were added, how many of the first ones are sent, and how many were lost. */
  readonly progress: { readonly added: number; readonly sent: number; readonly lost: number };
  /** Whether so much waits that only events should be added which cannot be added later. */
  isFull(): boolean;
  /** Tries for 5 s to send what waits. What is left stays in the files. */
  close(): Promise<void>;
}

type Result = "sent" | "refused" | "lost";

/**
 * Opens a sink, and sends what an earlier process has left in its folder.
 *
 * A batch that fails is sent again until the sink takes it, after up to a minute each time. If the sink refuses the
 * content of a batch, its halves are sent, so that only the events go that it refuses alone.
 *
 * @param options.registry gets the metrics of the sink
 * @throws Error if the folder cannot be written to
 */
export async function openSink(
  config: SinkConfig,
  options: {
    registry: Registry;
    log: Log;
    clock?: Clock | undefined;
  },
): Promise<EventSink> {
  const { log, clock = systemClock } = options;
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
  const progress = { added: 0, sent: 0, lost: 0 };
  const stopping = new AbortController();
  const pause = createPause(clock);
  const backoff = createBackoff(BACKOFF);
  let waiting: { readonly line: string; readonly written: Deferred<void> }[] = [];
  let writing: Promise<void> | undefined;
  /** In a row. */
  let writeFailures = 0;
  let isFailing = false;
  let isClosing = false;
  /** Whether the sender may sleep until something is added. */
  let isIdle = false;

  function count(result: Result, events: number): void {
    counter.inc({ result }, events);
  }

  const backlog = await openBacklog(config.folder, {
    most: MOST_OF_FILE,
    mostBytes: config.mostBytes,
    onLost(events) {
      progress.lost += events;
      count("lost", events);
      log.error({ events }, "events for the sink lost: too many wait for it");
    },
    onFailure(error) {
      writeFailures += 1;
      if (writeFailures === 1) log.error({ error }, "events for the sink cannot be written to the disk");
    },
  });

  async function write(): Promise<void> {
    while (waiting.length > 0) {
      const some = waiting;
      waiting = [];
      const before = writeFailures;
      await backlog.append(some.map(({ line }) => line));
      if (writeFailures === before) writeFailures = 0;
      for (const { written } of some) written.resolve();
      if (isIdle) pause.end();
    }
    // In the same turn as the check: an event that comes now starts the next run.
    writing = undefined;
  }

  async function send(signal: AbortSignal): Promise<void> {
    for (;;) {
      const began = clock.now();
      const segment = await backlog.oldest();
      if (segment === undefined) {
        if (isClosing) return;
        isIdle = true;
        if (backlog.bytes() === 0) await pause.wait(IDLE_MS, signal);
        isIdle = false;
        continue;
      }
      await sendSegment(segment, signal);
      const isFull = segment.lines.length >= MOST_OF_FILE;
      if (!isFull && !isClosing) await pause.wait(Math.max(0, began + PAUSE_MS - clock.now()), signal);
    }
  }

  async function sendAll(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        return await send(signal);
      } catch (error) {
        if (signal.aborted) return;
        log.error({ error }, "cannot read events for the sink, trying again");
        await pause.wait(backoff.next(), signal).catch(() => undefined);
      }
    }
  }

  async function sendSegment({ lines, through }: Segment, signal: AbortSignal): Promise<void> {
    const parts: (readonly string[])[] = [];
    for (let at = 0; at < lines.length; at += config.batch) parts.push(lines.slice(at, at + config.batch));
    await Promise.all(
      Array.from({ length: AT_ONCE }, async () => {
        for (let part = parts.shift(); part !== undefined; part = parts.shift()) {
          if (await sendPart(part, signal)) continue;
          const half = Math.ceil(part.length / 2);
          parts.unshift(part.slice(0, half), part.slice(half));
        }
      }),
    );
    await backlog.removeOldest().catch((error: unknown) => log.warn({ error }, "cannot delete events that were sent"));
    progress.sent = Math.max(progress.sent, through);
  }

  /** @returns false if the sink refuses the events together */
  async function sendPart(lines: readonly string[], signal: AbortSignal): Promise<boolean> {
    for (;;) {
      try {
        await sendBatch(lines, { config, signal, now: clock.now() });
        count("sent", lines.length);
        if (isFailing) log.info({}, "the sink takes events again");
        isFailing = false;
        backoff.reset();
        return true;
      } catch (error) {
        signal.throwIfAborted();
        const isRefusal = error instanceof SinkError && error.isRefusal;
        if (isRefusal && lines.length > 1) return false;
        if (isRefusal) {
          count("refused", 1);
          log.error({ error, event: idOf(lines[0]) }, "the sink refuses an event, which is not sent again");
          return true;
        }
        if (!isFailing) log.warn({ error }, "the sink does not take events, trying again");
        isFailing = true;
        const asked = error instanceof SinkError ? (error.retryAfterMs ?? 0) : 0;
        await pause.wait(Math.max(asked, backoff.next()), signal);
      }
    }
  }

  const sending = sendAll(stopping.signal);

  return {
    wants: (type) => config.types.has(type),
    add(event) {
      if (!config.types.has(event.type)) return Promise.resolve();
      // The disk does not answer.
      if (waiting.length >= MOST_WAITING) {
        progress.lost += 1;
        count("lost", 1);
        return Promise.resolve();
      }
      const written = createDeferred<void>();
      waiting.push({ line: cloudEventOf(event, config.source), written });
      progress.added += 1;
      writing ??= write();
      return written.promise;
    },
    progress,
    isFull: () => backlog.bytes() > config.mostBytes / 2,
    async close() {
      isClosing = true;
      await writing;
      pause.end();
      const limit = { what: "sending", ms: STOP_WAIT_MS, clock };
      await withTimeLimit(limit, (signal) => orAborted(sending, signal)).catch(() =>
        log.warn({ bytes: backlog.bytes() }, "events for the sink were not sent before the stop"),
      );
      stopping.abort(new Error("the sink is closed"));
      await sending;
    },
  };
}

function idOf(line = "{}"): unknown {
  try {
    return JSON.parse(line).id;
  } catch {
    return undefined;
  }
}
