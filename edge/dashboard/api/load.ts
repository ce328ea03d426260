import { useEffect, useRef, useState } from "preact/hooks";
import { CallError, logins } from "./call.ts";

/** The result of a read, and the error of the last one. */
export interface Loaded<T> {
  /** Undefined before the first read succeeds. */
  readonly value: T | undefined;
  readonly error: Error | undefined;
  again(): void;
  /** As `again`, but at the earliest `leastMs` after the last read began. */
  againAfter(leastMs: number): void;
}

const PAUSE_MS = 1000;

interface Reading {
  readonly aborted: AbortController;
  isUnderWay: boolean;
  /** Least time between the start of the last read and that of the next; undefined if none was asked for since. */
  askedMs: number | undefined;
  startedAt: number;
  timer: ReturnType<typeof setTimeout> | undefined;
}

/**
 * Reads when the component mounts, when `version` changes, and on request. Only one read runs at a time, so that a
 * resource that changes all the time is still shown.
 *
 * @param of identifies what is read: a new value clears the old result; undefined reads nothing
 * @param leastMs minimum time between the starts of two reads
 */
export function useLoad<T>(
  of: string | undefined,
  read: (signal: AbortSignal) => Promise<T>,
  version: unknown = 0,
  leastMs = PAUSE_MS,
): Loaded<T> {
  const [shown, setShown] = useState<{ of: string | undefined; value?: T; error?: Error }>({ of });
  const reading = useRef<Reading | undefined>(undefined);
  const latest = useRef(read);
  latest.current = read;

  useEffect(() => {
    if (of === undefined) return;
    const mine: Reading = {
      ...{ aborted: new AbortController(), isUnderWay: false, askedMs: undefined },
      ...{ startedAt: Number.NEGATIVE_INFINITY, timer: undefined },
    };
    reading.current = mine;
    return () => {
      reading.current = undefined;
      clearTimeout(mine.timer);
      mine.aborted.abort();
    };
  }, [of]);
  useEffect(() => ask(leastMs), [of, version]);
  // A read that was refused before the login is repeated after it.
  const wasRefused = shown.error instanceof CallError && shown.error.status === 401;
  const login = logins.value;
  useEffect(() => {
    if (wasRefused) ask(leastMs);
  }, [login]);

  const { value, error } = shown.of === of ? shown : { value: undefined, error: undefined };
  return { value, error, again: () => ask(leastMs), againAfter: ask };

  /** Of several that ask, the shortest time is used. */
  function ask(waitMs: number): void {
    const mine = reading.current;
    if (mine === undefined) return;
    mine.askedMs = Math.min(waitMs, mine.askedMs ?? waitMs);
    if (mine.isUnderWay) return;
    clearTimeout(mine.timer);
    const pauseMs = Math.max(0, mine.startedAt + mine.askedMs - performance.now());
    mine.timer = setTimeout(() => void start(mine), pauseMs);
  }

  async function start(mine: Reading): Promise<void> {
    const { signal } = mine.aborted;
    Object.assign(mine, { timer: undefined, isUnderWay: true, askedMs: undefined, startedAt: performance.now() });
    try {
      const value = await latest.current(signal);
      if (!signal.aborted) setShown({ of, value });
    } catch (error) {
      if (!signal.aborted) setShown((before) => ({ ...(before.of === of ? before : { of }), error: error as Error }));
    } finally {
      mine.isUnderWay = false;
      if (mine.askedMs !== undefined && !signal.aborted) ask(mine.askedMs);
    }
  }
}
