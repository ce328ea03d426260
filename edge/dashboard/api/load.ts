import { useEffect, useRef, useState } from "preact/hooks";
import { CallError } from "./call.ts";
import { logins } from "./session.ts";

/** What was read of the API, and how it went the last time. */
export interface Loaded<T> {
  /** Undefined until it was read once. */
  readonly value: T | undefined;
  readonly error: Error | undefined;
  again(): void;
}

const PAUSE_MS = 1000;

interface Reading {
  readonly aborted: AbortController;
  isUnderWay: boolean;
  /** Whether something changed since the reading under way began. */
  isAsked: boolean;
  startedAt: number;
  timer: ReturnType<typeof setTimeout> | undefined;
}

/**
 * Reads something when the component comes to the page, and again when `version` changes or it is asked for. One
 * reading at a time: what changes all the time is read all the same.
 *
 * @param of what is read: another one shows nothing of the one before; undefined reads nothing
 * @param leastMs from the start of a reading to the next one's
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
      ...{ aborted: new AbortController(), isUnderWay: false, isAsked: false },
      ...{ startedAt: Number.NEGATIVE_INFINITY, timer: undefined },
    };
    reading.current = mine;
    return () => {
      reading.current = undefined;
      clearTimeout(mine.timer);
      mine.aborted.abort();
    };
  }, [of]);
  useEffect(ask, [of, version]);
  // What was refused before somebody logged in is read after it.
  const wasRefused = shown.error instanceof CallError && shown.error.status === 401;
  const login = logins.value;
  useEffect(() => {
    if (wasRefused) ask();
  }, [login]);

  const { value, error } = shown.of === of ? shown : { value: undefined, error: undefined };
  return { value, error, again: ask };

  function ask(): void {
    const mine = reading.current;
    if (mine === undefined || mine.timer !== undefined) return;
    if (mine.isUnderWay) {
      mine.isAsked = true;
      return;
    }
    const pauseMs = Math.max(0, mine.startedAt + leastMs - performance.now());
    mine.timer = setTimeout(() => void start(mine), pauseMs);
  }

  async function start(mine: Reading): Promise<void> {
    const { signal } = mine.aborted;
    Object.assign(mine, { timer: undefined, isUnderWay: true, isAsked: false, startedAt: performance.now() });
    try {
      const value = await latest.current(signal);
      if (!signal.aborted) setShown({ of, value });
    } catch (error) {
      if (!signal.aborted) setShown((before) => ({ ...(before.of === of ? before : { of }), error: error as Error }));
    } finally {
      mine.isUnderWay = false;
      if (mine.isAsked && !signal.aborted) ask();
    }
  }
}
